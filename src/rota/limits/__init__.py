"""Limits per tenant and per queue: how many jobs run at once, how many in a time, and ageing."""

from rota.limits.bucket import Bucket, Taken, give_back_tokens, next_token_at, take_tokens
from rota.limits.record import Limit, Rate
from rota.limits.watch import Allotment, LimitWatch

__all__ = [
    "Allotment",
    "Bucket",
    "Limit",
    "LimitWatch",
    "Rate",
    "Taken",
    "give_back_tokens",
    "next_token_at",
    "take_tokens",
]
