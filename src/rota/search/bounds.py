"""Ranges in a search: ``priority:7..``, ``created:2h..``, ``due:now..+1d``.

A range is ``from..to``, and one end may be left out.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta

from rota.clock.duration import read_duration
from rota.errors import InvalidInputError, invalid
from rota.jobs.record import HIGHEST_PRIORITY

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "priority": {
        "7": "that priority",
        "7..": "priority 7 or higher",
        "..3": "priority 3 or lower",
        "2..5": "priority 2 to 5",
    },
    "created": {
        "1h..": "in the last hour",
        "1d..": "in the last day",
        "..7d": "more than 7 days ago",
        "7d..1d": "1 to 7 days ago",
    },
    "due": {
        "..now": "due by now",
        "..1h": "due more than an hour ago",
        "now..+1h": "due in the next hour",
        "+1d..": "due in more than a day",
    },
}
"""Ranges that people ask for, with their meanings, by field."""

_ENDS = 2
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ONE_DAY = timedelta(days=1)

Times = tuple[datetime | None, datetime | None]


def read_priorities(value: str) -> tuple[int | None, int | None]:
    """The lowest and the highest priority of a range. A single number is both."""
    ends = value.split("..")
    if len(ends) > _ENDS or not any(ends) or not all(map(_is_priority, filter(None, ends))):
        raise invalid(
            "q",
            f"has priority:{value}; write a number from 1 to {HIGHEST_PRIORITY} or a range, "
            "as in priority:7, priority:7.., priority:..3 or priority:2..5",
        )
    lowest, highest = (int(each) if each else None for each in (ends[0], ends[-1]))
    if lowest is not None and highest is not None and lowest > highest:
        raise _refuse_order("priority", value)
    return lowest, highest


def _is_priority(text: str) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(HIGHEST_PRIORITY))
    return is_number and 1 <= int(text) <= HIGHEST_PRIORITY


def read_times(field: str, value: str, as_of: datetime) -> Times:
    """The first instant of a range, and the one that it ends before.

    A length of time is that long before ``as_of``, with a plus after it. A date is the whole day.
    Dates and times without an offset are in the zone of ``as_of``.
    """
    ends = value.split("..")
    if not any(ends) or len(ends) > _ENDS or (len(ends) < _ENDS and not _DAY.fullmatch(value)):
        raise _refuse_times(field, value)
    try:
        since = _read_end(ends[0], as_of)
        until = _read_end(ends[-1], as_of, after_day=_ONE_DAY)
    except (InvalidInputError, ValueError, OverflowError) as error:
        raise _refuse_times(field, value) from error
    if since is not None and until is not None and since >= until:
        raise _refuse_order(field, value)
    return since, until


def _read_end(
    text: str, as_of: datetime, *, after_day: timedelta = timedelta(0)
) -> datetime | None:
    if not text:
        return None
    if _DAY.fullmatch(text):
        day = date.fromisoformat(text) + after_day
        return datetime.combine(day, time(), as_of.tzinfo).astimezone(UTC)
    if "-" not in text:
        return _read_distance(text, as_of)
    written = datetime.fromisoformat(text)
    return (written if written.tzinfo else written.replace(tzinfo=as_of.tzinfo)).astimezone(UTC)


def _read_distance(text: str, as_of: datetime) -> datetime:
    """An instant relative to ``as_of``: ``2h`` before it, ``+2h`` after it, or ``now``."""
    now = as_of.astimezone(UTC)
    if text == "now":
        return now
    length = read_duration(text.removeprefix("+"), "q")
    return now + length if text.startswith("+") else now - length


def _refuse_times(field: str, value: str) -> InvalidInputError:
    return invalid(
        "q",
        f"has {field}:{value}; write from..to, as in {field}:2h.. (2 hours ago or later), "
        f"{field}:..7d (more than 7 days ago) or {field}:2026-05-01..2026-05-03; an end is a "
        "length of time ago such as 90m, a length ahead such as +1d, now, a date, or a time such "
        "as 2026-05-01T12:00Z",
    )


def _refuse_order(field: str, value: str) -> InvalidInputError:
    first, _, last = value.partition("..")
    return invalid(
        "q", f"has {field}:{value}, which ends before it begins; write {field}:{last}..{first}"
    )
