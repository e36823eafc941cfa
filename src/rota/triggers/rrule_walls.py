"""The wall times of a rule, and the instants at which a zone shows them."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from functools import cached_property
from typing import Protocol

from rota.triggers.rrule_days import MatchingDays, bits_of
from rota.triggers.rrule_parts import (
    CALENDAR_END,
    DAY,
    JUMP_STEPS,
    LONGEST_SHIFT,
    SAMPLED_PER_STEP,
    Budget,
    Frame,
    Frequency,
    Parts,
)

_MOST_EMPTY_PERIODS = 20_871
"""The number of weeks in 400 years. After that the calendar repeats, so the search can stop."""

_PERIOD_STEPS = 4
"""The cost of choosing the wall times of one period."""

_EMPTY_PERIODS_BEFORE_CHECK = 20
"""After this many empty periods, check whether the positions of BYSETPOS can be filled at all."""


class WallSeries(Protocol):
    def first_from(self, wall: int) -> int | None:
        """The first wall time at or after ``wall``; None when the calendar has no more."""
        ...

    def nth_from(self, wall: int, number: int, budget: Budget) -> int | None:
        """The ``number``-th wall time, counted from 1, at or after ``wall``."""
        ...

    def walls_from(self, wall: int) -> Iterator[int]:
        """The wall times at or after ``wall``, one after the other."""
        ...

    def most_until(self, first: int, last: int) -> int:
        """An upper bound of the number of wall times from ``first`` to ``last``, at no cost."""
        ...


def make_series(parts: Parts, start: date) -> WallSeries:
    """The wall times of completed parts, for a rule that begins on ``start``."""
    days = MatchingDays(parts, start)
    times = times_of_day(parts)
    if not parts.positions:
        return DaySeries(days, times)
    if parts.frequency is Frequency.DAILY:  # a period is a day: positions choose times
        return DaySeries(days, choose(times, parts.positions))
    return PositionSeries(parts, days, times)


def times_of_day(parts: Parts) -> tuple[int, ...]:
    return tuple(
        hour * 3600 + minute * 60 + second
        for hour in parts.hours
        for minute in parts.minutes
        for second in parts.seconds
    )


def choose(members: tuple[int, ...], positions: tuple[int, ...]) -> tuple[int, ...]:
    """The members at the positions of BYSETPOS, from 1, or from the end if negative."""
    return tuple(members[place] for place in chosen_places(len(members), positions))


def chosen_places(count: int, positions: tuple[int, ...]) -> list[int]:
    places = {place - 1 if place > 0 else count + place for place in positions}
    return sorted(place for place in places if 0 <= place < count)


class DaySeries:
    """Every time of day on every matching day."""

    def __init__(self, days: MatchingDays, times: tuple[int, ...]) -> None:
        self._days = days
        self._times = times

    def first_from(self, wall: int) -> int | None:
        times = self._times
        if not times:
            return None
        day, time = divmod(wall, DAY)
        place = bisect_left(times, time)
        if place == len(times):
            day, place = day + 1, 0
        found = self._days.first_from(day)
        if found is None:
            return None
        return found * DAY + times[place if found == day else 0]

    def nth_from(self, wall: int, number: int, budget: Budget) -> int | None:
        """Costs one lookup per skipped year, independent of its number of wall times."""
        if not self._times:
            return None
        day, time = divmod(wall, DAY)
        first = day
        left = number - 1
        while (found := self._days.first_from(first)) is not None:
            budget.spend()
            year, mask = self._days.of_year(date.fromordinal(found).year)
            mask = mask >> (found - year) << (found - year)
            if found == day:
                left += bisect_left(self._times, time)
            place, of_day = divmod(left, len(self._times))
            if place < mask.bit_count():
                return (year + _nth_bit(mask, place)) * DAY + self._times[of_day]
            left -= mask.bit_count() * len(self._times)
            first = year + mask.bit_length()
        return None

    def walls_from(self, wall: int) -> Iterator[int]:
        found = self._days.first_from(wall // DAY) if self._times else None
        while found is not None:
            first, mask = self._days.of_year(date.fromordinal(found).year)
            yield from self._times_on(found, mask >> (found - first), wall)
            found = self._days.first_from(first + max(mask.bit_length(), 365))

    def _times_on(self, first: int, mask: int, wall: int) -> Iterator[int]:
        times = self._times
        for day in bits_of(mask):
            start = (first + day) * DAY
            for of_day in times:
                if start + of_day >= wall:  # otherwise it is earlier on the first day
                    yield start + of_day

    def most_until(self, first: int, last: int) -> int:
        return self._days.most_within(last // DAY - first // DAY + 1) * len(self._times)


class PositionSeries:
    """The wall times of each year, month or week at the positions of BYSETPOS."""

    def __init__(self, parts: Parts, days: MatchingDays, times: tuple[int, ...]) -> None:
        self._parts = parts
        self._days = days
        self._times = times

    def first_from(self, wall: int) -> int | None:
        for chosen in self._periods_from(wall):
            place = bisect_left(chosen, wall)
            if place < len(chosen):
                return chosen[place]
        return None

    def nth_from(self, wall: int, number: int, budget: Budget) -> int | None:
        """Costs one lookup per skipped period."""
        left = number
        for chosen in self._periods_from(wall):
            budget.spend(_PERIOD_STEPS)
            ahead = chosen[bisect_left(chosen, wall) :]
            if left <= len(ahead):
                return ahead[left - 1]
            left -= len(ahead)
        return None

    def walls_from(self, wall: int) -> Iterator[int]:
        for chosen in self._periods_from(wall):
            yield from chosen[bisect_left(chosen, wall) :]

    def most_until(self, first: int, last: int) -> int:
        periods = self._days.most_periods_within((last - first) // DAY)
        return periods * len(self._parts.positions)

    def _periods_from(self, wall: int) -> Iterator[list[int]]:
        """The chosen wall times of each period with a matching day, until no more can come."""
        empty_count = 0
        day = self._days.first_from(self._period_of(wall // DAY)[0])
        while day is not None and empty_count <= _MOST_EMPTY_PERIODS:
            if empty_count == _EMPTY_PERIODS_BEFORE_CHECK and not self._can_be_filled():
                return
            start, end = self._period_of(day)
            chosen = self._chosen_within(start, end)
            empty_count = 0 if chosen else empty_count + 1
            yield chosen
            day = self._days.first_from(end)

    def _can_be_filled(self) -> bool:
        most = self._days.most_in_a_period * len(self._times)
        return min(map(abs, self._parts.positions)) <= most

    def _period_of(self, day: int) -> tuple[int, int]:
        on = date.fromordinal(day)
        if self._parts.frequency is Frequency.YEARLY:
            return date(on.year, 1, 1).toordinal(), date(on.year + 1, 1, 1).toordinal()
        if self._parts.frequency is Frequency.WEEKLY:
            start = day - (on.weekday() - self._parts.week_start) % 7
            return start, start + 7
        year, month = on.year + on.month // 12, on.month % 12 + 1
        return on.replace(day=1).toordinal(), date(year, month, 1).toordinal()

    def _chosen_within(self, start: int, end: int) -> list[int]:
        days, times = self._days.within(start, end), self._times
        places = chosen_places(len(days) * len(times), self._parts.positions)
        return [days[place // len(times)] * DAY + times[place % len(times)] for place in places]


def _nth_bit(mask: int, number: int) -> int:
    for _ in range(number):
        mask &= mask - 1
    return next(bits_of(mask))


_WINDOW = 2 * LONGEST_SHIFT

_DENSE = 8 * DAY
"""If wall times are this close, it pays to know the transitions of the whole year."""

_MOST_EMPTY_WINDOWS = 100
"""If all wall times of this many windows fall into gaps, the rule never occurs.

Such wall times follow the rule of the gaps. Within these windows, every kind of year occurs.
"""

Piece = tuple[int, int, int]
"""A half-open range of instants, and the offset that its wall times have."""


class WallSearch:
    """Finds the instants of a rule in wall time."""

    def __init__(self, text: str, series: WallSeries, frame: Frame, count: int | None) -> None:
        self._count_budget = Budget.for_count(text)
        self._series = series
        self._frame = frame
        self._count = count

    def first_in(self, after: int, upto: int, budget: Budget) -> int | None:
        """The first occurrence later than ``after`` and not later than ``upto``."""
        frame = self._frame
        if after < frame.start_at:
            if self._start_occurs:
                return frame.start_at if frame.start_at <= upto else None
            after = frame.start_at
        found = self._first_after(after, upto, budget)
        return found if found is not None and found <= upto else None

    def run_from(self, at: int, upto: int) -> Iterator[int]:
        """The occurrences after ``at``, up to one that needs a closer look; there may be none.

        Most wall times are in no gap and no fold, and COUNT surely includes them. These come in
        their order, and are listed quickly.
        """
        is_within = self._frame.start_at <= at < upto
        offset = self._frame.calm_offset(at) if is_within else None
        if offset is None:
            return
        previous = plain = at + offset
        counted = previous - 1
        for wall in self._series.walls_from(previous + 1):
            if wall > counted:
                counted = self._surely_counted(wall)
            if wall > plain:
                offset = self._frame.plain_offset(wall)
                is_dense = self._frame.is_fixed or wall - previous < _DENSE
                if offset is not None and is_dense:
                    plain = self._frame.plain_until(wall, offset)
                previous = wall
            if wall > counted or offset is None or wall - offset > upto:
                return
            yield wall - offset

    def _surely_counted(self, wall: int) -> int:
        """COUNT includes all wall times up to this one; less than ``wall`` if that is not sure."""
        count, start, later = self._count, self._frame.start_wall, wall + 366 * DAY
        if count is None:
            return CALENDAR_END
        if self._series.most_until(start, later) <= count:
            return later
        return wall if self._series.most_until(start, wall) <= count else wall - 1

    def _first_after(self, at: int, upto: int, budget: Budget) -> int | None:
        for _ in range(_MOST_EMPTY_WINDOWS):
            if at >= min(upto, CALENDAR_END):
                return None
            budget.spend()
            offset = self._frame.calm_offset(at)
            if offset is not None:
                wall = self._wall_from(at + offset + 1)
                if wall is None:
                    return None
                offset = self._frame.calm_wall_offset(wall)
                if offset is not None:
                    return wall - offset
                at = max(at, min(self._frame.showings(wall)) - LONGEST_SHIFT)
            budget.spend(JUMP_STEPS)
            found = self._first_near_transition(at)
            if found is not None:
                return found
            at += _WINDOW
        return None

    def _wall_from(self, wall: int) -> int | None:
        found = self._series.first_from(max(wall, self._frame.start_wall))
        return found if found is not None and self._is_counted(found) else None

    def _is_counted(self, wall: int) -> bool:
        """Whether COUNT includes the wall time. The exact answer is costly, so it comes last."""
        count, start = self._count, self._frame.start_wall
        if count is None or self._series.most_until(start, wall) <= count:
            return True
        first_last = self._last_with_gaps
        if first_last is None or wall <= first_last:
            return True
        last = self._last_wall
        return last is None or wall <= last

    def _first_near_transition(self, after: int) -> int | None:
        found = None
        for start, end, offset in self._pieces(after, after + _WINDOW):
            wall = self._wall_from(max(start, after + 1) + offset)
            if wall is not None and wall - offset < min(end, found or end):
                found = wall - offset
        return found

    def _pieces(self, after: int, upto: int) -> Iterator[Piece]:
        """The pieces that hold every occurrence in ``(after, upto]``."""
        start = after - LONGEST_SHIFT
        offset = self._frame.offset_at(start)
        for at, before, now in self._frame.transitions(start, upto + 1):
            yield start, at, before
            start, offset = at, now
            if now > before and self._frame.gap == "shift":
                yield at, at + now - before, before
            if now < before and self._frame.fold == "first":
                start += before - now
        yield start, upto + 1, offset

    @cached_property
    def _start_occurs(self) -> bool:
        frame = self._frame
        if frame.gap == "skip" and frame.starts_in_gap:
            return False
        return self._wall_from(frame.start_wall) == frame.start_wall

    @cached_property
    def _last_with_gaps(self) -> int | None:
        """The wall time that uses up COUNT if those in gaps count too; None if nothing does."""
        first, count = self._frame.start_wall, self._count or 1
        return self._series.nth_from(first, count, self._count_budget)

    @cached_property
    def _last_wall(self) -> int | None:
        """The wall time that uses up COUNT; None when the calendar ends first.

        Every wall time counts once, even if a fold repeats it or a gap shifts two to one instant.
        Wall times that a gap skips do not count, so the last one moves on by their number.
        """
        budget = self._count_budget
        first, last, number = self._frame.start_wall, self._last_with_gaps, self._count or 1
        while last is not None and self._frame.gap == "skip":
            number = self._count_skipped(first, last, number, budget)
            if not number:
                break
            first = last + 1
            last = self._series.nth_from(first, number, budget)
        return last

    def _count_skipped(self, first: int, last: int, number: int, budget: Budget) -> int:
        """How many of the ``number`` wall times from ``first`` to ``last`` fall into gaps.

        Looks at each of them or at each transition, whichever are fewer.
        """
        samples = (last - first) // LONGEST_SHIFT
        if number * 5 < samples:
            return self._count_in_gaps(first, last, budget)
        budget.spend((last - first) // SAMPLED_PER_STEP)
        skipped = 0
        margin = LONGEST_SHIFT
        for at, before, after in self._frame.transitions(first - margin, last + margin):
            skipped += self._count_between(max(at + before, first), min(at + after, last + 1))
        return skipped

    def _count_in_gaps(self, first: int, last: int, budget: Budget) -> int:
        skipped = 0
        while (found := self._series.first_from(first)) is not None and found <= last:
            budget.spend(2)
            before, after = self._frame.showings(found)
            skipped += before > after
            first = found + 1
        return skipped

    def _count_between(self, wall: int, end: int) -> int:
        count = 0
        while wall < end and (found := self._series.first_from(wall)) is not None and found < end:
            count += 1
            wall = found + 1
        return count
