"""Quiet hours, in which jobs that notify people wait.

They are windows of the day in wall time, and the weekdays on which they start.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo

from rota.clock.protocol import END_OF_TIME, to_utc
from rota.errors import invalid
from rota.jobs.record import Job
from rota.policy.gates import OPEN, Closed, Verdict, require
from rota.triggers.zone import transitions_between, wall_time

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""The names of the weekdays, at the positions of ``date.weekday()``."""

EVERY_DAY = frozenset(range(7))
MIDNIGHT = time()

_DAY = timedelta(days=1)
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

REASON = "quiet hours"

_NO_DATES: frozenset[date] = frozenset()
_INSTANT_LATER = timedelta(microseconds=1)
_A_MONDAY = date(2024, 1, 1)


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


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Closed to jobs that notify while the wall time in ``zone`` is inside a window.

    The first window is ``start`` to ``end`` on ``weekdays``; ``more`` are others. ``rest_days``
    (weekdays) and ``holidays`` (dates) are quiet from midnight to midnight. Windows may overlap.
    Quiet hours that leave no moment of a week open are refused.

    Only the wall time counts. When it jumps forward over the end of a window, the window ends with
    the jump; when it goes back into a window that has ended, it is quiet a second time.
    """

    start: time
    end: time
    zone: tzinfo
    weekdays: Set[int] = EVERY_DAY
    more: tuple[QuietWindow, ...] = ()
    rest_days: Set[int] = frozenset()
    holidays: Set[date] = _NO_DATES
    windows: tuple[QuietWindow, ...] = field(init=False, repr=False, compare=False)
    """The windows that have a length."""

    def __post_init__(self) -> None:
        first = QuietWindow(self.start, self.end, self.weekdays)
        more = tuple(
            require(QuietWindow, each, f"more[{index}]", "a QuietWindow")
            for index, each in enumerate(self.more)
        )
        if not isinstance(self.zone, tzinfo):
            raise invalid("zone", f"must be a time zone, got {self.zone!r:.40}")
        _set(self, "start", first.start)
        _set(self, "end", first.end)
        _set(self, "weekdays", first.weekdays)
        _set(self, "more", more)
        _set(self, "rest_days", read_weekdays(self.rest_days, "rest_days"))
        _set(self, "holidays", read_dates(self.holidays, "holidays"))
        _set(self, "windows", tuple(each for each in (first, *more) if each.start != each.end))
        if not any(self._is_open_on(weekday) for weekday in range(7)):
            raise invalid("windows", "leave no moment of the week open")

    def reopens_at(self, now: datetime) -> datetime | None:
        """The first instant from ``now`` on that is not quiet; None when ``now`` is not quiet."""
        instant = to_utc(now, "now")
        try:
            wall = wall_time(instant, self.zone)
            return self._find_opening(instant, wall) if self.covers(wall) else None
        except OverflowError:
            return END_OF_TIME

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        """Closed to a job that notifies, until the first instant that is not quiet."""
        reopens_at = self.reopens_at(now) if notifies else None
        return OPEN if reopens_at is None else Closed(reopens_at, REASON)

    def covers(self, wall: datetime) -> bool:
        """Whether the wall time is quiet."""
        if wall.weekday() in self.rest_days or wall.date() in self.holidays:
            return True
        return any(window.covers(wall) for window in self.windows)

    def _find_opening(self, instant: datetime, wall: datetime) -> datetime:
        """The first open instant after a quiet one, checking every DST change in between."""
        while self.covers(wall):
            opens_at = instant + (self._end_of_quiet(wall) - wall)
            changes = transitions_between(instant + _INSTANT_LATER, opens_at, self.zone)
            change = next(changes, None)
            instant = opens_at if change is None else change.at
            wall = wall_time(instant, self.zone)
        return instant

    def _end_of_quiet(self, wall: datetime) -> datetime:
        """When the quiet around ``wall`` ends on a clock without DST changes.

        It always ends: every week has an open moment, and the holidays are finite.
        """
        while self.covers(wall):
            wall = self._next_edge(wall)
        return wall

    def _next_edge(self, wall: datetime) -> datetime:
        """The next wall time at which quiet may end: the end of a window or of the day."""
        shown, day = wall.time(), wall.date()
        later_ends = [window.end for window in self.windows if window.end > shown]
        return datetime.combine(day, min(later_ends)) if later_ends else end_of_day(wall)

    def _is_open_on(self, weekday: int) -> bool:
        """Whether the day has an open moment, which is then midnight or the end of a window."""
        if weekday in self.rest_days:
            return False
        day = _A_MONDAY + timedelta(days=weekday)
        edges = [MIDNIGHT, *(window.end for window in self.windows)]
        walls = (datetime.combine(day, edge) for edge in edges)
        return not all(any(window.covers(wall) for window in self.windows) for wall in walls)


def _set(hours: QuietHours, name: str, value: object) -> None:
    """For ``__post_init__``: store one form of values that may be given in several."""
    object.__setattr__(hours, name, value)


def parse_time_of_day(text: object, field: str) -> time:
    """Parse ``22:00`` or ``22:00:30``. A time is returned as it is."""
    if isinstance(text, time):
        return _read_time(text, field)
    found = _TIME_OF_DAY.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise invalid(field, f"must be a time of day such as 22:00, got {text!r:.40}")
    hour, minute, second = (int(part or 0) for part in found.groups())
    if hour > 23 or minute > 59 or second > 59:
        raise invalid(field, f"must be from 00:00 to 23:59:59, got {text!r:.40}")
    return time(hour, minute, second)


def format_time_of_day(shown: time) -> str:
    """The shortest form: ``22:00``, unless there are seconds."""
    return shown.isoformat("seconds" if shown.second else "minutes")


def read_weekdays(days: object, field: str) -> frozenset[int]:
    """Weekdays by number, 0 is Monday, or by name, ``mon`` to ``sun``."""
    if isinstance(days, str) or not isinstance(days, Iterable):
        raise invalid(field, f"must be a set of weekdays, got {days!r:.40}")
    return frozenset(_read_weekday(day, field) for day in days)


def read_dates(days: object, field: str) -> frozenset[date]:
    """Dates, or text like ``2026-12-25``."""
    if isinstance(days, str) or not isinstance(days, Iterable):
        raise invalid(field, f"must be a set of dates, got {days!r:.40}")
    return frozenset(_read_date(day, field) for day in days)


def end_of_day(wall: datetime) -> datetime:
    """The following midnight."""
    return datetime.combine(wall.date() + _DAY, MIDNIGHT)


def _read_time(value: object, field: str) -> time:
    shown = require(time, value, field, "a time of day")
    if shown.tzinfo is not None:
        raise invalid(field, "must be a time without a zone: the quiet hours have one")
    if shown.microsecond:
        raise invalid(field, "must be a whole second")
    return shown.replace(fold=0)


def _read_weekday(day: object, field: str) -> int:
    if isinstance(day, str) and day.lower() in WEEKDAYS:
        return WEEKDAYS.index(day.lower())
    if isinstance(day, int) and not isinstance(day, bool) and day in EVERY_DAY:
        return day
    raise invalid(field, f"must be 0 (Monday) to 6, or mon to sun, got {day!r:.40}")


def _read_date(day: object, field: str) -> date:
    if isinstance(day, date) and not isinstance(day, datetime):
        return day
    if isinstance(day, str) and _DATE.fullmatch(day):
        try:
            return date.fromisoformat(day)
        except ValueError as error:
            raise invalid(field, f"must be days of the calendar, got {day}") from error
    raise invalid(field, f"must be dates such as 2026-12-25, got {day!r:.40}")
