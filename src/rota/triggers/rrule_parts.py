"""The parts of a recurrence rule, its time frame and the search budget."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo

from rota.errors import NoOccurrenceError
from rota.triggers import zone as zones
from rota.triggers.zone import Fold, Gap


class Frequency(IntEnum):
    """The frequencies of RFC 5545, from the rarest."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6

    @property
    def is_sub_daily(self) -> bool:
        """Whether the rule steps in elapsed time instead of wall time."""
        return self >= Frequency.HOURLY


class NthWeekday(NamedTuple):
    """A day of the week, Monday being 0; ``ordinal`` is 0 where every such day is meant."""

    weekday: int
    ordinal: int = 0


@dataclass(frozen=True)
class Parts:
    """The parts of an RRULE. An absent list is empty; lists are ascending, without duplicates.

    ``until`` is a date, a naive wall time or an aware instant, as it was written.
    """

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: date | datetime | None = None
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[NthWeekday, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0

    @property
    def has_ordinals(self) -> bool:
        return any(day.ordinal for day in self.weekdays)

    @property
    def names_days(self) -> bool:
        """Whether a part says which days are meant, beyond the month."""
        return bool(self.week_numbers or self.year_days or self.month_days or self.weekdays)

    @property
    def filters_days(self) -> bool:
        return bool(self.months) or self.names_days

    @property
    def has_lists(self) -> bool:
        """Whether any BY part is given besides BYSETPOS."""
        return self.filters_days or bool(self.hours or self.minutes or self.seconds)


def complete_parts(parts: Parts, start: datetime) -> Parts:
    """``parts`` with the missing ones taken from the wall time ``start``, as RFC 5545 requires.

    A sub-daily rule is unchanged: its missing parts follow from elapsed time.
    """
    if parts.frequency.is_sub_daily:
        return parts
    return replace(
        _complete_days(parts, start),
        hours=parts.hours or (start.hour,),
        minutes=parts.minutes or (start.minute,),
        seconds=parts.seconds or (start.second,),
    )


def _complete_days(parts: Parts, start: datetime) -> Parts:
    if parts.names_days or parts.frequency is Frequency.DAILY:
        return parts
    if parts.frequency is Frequency.WEEKLY:
        return replace(parts, weekdays=(NthWeekday(start.weekday()),))
    if parts.frequency is Frequency.MONTHLY:
        return replace(parts, month_days=(start.day,))
    return replace(parts, months=parts.months or (start.month,), month_days=(start.day,))


def find_conflict(parts: Parts) -> tuple[str, str] | None:
    """The first part that RFC 5545 forbids in this combination, and why; None if there is none."""
    return next(_conflicts(parts), None)


def _conflicts(parts: Parts) -> Iterator[tuple[str, str]]:
    frequency = parts.frequency
    if parts.count is not None and parts.until is not None:
        yield "UNTIL", "cannot stand beside COUNT"
    if parts.week_numbers and frequency is not Frequency.YEARLY:
        yield "BYWEEKNO", "is for FREQ=YEARLY only"
    if parts.year_days and Frequency.MONTHLY <= frequency <= Frequency.DAILY:
        yield "BYYEARDAY", f"cannot stand beside FREQ={frequency.name}"
    if parts.month_days and frequency is Frequency.WEEKLY:
        yield "BYMONTHDAY", "cannot stand beside FREQ=WEEKLY"
    yield from _ordinal_conflicts(parts)
    if parts.positions and not parts.has_lists:
        yield "BYSETPOS", "needs another BY part to choose from"


def _ordinal_conflicts(parts: Parts) -> Iterator[tuple[str, str]]:
    if not parts.has_ordinals:
        return
    if parts.frequency > Frequency.MONTHLY:
        yield "BYDAY", "may have an ordinal with FREQ=MONTHLY or FREQ=YEARLY only"
    if parts.week_numbers:
        yield "BYDAY", "cannot have an ordinal beside BYWEEKNO"


SEARCH_STEPS = 5_000
"""The budget of one question. A step takes about five microseconds."""

COUNT_STEPS = 4_000
"""The budget of one rule for finding the last of COUNT occurrences, when a question needs it.

Both budgets together are less than 50 ms: questions are asked in event loops.
"""

YEAR_STEPS = 60
"""The cost of a search for the transitions of a year."""

JUMP_STEPS = 40
"""The cost of a search for the transitions of a zone."""


class Budget:
    """Counts the steps of a search and raises NoOccurrenceError when there are too many."""

    def __init__(self, text: str, steps: int) -> None:
        self._text = text
        self._steps = steps
        self.spent = 0

    @classmethod
    def for_question(cls, text: str) -> Self:
        return cls(text, SEARCH_STEPS)

    @classmethod
    def for_count(cls, text: str) -> Self:
        return cls(text, COUNT_STEPS)

    def spend(self, steps: int = 1) -> None:
        self.spent += steps
        if self.spent > self._steps:
            raise NoOccurrenceError(
                f'Gave up looking for an occurrence of "{self._text}" after {self._steps} steps',
                {"rule": self._text, "steps": self._steps},
            )


DAY = 86_400
LONGEST_SHIFT = int(zones.LONGEST_SHIFT.total_seconds())

SAMPLED_PER_STEP = 6 * LONGEST_SHIFT
"""How many seconds a search for transitions covers in one step."""

FIRST_YEAR = 2
LAST_YEAR = 9998
"""The years a rule may use. A year is left at each end, so that no zone leaves the calendar."""

_WALL_ORIGIN = datetime.min  # noqa: DTZ901 - wall times are naive
_UTC_ORIGIN = _WALL_ORIGIN.replace(tzinfo=UTC)


def wall_seconds(wall: datetime) -> int:
    """A naive wall time as a number; its fraction of a second is dropped."""
    since = wall - _WALL_ORIGIN
    return (since.days + 1) * DAY + since.seconds


def instant_seconds(instant: datetime) -> int:
    """An aware instant as a number; its fraction of a second is dropped."""
    since = instant - _UTC_ORIGIN
    return (since.days + 1) * DAY + since.seconds


def as_wall(seconds: int) -> datetime:
    return _WALL_ORIGIN + timedelta(seconds=seconds - DAY)


def as_instant(seconds: int) -> datetime:
    return _UTC_ORIGIN + timedelta(0, seconds - DAY)


CALENDAR_END = instant_seconds(datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC))
"""The first second after the last year."""


@dataclass(frozen=True)
class Frame:
    """``start_wall`` is DTSTART on the clock of the zone, ``start_at`` the same as an instant."""

    zone: tzinfo
    start_wall: int
    start_at: int
    gap: Gap
    fold: Fold

    @cached_property
    def _origin(self) -> datetime:
        """A wall time of the zone to count from: adding is cheaper than replacing a zone."""
        return _WALL_ORIGIN.replace(tzinfo=self.zone)

    @property
    def starts_in_gap(self) -> bool:
        first, second = self.showings(self.start_wall)
        return first > second

    def offset_at(self, at: int) -> int:
        """How far the wall time is ahead of UTC."""
        return _whole_seconds(as_instant(at).astimezone(self.zone).utcoffset())

    def calm_offset(self, at: int) -> int | None:
        """The offset, unless a transition is close enough to reorder wall times."""
        return _calm_offset(as_instant(at).astimezone(self.zone))

    def calm_wall_offset(self, wall: int) -> int | None:
        """The same for a wall time, which then happens exactly once."""
        return _calm_offset(self._origin + timedelta(seconds=wall - DAY))

    def plain_offset(self, wall: int) -> int | None:
        """The offset, unless a gap or a fold has the wall time."""
        shown = self._origin + timedelta(0, wall - DAY)
        calm = _calm_offset(shown)
        if calm is not None:
            return calm
        offset = shown.utcoffset()
        return _whole_seconds(offset) if offset == shown.replace(fold=1).utcoffset() else None

    def plain_until(self, wall: int, offset: int) -> int:
        """Up to this wall time the zone keeps the offset, without a gap or a fold."""
        if self.is_fixed:
            return CALENDAR_END
        ends = self._ends_of(as_instant(wall - offset).year)
        return max(wall, ends[bisect_right(ends, wall - offset)] + offset - LONGEST_SHIFT)

    @cached_property
    def is_fixed(self) -> bool:
        """Whether the zone has one offset for all times."""
        return isinstance(self.zone, timezone)

    def stretch_at(self, at: int) -> tuple[int, int]:
        """The offset, and until when it is certain to stay the same: at most two days later."""
        offset, end = self.offset_at(at), at + LONGEST_SHIFT
        if self.offset_at(end) != offset:
            end = next(at for at, _, _ in self.transitions(at + 1, end + 1))
        return offset, end

    def long_stretch_at(self, at: int, budget: Budget) -> tuple[int, int]:
        """The same, up to the next transition or the end of the year. It costs more."""
        year = as_instant(at).year
        if year not in self._years:
            budget.spend(YEAR_STEPS)
        ends = self._ends_of(year)
        return self.offset_at(at), ends[bisect_right(ends, at)]

    def _ends_of(self, year: int) -> tuple[int, ...]:
        """The changes of offset in the year, and its end."""
        known = self._years.get(year)
        if known is None:
            find = _shared_ends if isinstance(self.zone, ZoneInfo) else _find_ends
            known = self._years[year] = find(self.zone, year)
        return known

    @cached_property
    def _years(self) -> dict[int, tuple[int, ...]]:
        """What is known of each year that a search has seen."""
        return {}

    def showings(self, wall: int) -> tuple[int, int]:
        """``wall`` by the offset before and after a nearby transition; equal if there is none."""
        shown = self._origin + timedelta(seconds=wall - DAY)
        first, second = shown.utcoffset(), shown.replace(fold=1).utcoffset()
        return wall - _whole_seconds(first), wall - _whole_seconds(second)

    def last_second_of(self, day: int) -> int:
        """The last second before the zone first shows a later day."""
        first, second = self.showings((day + 1) * DAY)
        if first > second:
            first = next(at for at, _, _ in self.transitions(second, first + 1))
        return first - 1

    def transitions(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Each change of offset in ``[start, end)``: when, and the offset before and after."""
        for change in zones.transitions_between(as_instant(start), as_instant(end), self.zone):
            at = instant_seconds(change.at)
            yield at, _whole_seconds(change.before), _whole_seconds(change.after)


def _find_ends(zone: tzinfo, year: int) -> tuple[int, ...]:
    first, last = (datetime(each, 1, 1, tzinfo=UTC) for each in (year, year + 1))
    changes = zones.transitions_between(first, last, zone)
    return (*(instant_seconds(change.at) for change in changes), instant_seconds(last))


_shared_ends = lru_cache(maxsize=2_048)(_find_ends)
"""For zones that can be keys: every rule in a zone needs the same years."""


def _calm_offset(shown: datetime) -> int | None:
    offset = shown.utcoffset()
    before, after = shown - zones.LONGEST_SHIFT, shown + zones.LONGEST_SHIFT
    return _whole_seconds(offset) if before.utcoffset() == offset == after.utcoffset() else None


def _whole_seconds(offset: timedelta | None) -> int:
    return offset.days * DAY + offset.seconds if offset else 0
