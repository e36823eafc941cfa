"""Rules of hours, minutes and seconds, which step in elapsed time.

Time is cut into periods of one unit (an hour, a minute, a second) from the beginning of the unit
DTSTART lies in, and every INTERVAL-th of them is used. In a used period, an instant occurs when

- the wall clock at that very instant satisfies every BY part that is given, and
- for a smaller unit without a BY part, it is as far into the period as DTSTART is into its own.

So DST changes neither double nor lose an occurrence: no two periods share an instant.

The search checks what rules an instant out, and continues with the first instant that this does not
rule out: the next day, time of day or period. An instant that nothing rules out is the answer.
"""

from bisect import bisect_left
from datetime import date
from functools import cached_property
from math import gcd

from rota.triggers.rrule_days import MatchingDays
from rota.triggers.rrule_parts import (
    CALENDAR_END,
    DAY,
    LONGEST_SHIFT,
    SAMPLED_PER_STEP,
    Budget,
    Frame,
    Frequency,
    Parts,
    as_wall,
)
from rota.triggers.rrule_walls import choose

_WEEK = 7 * DAY
_CALENDAR_CYCLE = 146_097 * DAY
_ALL_KINDS_OF_YEAR = 41 * 366 * DAY
"""In 40 years, leap years and other years begin on each weekday, across a century too."""

_RULES_SETTLED = date(2100, 1, 1).toordinal() * DAY
"""From here on every zone of the IANA database repeats its year."""

_MOST_WINDOWS = 48

_UNITS = {Frequency.HOURLY: 3600, Frequency.MINUTELY: 60, Frequency.SECONDLY: 1}


class TimeFilter:
    """The times of day that the BY parts at and above a rule's frequency allow."""

    def __init__(self, parts: Parts) -> None:
        self.hours = parts.hours or tuple(range(24))
        is_minutely = parts.frequency >= Frequency.MINUTELY
        self.minutes = (is_minutely and parts.minutes) or tuple(range(60))
        is_secondly = parts.frequency >= Frequency.SECONDLY
        self.seconds = (is_secondly and parts.seconds) or tuple(range(60))
        self.is_open = len(self.hours) * len(self.minutes) * len(self.seconds) == DAY

    def first_from(self, time: int) -> int | None:
        """The first allowed time of day from ``time`` on."""
        hour, minute, second = time // 3600, time // 60 % 60, time % 60
        if hour in self.hours:
            if minute in self.minutes and second <= self.seconds[-1]:
                found = self.seconds[bisect_left(self.seconds, second)]
                return hour * 3600 + minute * 60 + found
            if minute < self.minutes[-1]:
                found = self.minutes[bisect_left(self.minutes, minute + 1)]
                return hour * 3600 + found * 60 + self.seconds[0]
        if hour < self.hours[-1]:
            found = self.hours[bisect_left(self.hours, hour + 1)]
            return found * 3600 + self.minutes[0] * 60 + self.seconds[0]
        return None

    @cached_property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Ranges of times of day, ends included, that hold every allowed one; only a few."""
        starts, length = [hour * 3600 for hour in self.hours], 3600
        for values, unit in ((self.minutes, 60), (self.seconds, 1)):
            finer = [start + value * unit for start in starts for value in values]
            if len(finer) > _MOST_WINDOWS:
                break
            starts, length = finer, unit
        return tuple((start, start + length - 1) for start in starts)

    def first_step(self, wall: int, step: int, unit: int) -> int:
        """How far from ``wall``, in whole steps, a unit may begin that has an allowed time.

        It is never further than the first one that has. 0 if no step has one.
        """
        found = [
            steps
            for low, high in self.windows
            if (steps := first_hit(step, DAY, low - unit + 1 - wall, high - wall)) is not None
        ]
        return min(found, default=0) * step

    def count_units(self, unit: int) -> int:
        """How many hours, minutes or seconds of a day, as ``unit`` says, are allowed."""
        minutes = len(self.minutes) if unit <= 60 else 1
        return len(self.hours) * minutes * (len(self.seconds) if unit == 1 else 1)

    def meets(self, wall: int, step: int, weekdays: tuple[int, ...]) -> bool:
        """Whether ``wall`` plus some number of steps is ever allowed, on one of ``weekdays``.

        Only remainders by a week are compared, so False is certain and True is not.
        """
        origin = wall + 6 * DAY  # day 1 of the scale is a Monday
        return any(
            (weekday * DAY + time - origin) % gcd(step, _WEEK) == 0
            for second in self.seconds
            if (second - origin) % gcd(step, 60) == 0
            for minute in self.minutes
            if (minute * 60 + second - origin) % gcd(step, 3600) == 0
            for hour in self.hours
            for time in (hour * 3600 + minute * 60 + second,)
            if (time - origin) % gcd(step, DAY) == 0
            for weekday in weekdays
        )


def first_hit(step: int, modulus: int, low: int, high: int) -> int | None:
    """The least number of steps from 0 that lands in ``low`` to ``high``, all modulo ``modulus``.

    None if none does. Like the greatest common divisor, it takes few rounds.
    """
    if high - low >= modulus - 1:
        return 0
    low, high, step = low % modulus, high % modulus, step % modulus
    if low == 0 or low > high:
        return 0
    if step == 0:
        return None
    if 2 * step > modulus:
        return first_hit(modulus - step, modulus, modulus - high, modulus - low)
    steps = -(-low // step)
    if steps * step <= high:
        return steps
    rounds = first_hit(-modulus % step, step, low % step, high % step)
    return None if rounds is None else -(-(low + modulus * rounds) // step)


class ElapsedSearch:
    """Finds the instants of a rule that steps in elapsed time.

    ``gap`` and ``fold`` do not matter: every instant exists once.
    """

    def __init__(self, text: str, parts: Parts, frame: Frame) -> None:
        self._count_budget = Budget.for_count(text)
        self._parts = parts
        self._frame = frame
        self._unit = _UNITS[parts.frequency]
        self._step = self._unit * parts.interval
        self._anchor = frame.start_at - frame.start_wall % self._unit
        self._times = TimeFilter(parts)
        self._days = MatchingDays(parts, as_wall(frame.start_wall)) if parts.filters_days else None
        self._residues: dict[int, tuple[int, ...]] = {}
        self._meetings: dict[int, bool] = {}

    def first_in(self, after: int, upto: int, budget: Budget) -> int | None:
        """The first occurrence later than ``after`` and not later than ``upto``."""
        if not self._is_counted(after):
            return None
        found = self._first_from(max(after + 1, self._frame.start_at), upto, budget)
        is_found = found is not None and found <= upto and self._is_counted(found)
        return found if is_found else None

    def _is_counted(self, at: int) -> bool:
        """Whether COUNT may include an occurrence at ``at``. The exact answer is costly."""
        count = self._parts.count
        if count is None or at < self._frame.start_at or self._most_until(at) <= count:
            return True
        last = self._last_at
        return last is None or at <= last

    def _most_until(self, at: int) -> int:
        """An upper bound of the number of occurrences from the start to ``at``, at no cost."""
        if self._parts.positions:
            in_a_period = len(self._positions)
        else:  # an hour in which the clock goes back may show a minute twice
            minutes = 2 * len(self._parts.minutes) if self._unit > 60 else 0
            seconds = len(self._parts.seconds) if self._unit > 1 else 0
            in_a_period = max(minutes, 1) * max(seconds, 1)
        periods = (at - self._anchor) // self._step + 1
        days = (at - self._anchor) // DAY + 2
        days += days // 30  # a day on which the clock goes back may count twice
        return min(periods, days * self._times.count_units(self._unit)) * in_a_period

    @cached_property
    def _last_at(self) -> int | None:
        """The occurrence that uses up COUNT; None if nothing does."""
        count, start = self._parts.count, self._frame.start_at
        if count is None:
            return None
        if self._is_unfiltered:
            return start + (count - 1) * self._step
        budget = self._count_budget
        found = self._first_from(start, CALENDAR_END, budget)
        for _ in range(count - 1):
            if found is None:
                return None
            found = self._first_from(found + 1, CALENDAR_END, budget)
        return found

    @cached_property
    def _is_unfiltered(self) -> bool:
        """Whether every used period has one occurrence, as far into it as DTSTART."""
        return not self._parts.has_lists

    @cached_property
    def _positions(self) -> tuple[int, ...]:
        """The positions that the wall times of one period can fill."""
        size = max(1, len(self._parts.seconds)) if self._unit > 1 else 1
        size *= max(1, len(self._parts.minutes)) if self._unit > 60 else 1
        return tuple(place for place in self._parts.positions if abs(place) <= size)

    def _first_from(self, at: int, upto: int, budget: Budget) -> int | None:
        if self._is_unfiltered:
            late = (at - self._frame.start_at) % self._step
            return at + (self._step - late) % self._step
        if self._parts.positions:
            return self._first_position_from(at, upto, budget)
        return self._first_member_from(at, upto, budget)

    def _first_position_from(self, at: int, upto: int, budget: Budget) -> int | None:
        period = at - (at - self._anchor) % self._step
        while self._positions:
            first = self._first_member_from(period, upto, budget)
            if first is None:
                break
            period = first - (first - self._anchor) % self._step
            chosen = choose(self._members(first, period + self._unit, budget), self._positions)
            place = bisect_left(chosen, at)
            if place < len(chosen):
                return chosen[place]
            period += self._step
        return None

    def _members(self, first: int, end: int, budget: Budget) -> tuple[int, ...]:
        found, members = first, [first]
        while (later := self._first_member_from(found + 1, end - 1, budget)) is not None:
            members.append(later)
            found = later
        return tuple(members)

    def _first_member_from(self, at: int, upto: int, budget: Budget) -> int | None:
        """The first instant from ``at`` that nothing rules out."""
        upto = min(upto, self._horizon(at))
        end = at - 1
        while at <= upto:
            budget.spend()
            if at == end:  # it did not help to look at two days
                offset, end = self._frame.long_stretch_at(at, budget)
            elif at > end:
                offset, end = self._frame.stretch_at(at)
            if self._is_met(offset):
                later = self._first_not_ruled_out(at, offset, end)
            else:
                later = self._next_met_stretch(at, upto, budget)
                end = at
            if later is None or later == at:
                return later
            at = later
        return None

    def _first_not_ruled_out(self, at: int, offset: int, end: int) -> int | None:
        """The first instant from ``at`` that may occur; never later than one that does.

        The offset holds until ``end``, and beyond it nothing is concluded from it.
        """
        day, time = divmod(at + offset, DAY)
        if self._days is not None:
            found = self._days.first_from(day)
            if found is None:
                return None
            if found > day:
                start = found * DAY - offset
                return start if start <= end else max(end, start - LONGEST_SHIFT)
        if not self._times.is_open:
            allowed = self._times.first_from(time)
            if allowed is None:
                return min((day + 1) * DAY - offset, end)
            if allowed > time:
                return min(day * DAY + allowed - offset, end)
        return self._first_step_from(at, offset, end)

    def _first_step_from(self, at: int, offset: int, end: int) -> int:
        into = (at - self._anchor) % self._step
        if into < self._unit:
            residues = self._residues_at(offset)
            place = bisect_left(residues, into)
            if place < len(residues):
                return min(at - into + residues[place], end)
            if end < at - into + self._unit:  # the rest of the period has another offset
                return end
        following = at - into + self._step
        if self._times.is_open or following > end:
            return following
        wall = following + offset
        return min(following + self._times.first_step(wall, self._step, self._unit), end)

    def _residues_at(self, offset: int) -> tuple[int, ...]:
        """The distances into a period that the smaller units allow, at this ``offset``."""
        shown = (self._anchor + offset) % 3600
        known = self._residues.get(shown)
        if known is None:
            known = self._residues[shown] = self._work_out_residues(shown)
        return known

    def _work_out_residues(self, shown: int) -> tuple[int, ...]:
        own = self._frame.start_at - self._anchor
        minutes = self._parts.minutes if self._unit > 60 else ()
        seconds = self._parts.seconds if self._unit > 1 else ()
        return tuple(
            into
            for into in range(self._unit)
            if ((shown + into) // 60 % 60 in minutes if minutes else into // 60 == own // 60)
            and ((shown + into) % 60 in seconds if seconds else into % 60 == own % 60)
        )

    def _is_met(self, offset: int) -> bool:
        """Whether the steps and the BY parts can meet while the zone has ``offset``."""
        known = self._meetings.get(offset)
        if known is None:
            known = self._meetings[offset] = self._work_out_meeting(offset)
        return known

    def _work_out_meeting(self, offset: int) -> bool:
        weekdays = tuple(day.weekday for day in self._parts.weekdays) or tuple(range(7))
        first = self._anchor + offset
        shown = {first + into for into in self._residues_at(offset)}
        units = {wall - wall % self._unit for wall in shown}
        return any(self._times.meets(wall, self._step, weekdays) for wall in units)

    def _next_met_stretch(self, at: int, upto: int, budget: Budget) -> int | None:
        """The next transition, not after ``upto``, to an offset under which the rule can occur."""
        limit = min(max(at, _RULES_SETTLED) + 2 * 366 * DAY, upto + 1)
        for change, _, after in self._frame.transitions(at + 1, limit):
            budget.spend(1 + (change - at) // SAMPLED_PER_STEP)
            at = change
            if self._is_met(after):
                return change
        return None

    def _horizon(self, at: int) -> int:
        """Where a search may end, because the steps, the calendar and the zone repeat."""
        if _WEEK % self._step == 0:
            return max(at, _RULES_SETTLED) + _ALL_KINDS_OF_YEAR
        if _CALENDAR_CYCLE % self._step == 0:
            return max(at, _RULES_SETTLED) + _CALENDAR_CYCLE
        return CALENDAR_END
