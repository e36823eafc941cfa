"""A recurrence rule, bound to its zone and its start."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Protocol

from rota.errors import InvalidInputError
from rota.triggers.rrule.elapsed import ElapsedSearch
from rota.triggers.rrule.parts import (
    CALENDAR_END,
    DAY,
    Budget,
    Frame,
    Frequency,
    Parts,
    as_instant,
    as_wall,
    complete_parts,
    instant_seconds,
    wall_seconds,
)
from rota.triggers.rrule.wall_series import WallSearch, make_series
from rota.triggers.rrule.words import describe_rule
from rota.triggers.zone import to_utc

_PERIODS = {
    Frequency.YEARLY: 366 * DAY,
    Frequency.MONTHLY: 31 * DAY,
    Frequency.WEEKLY: 7 * DAY,
    Frequency.DAILY: DAY,
    Frequency.HOURLY: 3600,
    Frequency.MINUTELY: 60,
    Frequency.SECONDLY: 1,
}


class _Search(Protocol):
    def first_in(self, after: int, upto: int, budget: Budget) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What EXDATE takes away: instants, and whole days of wall time, as numbers."""

    instants: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()


@dataclass(frozen=True, repr=False)
class RecurrenceRule:
    """When an RFC 5545 rule occurs; made by ``parse_rrule``.

    Immutable, and the same question always has the same answer. Two rules are equal when they say
    the same, in whatever order, of the same zone and start. Instants are given in UTC.
    """

    text: str = field(compare=False)
    parts: Parts
    frame: Frame
    added: tuple[int, ...] = ()
    excluded: Exclusions = Exclusions()

    def __repr__(self) -> str:
        return f"RecurrenceRule({self.text!r}, start={self.start.isoformat()}, zone={self.zone})"

    @property
    def zone(self) -> tzinfo:
        return self.frame.zone

    @property
    def start(self) -> datetime:
        """DTSTART as an instant; it occurs only if the rest of the rule allows it."""
        return as_instant(self.frame.start_at)

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first occurrence strictly after ``instant``; None when there is no more.

        Raises NoOccurrenceError when the answer is too far away to be found in a fixed number of
        steps, which takes a sub-daily rule whose parts hardly ever meet.
        """
        after = instant_seconds(to_utc(instant))
        found = self._first(after, CALENDAR_END - 1, Budget.for_question(self.text))
        return None if found is None else as_instant(found)

    def previous_at(self, instant: datetime, /) -> datetime | None:
        """The latest occurrence at or before ``instant``; None when there is none yet."""
        upto = min(instant_seconds(to_utc(instant)), CALENDAR_END - 1)
        found = self._last(upto, Budget.for_question(self.text))
        return None if found is None else as_instant(found)

    def between(
        self, start: datetime, end: datetime, *, limit: int | None = None
    ) -> Iterator[datetime]:
        """The occurrences after ``start`` and not after ``end``, ascending, at most ``limit``."""
        if limit is not None and limit < 0:
            raise InvalidInputError(
                f"limit must not be negative, got {limit}", {"field": "limit", "value": limit}
            )
        after = instant_seconds(to_utc(start, "start"))
        upto = min(instant_seconds(to_utc(end, "end")), CALENDAR_END - 1)
        return self._walk(after, upto, limit)

    def describe(self) -> str:
        """The rule in words, such as "Every 2 weeks on Monday at 18:00"."""
        words = describe_rule(self.parts, as_wall(self.frame.start_wall))
        for count, what in ((len(self.added), "plus"), (self._exclusion_count, "except")):
            if count:
                words += f", {what} {count} {'date' if count == 1 else 'dates'}"
        return words

    @property
    def _exclusion_count(self) -> int:
        return len(self.excluded.instants) + len(self.excluded.days)

    @cached_property
    def _search(self) -> _Search:
        start = as_wall(self.frame.start_wall)
        parts = complete_parts(self.parts, start)
        if parts.frequency.is_sub_daily:
            return ElapsedSearch(self.text, parts, self.frame)
        return WallSearch(make_series(parts, start), self.frame, parts.count)

    @cached_property
    def _additions(self) -> tuple[int, ...]:
        return tuple(at for at in self.added if not self._is_excluded(at))

    @cached_property
    def _until_at(self) -> int:
        """The last second that UNTIL allows; a date stands for the whole of its day."""
        until = self.parts.until
        if until is None:
            return CALENDAR_END
        if not isinstance(until, datetime):
            return self.frame.last_second_of(until.toordinal())
        if until.tzinfo is not None:
            return instant_seconds(until)
        first, second = self.frame.showings(wall_seconds(until))
        return max(first, second)

    def _is_excluded(self, at: int) -> bool:
        if at in self.excluded.instants:
            return True
        return bool(self.excluded.days) and self._day_of(at) in self.excluded.days

    def _day_of(self, at: int) -> int:
        return (at + self.frame.offset_at(at)) // DAY

    def _walk(self, after: int, upto: int, limit: int | None) -> Iterator[datetime]:
        given = 0
        while limit is None or given < limit:
            found = self._first(after, upto, Budget.for_question(self.text))
            if found is None:
                return
            yield as_instant(found)
            after = found
            given += 1

    def _first(self, after: int, upto: int, budget: Budget) -> int | None:
        found = self._first_generated(after, upto, budget)
        place = bisect_right(self._additions, after)
        if place == len(self._additions) or self._additions[place] > upto:
            return found
        added = self._additions[place]
        return added if found is None else min(found, added)

    def _first_generated(self, after: int, upto: int, budget: Budget) -> int | None:
        upto = min(upto, self._until_at)
        while after < upto:
            found = self._search.first_in(after, upto, budget)
            if found is None or not self._is_excluded(found):
                return found
            budget.spend()
            after = found
            if self._day_of(found) in self.excluded.days:
                after = max(found, self.frame.last_second_of(self._day_of(found)))
        return None

    def _last(self, upto: int, budget: Budget) -> int | None:
        found = self._last_generated(min(upto, self._until_at), budget)
        place = bisect_right(self._additions, upto)
        if not place:
            return found
        added = self._additions[place - 1]
        return added if found is None else max(found, added)

    def _last_generated(self, upto: int, budget: Budget) -> int | None:
        """Looks back over ever longer stretches, then closes in on the last occurrence.

        Going forward is the only direction that knows about gaps, folds and counts.
        """
        start, width = self.frame.start_at, _PERIODS[self.parts.frequency] * self.parts.interval
        end, found = upto, None
        while end >= start:
            after = max(end - width, start - 1)
            found = self._first_generated(after, end, budget)
            if found is not None:
                return self._close_in(found, end, budget)
            end, width = after, width * 2
        return None

    def _close_in(self, found: int, end: int, budget: Budget) -> int:
        while (later := self._first_generated(found, end, budget)) is not None:
            found = later
            middle = (found + end) // 2
            beyond = self._first_generated(middle, end, budget)
            if beyond is None:
                end = middle
            else:
                found = beyond
        return found
