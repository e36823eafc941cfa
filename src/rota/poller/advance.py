"""When a document is due next: a pure function, in specification 4's words."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from rota.clock.protocol import to_utc
from rota.errors import CronCalculationError, InvalidCronExpressionError, invalid
from rota.triggers.cron import parse_cron
from rota.triggers.cron_fields import NEVER_HAPPENS
from rota.triggers.zone import LONGEST_SHIFT

_NO_TIME = timedelta(0)
_NO_INTERVAL = (None, "", False, 0)
"""The values of a document that does not recur. Anything else is an interval, valid or not."""
_EARLIEST = datetime.min.replace(tzinfo=UTC) + LONGEST_SHIFT
"""Earlier instants may have no wall time. Some programs write the first date for an empty one."""


def next_start(  # noqa: PLR0917 - the order of the arguments is public
    interval: str | None,
    sleep_until: datetime | None,
    repeat_until: datetime | None,
    reprocess_delay: timedelta,
    now: datetime,
    zone: tzinfo = UTC,
) -> datetime | None:
    """When a document that was due at ``sleep_until`` is due next; None when never.

    It is the first occurrence of ``interval`` strictly after ``sleep_until``, or now, and
    ``reprocess_delay``. If that is in the past, it is now: one run makes up for all that was
    missed. An occurrence after ``repeat_until`` does not count. That check comes first, so a late
    document is processed once more even if its end has passed.

    ``interval`` is in the extended dialect: five fields, or six with seconds, names, steps, ``@``
    words and ``@every 1h30m``. A wall time that the zone skips does not occur; one that it repeats
    occurs twice. Raises InvalidCronExpressionError, and InvalidInputError with the field's name for
    any other invalid value.
    """
    if interval in _NO_INTERVAL or interval != interval:  # noqa: PLR0124 - NaN is not an interval
        return None
    instant = read_instant(now, "now")
    base = instant if sleep_until is None else read_instant(sleep_until, "sleep_until")
    last = None if repeat_until is None else read_instant(repeat_until, "repeat_until")
    _check_delay(reprocess_delay)
    if not isinstance(interval, str):
        raise invalid("interval", f"must be a text, got {type(interval).__name__}")
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
        return None  # the calendar ends before the next occurrence


def read_instant(value: object, field: str) -> datetime:
    """The instant in UTC; InvalidInputError names the field."""
    if not isinstance(value, datetime):
        raise invalid(field, f"must be an instant, got {type(value).__name__}")
    try:
        return to_utc(value, field)
    except OverflowError:
        raise invalid(field, "must be an instant of the calendar") from None


def _check_delay(value: Any) -> None:
    if not isinstance(value, timedelta) or value < _NO_TIME:
        raise invalid("reprocess_delay", f"must be a timedelta, zero or more, got {value!r:.40}")
