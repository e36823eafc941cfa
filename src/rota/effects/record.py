"""What is remembered about an effect, and what that means for whoever wants it now."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args

import msgspec

from rota.errors import InvalidInputError, InvalidJobError, StoreError
from rota.jobs import Job
from rota.jobs.validation.payload import read_payload
from rota.stores.protocol import Document

EFFECTS = "effects"
"""The collection of the ledger."""

LONGEST_KEY = 1_000
RETRY_MARK = "#retry:"
"""Stands, in the occurrence of a job that replaces a dead one, before the dead one's id."""

_LONGEST_PLAIN = 255

Value = TypeVar("Value")
Action = Callable[[], Awaitable[Value] | Value]
"""Brings an effect about."""

OnCrash = Literal["at_least_once", "at_most_once"]
"""What to do about an effect that began and of which nobody knows whether it happened."""


class EffectState(Enum):
    """How far an effect has come."""

    RUNNING = "running"
    DONE = "done"
    UNKNOWN = "unknown"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One effect, as it is remembered under its tenant and key.

    While it is RUNNING it belongs to ``holder``, until ``until``.
    """

    tenant: str
    key: str
    state: EffectState
    holder: str
    started_at: datetime
    until: datetime
    ended_at: datetime | None = None
    result: Any = None


class Verdict(Enum):
    """What whoever wants the effect has to do."""

    BEGIN = "begin"
    WAIT = "wait"
    TAKE_RESULT = "take result"
    GIVE_UP = "give up"


def judge_effect(effect: Effect | None, now: datetime, on_crash: OnCrash) -> Verdict:
    """Whether it is for the caller to bring the effect about."""
    if effect is None:
        return Verdict.BEGIN
    if effect.state is EffectState.DONE:
        return Verdict.TAKE_RESULT
    if effect.state is EffectState.RUNNING and now < effect.until:
        return Verdict.WAIT
    return Verdict.BEGIN if on_crash == "at_least_once" else Verdict.GIVE_UP


def begin_effect(tenant: str, key: str, holder: str, now: datetime, lease_for: timedelta) -> Effect:
    return Effect(
        tenant=tenant,
        key=key,
        state=EffectState.RUNNING,
        holder=holder,
        started_at=now,
        until=now + lease_for,
    )


def effect_key(job: Job) -> str:
    """The key of the one effect that a job stands for.

    Jobs that are the same by their idempotency key have the same one, and so has a job that
    replaces a dead one.
    """
    occurrence = (job.occurrence or "").partition(RETRY_MARK)[0]
    return f"{job.kind}:{job.idempotency_key or job.id}:{occurrence}"


def document_key(tenant: str, key: str) -> str:
    """Where an effect is kept: readable where it fits; a tenant holds no slash."""
    plain = f"{tenant}/{key}"
    if len(plain) <= _LONGEST_PLAIN:
        return plain
    return f"sha256:{sha256(plain.encode()).hexdigest()}"


def check_key(key: object) -> str:
    if isinstance(key, str) and 1 <= len(key) <= LONGEST_KEY and key.isprintable():
        return key
    raise InvalidInputError(
        f"key must be printable text of 1 to {LONGEST_KEY} characters", {"field": "key"}
    )


def check_choice(on_crash: str) -> None:
    if on_crash not in get_args(OnCrash):
        raise InvalidInputError(
            f"on_crash must be one of {', '.join(get_args(OnCrash))}", {"field": "on_crash"}
        )


def read_result(result: object) -> Any:
    """What can be remembered of it, as JSON; InvalidInputError when it cannot."""
    try:
        return read_payload(result)
    except InvalidJobError as refusal:
        raise InvalidInputError(f"result {refusal.reason}", {"field": "result"}) from refusal


def encode_effect(effect: Effect) -> bytes:
    return msgspec.json.encode(effect)


def decode_effect(document: Document) -> Effect:
    try:
        return msgspec.json.decode(document.body, type=Effect)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"Effect {document.key} cannot be read: {error}", {"key": document.key}
        ) from error
