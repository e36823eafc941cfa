"""The wall times a rule of days, weeks, months or years names, ascending.

Wall times are numbers of seconds (see ``frame``). Zones are of no concern here.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from typing import Protocol

from rota.triggers.rrule.frame import DAY
from rota.triggers.rrule.parts import Frequency, Parts
from rota.triggers.rrule.year_days import MatchingDays, bits_of

_MOST_FRUITLESS_PERIODS = 20_871
"""No 400 years have more weeks, months or years. Then the calendar repeats: nothing will come."""

_FRUITLESS_PERIODS_BEFORE_DOUBT = 20
"""After these it is worth asking whether the positions of BYSETPOS can be filled at all."""


class WallSeries(Protocol):
    def first_from(self, wall: int) -> int | None:
        """The first wall time at or after ``wall``; None when the calendar has no more."""
        ...

    def nth_from(self, wall: int, number: int) -> int | None:
        """The wall time that is the ``number``-th, from 1, of those at or after ``wall``."""
        ...


def make_series(parts: Parts, start: date) -> WallSeries:
    """The wall times of completed parts, for a rule that begins on ``start``."""
    days = MatchingDays(parts, start)
    times = times_of_day(parts)
    if not parts.positions:
        return DaySeries(days, times)
    if parts.frequency is Frequency.DAILY:  # a period is a day: the positions choose among times
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
    """The members at the positions BYSETPOS gives, counted from 1, or from the end if negative."""
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

    def nth_from(self, wall: int, number: int) -> int | None:
        """Costs one look at each year that is passed over, however many wall times it has."""
        if not self._times:
            return None
        day, time = divmod(wall, DAY)
        first = day
        left = number - 1
        while (found := self._days.first_from(first)) is not None:
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


class PositionSeries:
    """Of all the wall times of a year, month or week, those at the positions of BYSETPOS."""

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

    def nth_from(self, wall: int, number: int) -> int | None:
        """Costs one look at each period that is passed over."""
        left = number
        for chosen in self._periods_from(wall):
            ahead = chosen[bisect_left(chosen, wall) :]
            if left <= len(ahead):
                return ahead[left - 1]
            left -= len(ahead)
        return None

    def _periods_from(self, wall: int) -> Iterator[list[int]]:
        """The chosen wall times of each period with a matching day; ends when no more can come."""
        fruitless = 0
        day = self._days.first_from(self._period_of(wall // DAY)[0])
        while day is not None and fruitless <= _MOST_FRUITLESS_PERIODS:
            if fruitless == _FRUITLESS_PERIODS_BEFORE_DOUBT and not self._can_be_filled():
                return
            start, end = self._period_of(day)
            chosen = self._chosen_within(start, end)
            fruitless = 0 if chosen else fruitless + 1
            yield chosen
            day = self._days.first_from(end)

    def _can_be_filled(self) -> bool:
        most = self._days.most_in_a_period() * len(self._times)
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
