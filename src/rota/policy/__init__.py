"""What holds jobs back or lets them run: gates, limits and the once-ledger.

``rota.gates`` exports the gates.
"""

from rota.policy.limits import (
    Bucket,
    Limit,
    Rate,
    Taken,
    give_back_tokens,
    next_token_at,
    take_tokens,
)
from rota.policy.once import Effect, EffectState, Ledger, LedgerSettings, OnCrash, effect_key
from rota.policy.watch import LeasedUnderLimits, LimitWatch

__all__ = [
    "Bucket",
    "Effect",
    "EffectState",
    "LeasedUnderLimits",
    "Ledger",
    "LedgerSettings",
    "Limit",
    "LimitWatch",
    "OnCrash",
    "Rate",
    "Taken",
    "effect_key",
    "give_back_tokens",
    "next_token_at",
    "take_tokens",
]
