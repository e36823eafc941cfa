"""When a document is next: a pure function, in specification 4's words."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from rota.errors import CronCalculationError, InvalidCronExpressionError, InvalidInputError
from rota.triggers.cron.expression import NEVER_HAPPENS
from rota.triggers.parse import parse_cron
from rota.triggers.zone import LONGEST_SHIFT, to_utc

_NO_TIME = timedelta(0)
_NO_INTERVAL = (None, "", False, 0)
"""What is kept where a document does not recur; anything else is an interval, good or bad."""
_EARLIEST = datetime.min.replace(tzinfo=UTC) + LONGEST_SHIFT
"""Before it there may be no wall time: other programs' empty date is the calendar's first one."""


def next_start(  # noqa: PLR0917 - the order of the six is part of what may be relied on
    interval: str | None,
    sleep_until: datetime | None,
    repeat_until: datetime | None,
    reprocess_delay: timedelta,
    now: datetime,
    zone: tzinfo = UTC,
) -> datetime | None:
    """When a document that was due at ``sleep_until`` is to be processed next; None when never.

    It is the first occurrence of ``interval`` strictly after ``sleep_until``, or now, and
    ``reprocess_delay``. Where that is past it is now, so that whatever was missed is made up for
    once. One later than ``repeat_until`` does not count; the end is looked at before the past, so
    a document that is late is processed once more although its end has come.

    ``interval`` is of the extended dialect: five fields, or six with seconds, names, steps, ``@``
    words and ``@every 1h30m``. A wall time that the zone skips is passed over, one that it shows
    twice occurs twice; a date that no year has never comes. Raises InvalidCronExpressionError, and
    InvalidInputError with the field's name for anything else that cannot be used.
    """
    if interval in _NO_INTERVAL or interval != interval:  # noqa: PLR0124 - NaN is none either
        return None
    instant = _read_instant(now, "now")
    base = instant if sleep_until is None else _read_instant(sleep_until, "sleep_until")
    last = None if repeat_until is None else _read_instant(repeat_until, "repeat_until")
    _check_delay(reprocess_delay)
    if not isinstance(interval, str):
        raise _refusal("interval", f"must be a text, got {type(interval).__name__}")
    found = _first_after(interval, base, reprocess_delay, zone)
    if found is None or (last is not None and found > last):
        return None
    return max(found, instant)


def _first_after(text: str, base: datetime, delay: timedelta, zone: tzinfo) -> datetime | None:
    try:
        cron = parse_cron(text, dialect="extended")
        return cron.next_after(max(base, _EARLIEST) + delay, zone, gap="skip", fold="both")
    except InvalidCronExpressionError as error:
        if error.reason == NEVER_HAPPENS:
            return None
        raise
    except (CronCalculationError, OverflowError):
        return None  # the calendar ends before there is another one


def _read_instant(value: Any, field: str) -> datetime:
    if not isinstance(value, datetime):
        raise _refusal(field, f"must be an instant, got {type(value).__name__}")
    try:
        return to_utc(value, field)
    except OverflowError:
        raise _refusal(field, "must be an instant of the calendar") from None


def _check_delay(value: Any) -> None:
    if not isinstance(value, timedelta) or value < _NO_TIME:
        raise _refusal("reprocess_delay", f"must be a timedelta, zero or more, got {value!r:.40}")


def _refusal(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})
