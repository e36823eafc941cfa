"""Limits as documents, and back: the key says whom one concerns, the body is JSON."""

from datetime import timedelta
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInputError
from rota.limits.record import Limit, Rate, refuse

LIMITS = "limits"
"""The collection of the documents."""

CHANGES = "limit_changes"
"""The collection of the one document whose version grows with every change of a limit."""

LATEST_CHANGE = "latest"

BUCKETS = "limit_buckets"
"""The collection of the tokens that are left, under the same keys as the limits."""


class Damage(NamedTuple):
    """A document that is no limit. It is left alone, and the others hold."""

    key: str
    reason: str


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    running: int | None = None
    rate: Rate | None = None
    ageing: timedelta | None = None


def key_of(tenant: str | None, queue: str | None) -> str:
    """The key of the limit on a tenant, a queue, a queue of a tenant, or everything."""
    if tenant is None:
        return "all" if queue is None else f"queue/{queue}"
    return f"tenant/{tenant}" if queue is None else f"tenant/{tenant}/queue/{queue}"


def encode_limit(limit: Limit) -> bytes:
    """The body of the document."""
    body = _Body(running=limit.running, rate=limit.rate, ageing=limit.ageing)
    return msgspec.json.encode(body)


def decode_limit(key: str, body: bytes) -> Limit | Damage:
    """The limit that ``encode_limit`` wrote under ``key_of`` it, or what is wrong with it."""
    try:
        tenant, queue = _read_key(key.split("/"))
        read = msgspec.json.decode(body, type=_Body)
        return Limit(
            tenant=tenant, queue=queue, running=read.running, rate=read.rate, ageing=read.ageing
        )
    except (msgspec.DecodeError, InvalidInputError, UnicodeDecodeError) as error:
        return Damage(key, str(error))


def _read_key(key: list[str]) -> tuple[str | None, str | None]:
    match key:
        case ["all"]:
            return None, None
        case ["queue", queue]:
            return None, queue
        case ["tenant", tenant]:
            return tenant, None
        case ["tenant", tenant, "queue", queue]:
            return tenant, queue
        case _:
            raise refuse("key", "names no limit that is known")
