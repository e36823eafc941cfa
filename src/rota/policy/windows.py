"""Windows of the day in wall time, and the weekdays on which they start."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import TypeVar

from rota.errors import InvalidInputError

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The names of the weekdays, at the positions of ``date.weekday()``."""

EVERY_DAY = frozenset(range(7))
MIDNIGHT = time()

_DAY = timedelta(days=1)
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class QuietWindow:
    """From ``start`` until just before ``end``, on each of the ``weekdays`` (0 is Monday).

    A window that ends before it starts lasts past midnight and belongs to the day on which it
    starts. A window with equal ends is empty.
    """

    start: time
    end: time
    weekdays: Set[int] = EVERY_DAY

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _read_time(self.start, "start"))
        object.__setattr__(self, "end", _read_time(self.end, "end"))
        object.__setattr__(self, "weekdays", read_weekdays(self.weekdays, "weekdays"))

    def covers(self, wall: datetime) -> bool:
        """Whether the wall time is inside the window."""
        shown = wall.time()
        if self.start <= self.end:
            return self.start <= shown < self.end and wall.weekday() in self.weekdays
        if shown >= self.start:
            return wall.weekday() in self.weekdays
        return shown < self.end and (wall.weekday() - 1) % 7 in self.weekdays


def parse_time_of_day(text: object, field: str) -> time:
    """Parse ``22:00`` or ``22:00:30``. A time is returned as it is."""
    if isinstance(text, time):
        return _read_time(text, field)
    found = _TIME_OF_DAY.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise refuse(field, f"must be a time of day such as 22:00, got {text!r:.40}")
    hour, minute, second = (int(part or 0) for part in found.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise refuse(field, f"must be from 00:00 to 23:59:59, got {text!r:.40}")
    return time(hour, minute, second)


def format_time_of_day(shown: time) -> str:
    """The shortest form: ``22:00``, unless there are seconds."""
    return shown.isoformat("seconds" if shown.second else "minutes")


def read_weekdays(days: object, field: str) -> frozenset[int]:
    """Weekdays by number, 0 is Monday, or by name, ``mon`` to ``sun``."""
    if isinstance(days, str) or not isinstance(days, Iterable):
        raise refuse(field, f"must be a set of weekdays, got {days!r:.40}")
    return frozenset(_read_weekday(day, field) for day in days)


def read_dates(days: object, field: str) -> frozenset[date]:
    """Dates, or text like ``2026-12-25``."""
    if isinstance(days, str) or not isinstance(days, Iterable):
        raise refuse(field, f"must be a set of dates, got {days!r:.40}")
    return frozenset(_read_date(day, field) for day in days)


def end_of_day(wall: datetime) -> datetime:
    """The following midnight."""
    return datetime.combine(wall.date() + _DAY, MIDNIGHT)


def require(kind: type[Kind], value: object, field: str, wanted: str) -> Kind:
    if not isinstance(value, kind):
        raise refuse(field, f"must be {wanted}, got {value!r:.40}")
    return value


def refuse(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})


def _read_time(value: object, field: str) -> time:
    shown = require(time, value, field, "a time of day")
    if shown.tzinfo is not None:
        raise refuse(field, "must be a time without a zone: the quiet hours have one")
    if shown.microsecond:
        raise refuse(field, "must be a whole second")
    return shown.replace(fold=0)


def _read_weekday(day: object, field: str) -> int:
    if isinstance(day, str) and day.lower() in WEEKDAYS:
        return WEEKDAYS.index(day.lower())
    if isinstance(day, int) and not isinstance(day, bool) and day in EVERY_DAY:
        return day
    raise refuse(field, f"must be 0 (Monday) to 6, or mon to sun, got {day!r:.40}")


def _read_date(day: object, field: str) -> date:
    if isinstance(day, date) and not isinstance(day, datetime):
        return day
    if isinstance(day, str) and _DATE.fullmatch(day):
        try:
            return date.fromisoformat(day)
        except ValueError as error:
            raise refuse(field, f"must be days of the calendar, got {day}") from error
    raise refuse(field, f"must be dates such as 2026-12-25, got {day!r:.40}")
