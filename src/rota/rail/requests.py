"""Turns a call in specification 3's words into a job request.

Errors name the argument as the caller spelled it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from rota.errors import InvalidJobError
from rota.jobs import JobRequest, RetryPolicy
from rota.jobs.fields import read_instant, read_name, read_number, read_word, require, type_name
from rota.rail.context import RailSettings

Moment = datetime | str | int | float
"""An aware datetime, ISO 8601 text with an offset, or a number of seconds or milliseconds."""

MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds since 1970, smaller ones seconds.

As seconds this would be the year 5138, as milliseconds it is March 1973, so realistic times from
Python and from JavaScript are both read correctly.
"""

KEY_IN_PAYLOAD = "idempotencyKey"
BUCKET_IN_PAYLOAD = "runAtBucket"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_LOWEST_PRIORITY = 5
_OUTER_NAMES = {"due_at": "run_at", "recurrence.zone": "tz", "recurrence.start": "start_from"}

Value = TypeVar("Value")


class Rule(msgspec.Struct, frozen=True):
    """When a series occurs, as given to ``schedule_recurring``."""

    rrule: object = None
    cron: object = None
    interval: object = None
    tz: object = None
    start_from: object = None
    until: object = None
    count: object = None
    gap: object = None
    fold: object = None
    overlap: object = None

    @property
    def texts(self) -> list[str]:
        """The given texts, of which exactly one must be set."""
        return [name for name in ("rrule", "cron", "interval") if getattr(self, name) is not None]


class Asked(NamedTuple):
    """The arguments common to both kinds of schedule."""

    kind: object
    payload: object
    priority: object = 3
    idempotency_key: object = None
    queue: object = None
    retry_policy: RetryPolicy | Mapping[str, Any] | None = None


def read_tenant(value: object) -> str:
    return read_word(value, "tenant")


def read_moment(value: object, field: str) -> datetime:
    """The instant in UTC."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return read_instant(value, field)
    if not isfinite(value) or value < 0:
        raise InvalidJobError(field, "must not be before 1970, nor a number that is none")
    try:
        return _EPOCH + value * (_MILLISECOND if value >= MILLISECONDS_FROM else _SECOND)
    except OverflowError as error:
        raise InvalidJobError(field, "must be an instant of the calendar") from error


def read_rail_priority(value: object) -> int:
    """Convert priority 1 (highest) to 5 into Rota's 10, 8, 6, 4 or 2."""
    return 12 - 2 * read_number(value, "priority", 1, _LOWEST_PRIORITY)


def show_rail_priority(priority: int) -> int:
    """Convert a Rota priority to the rail's. Values in between round to the next higher one."""
    return 6 - (priority + 1) // 2


def read_once(asked: Asked, run_at: object, settings: RailSettings) -> JobRequest:
    """A request for one job."""
    payload = _read_object(asked.payload)
    return msgspec.structs.replace(
        _read_common(asked, payload, settings),
        due_at=read_moment(run_at, "run_at"),
        occurrence=_from_payload(payload, BUCKET_IN_PAYLOAD),
    )


def read_series(asked: Asked, rule: Rule, settings: RailSettings) -> JobRequest:
    """A request for the first job of a series."""
    payload = _read_object(asked.payload)
    if BUCKET_IN_PAYLOAD in payload:
        field = f"payload.{BUCKET_IN_PAYLOAD}"
        raise InvalidJobError(field, "cannot be given for a series: each occurrence has its own")
    request = _read_common(asked, payload, settings)
    return msgspec.structs.replace(request, recurrence=read_rule(rule))


def read_rule(rule: Rule) -> Any:
    """The fields of a ``Recurrence``, after the checks that only this entrance needs."""
    if len(rule.texts) != 1:
        raise InvalidJobError("rrule", "or cron or interval must be given, and only one of them")
    return {
        "rrule": rule.rrule,
        "cron": rule.cron,
        "interval": _read_interval(rule.interval),
        "zone": _read_zone(rule.tz, is_needed=rule.interval is None),
        "start": _read_optional(rule.start_from, "start_from", read_moment),
        "until": _read_optional(rule.until, "until", read_moment),
        "count": rule.count,
        "gap": rule.gap,
        "fold": rule.fold,
        "overlap": rule.overlap,
    }


@contextmanager
def outer_names(rule: Rule | None = None) -> Iterator[None]:
    """Within the context, errors name fields as callers of the rail know them."""
    try:
        yield
    except InvalidJobError as error:
        named = _OUTER_NAMES.get(error.field, error.field.removeprefix("recurrence."))
        if named == "recurrence" and rule is not None:
            named = rule.texts[0]
        if named == error.field:
            raise
        raise InvalidJobError(named, error.reason) from error


def _read_common(asked: Asked, payload: dict[str, Any], settings: RailSettings) -> JobRequest:
    kind = read_word(asked.kind, "kind")
    policy: Any = settings.retry_policy if asked.retry_policy is None else asked.retry_policy
    queue: Any = settings.queue if asked.queue is None else asked.queue
    return JobRequest(
        name=kind,
        kind=kind,
        queue=queue,
        payload=payload,
        priority=read_rail_priority(asked.priority),
        retry_policy=policy,
        idempotency_key=_read_key(asked.idempotency_key, payload),
    )


def _read_object(payload: object) -> dict[str, Any]:
    if not isinstance(payload, Mapping):
        raise InvalidJobError("payload", f"must be a JSON object, got {type_name(payload)}")
    return dict(payload)


def _read_key(key: object, payload: Mapping[str, Any]) -> str | None:
    """The idempotency key, from the argument or the payload."""
    inner = _from_payload(payload, KEY_IN_PAYLOAD)
    if key is None:
        return inner
    named = read_name(key, "idempotency_key")
    if inner is not None and inner != named:
        raise InvalidJobError("idempotency_key", f"must be the one in payload.{KEY_IN_PAYLOAD}")
    return named


def _from_payload(payload: Mapping[str, Any], name: str) -> str | None:
    return _read_optional(payload.get(name), f"payload.{name}", read_name)


def _read_interval(value: object) -> object:
    """A timedelta as text. Other values are validated later."""
    if not isinstance(value, timedelta):
        return value
    if value < _SECOND or value % _SECOND:
        raise InvalidJobError("interval", f"must be whole seconds, at least one, got {value}")
    return f"{value // _SECOND}s"


def _read_zone(value: object, *, is_needed: bool) -> str:
    if value is None:
        if is_needed:
            raise InvalidJobError("tz", "is missing: a time zone such as Europe/London")
        return "UTC"
    return value.key if isinstance(value, ZoneInfo) else require(str, value, "tz", "a time zone")


def _read_optional(value: object, field: str, read: Callable[[object, str], Value]) -> Value | None:
    return None if value is None else read(value, field)
