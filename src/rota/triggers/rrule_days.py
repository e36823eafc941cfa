"""The days a rule's date parts allow, as one bit for each day of a year.

There are only 28 kinds of year: by its first weekday, its length, and the lengths of its
neighbours, which decide the numbers of shared weeks. The days of each kind are computed once, so a
year without any is skipped at almost no cost.
"""

from calendar import isleap
from collections.abc import Iterator
from datetime import date
from functools import cache, cached_property
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from rota.triggers.rrule_parts import LAST_YEAR, Frequency, NthWeekday, Parts

_CALENDAR_CYCLE = 400
"""The Gregorian calendar, with its weekdays, repeats after this many years."""

_PERIODS_PER_CYCLE = {
    Frequency.YEARLY: 400,
    Frequency.MONTHLY: 4_800,
    Frequency.WEEKLY: 20_871,
    Frequency.DAILY: 146_097,
}
_SHORTEST_PERIODS = {
    Frequency.YEARLY: 365,
    Frequency.MONTHLY: 28,
    Frequency.WEEKLY: 7,
    Frequency.DAILY: 1,
}
"""In days."""

_KEPT_YEARS = 64
_MANY_BITS = 40
"""From here on it is faster to look at all bits than to find the set ones."""

_WEEKLY = sum(1 << day for day in range(0, 371, 7))
_LAST_DAY = date(LAST_YEAR, 12, 31).toordinal()
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class YearKind(NamedTuple):
    previous_length: int
    length: int
    next_length: int
    first_weekday: int


class MatchingDays:
    """The days that match every date part, in periods that INTERVAL does not skip.

    Days are ordinals of ``datetime.date``. Results are cached; answers do not depend on the cache.
    """

    def __init__(self, parts: Parts, start: date) -> None:
        self._parts = parts
        self._start = start
        self._interval = 1 if parts.frequency.is_sub_daily else parts.interval
        self._cycle = _years_until_repeated(parts.frequency, self._interval)
        self._comb = _Comb(parts, start) if self._interval > 1 else None
        self._kinds: dict[YearKind, int] = {}
        self._years: dict[int, tuple[int, int]] = {}
        self._none_from = date(LAST_YEAR + 1, 1, 1).toordinal()

    def first_from(self, day: int) -> int | None:
        """The first matching day from ``day`` on; None when the calendar has no more."""
        if day >= self._none_from:
            return None
        year = date.fromordinal(day).year
        first, mask = self.of_year(year)
        left = mask >> (day - first)
        if left:
            return day + _lowest(left)
        later, last = self._used_from(year + 1), min(LAST_YEAR, year + self._cycle)
        while later <= last:
            first, mask = self.of_year(later)
            if mask:
                return first + _lowest(mask)
            later = self._used_from(later + 1)
        # If a whole cycle has none, no other cycle has any.
        self._none_from = 0 if year + self._cycle <= LAST_YEAR else day
        return None

    def _used_from(self, year: int) -> int:
        return year if self._comb is None else self._comb.first_year_from(year)

    def within(self, start: int, end: int) -> list[int]:
        """The matching days in ``[start, end)``."""
        found: list[int] = []
        for year in range(date.fromordinal(start).year, date.fromordinal(end - 1).year + 1):
            first, mask = self.of_year(year)
            found += [first + day for day in bits_of(mask & _span(start - first, end - first))]
        return found

    def of_year(self, year: int) -> tuple[int, int]:
        """The ordinal of January 1, and the matching days as bits counted from there."""
        known = self._years.get(year)
        if known is None:
            if len(self._years) >= _KEPT_YEARS:
                self._years.clear()
            known = self._years[year] = self._work_out(year)
        return known

    def _work_out(self, year: int) -> tuple[int, int]:
        first = date(year, 1, 1).toordinal()
        kind = _kind_of(year, first)
        mask = self._kinds.get(kind)
        if mask is None:
            mask = self._kinds[kind] = days_of_kind(self._parts, kind)
        if self._comb is not None:
            mask &= self._comb.of_year(year, first)
        return first, mask

    def most_within(self, day_count: int) -> int:
        """An upper bound of the matching days among this many days in a row, at little cost."""
        return min(day_count, self.most_periods_within(day_count) * self.most_in_a_period)

    def most_periods_within(self, day_count: int) -> int:
        """How many used periods this many days in a row can touch."""
        return day_count // (_SHORTEST_PERIODS[self._parts.frequency] * self._interval) + 2

    @cached_property
    def most_in_a_period(self) -> int:
        """The highest number of matching days in a period of the frequency."""
        frequency = self._parts.frequency
        if frequency is Frequency.DAILY:
            return 1
        if frequency is Frequency.WEEKLY:
            return len(self._parts.weekdays)
        masks = {kind: days_of_kind(self._parts, kind) for kind in _all_kinds()}
        if frequency is Frequency.YEARLY:
            return max(mask.bit_count() for mask in masks.values())
        return max(
            (mask & month).bit_count()
            for kind, mask in masks.items()
            for month in _month_masks(kind.length)
        )


class _Comb:
    """The days of the periods that INTERVAL does not skip, without the date parts."""

    def __init__(self, parts: Parts, start: date) -> None:
        self._frequency = parts.frequency
        self._interval = parts.interval
        self._start = start
        self._run = 7 if parts.frequency is Frequency.WEEKLY else 1
        into = (start.weekday() - parts.week_start) % 7
        self._first = start.toordinal() - (into if parts.frequency is Frequency.WEEKLY else 0)
        self._period = self._run * parts.interval
        self._teeth = sum(_span(at, at + self._run) for at in range(0, 366, self._period))

    def of_year(self, year: int, first: int) -> int:
        if self._frequency is Frequency.YEARLY:
            return 0 if (year - self._start.year) % self._interval else -1
        if self._frequency is Frequency.MONTHLY:
            masks = _month_masks(_length_of(year))
            return sum(masks[self._months_skipped_from(year) :: self._interval])
        into = (first - self._first) % self._period
        begun = _span(0, self._run - into)
        ahead = self._period - into
        return begun | self._teeth << ahead if ahead < 366 else begun

    def first_year_from(self, year: int) -> int:
        """The first year from ``year`` on in which a used period begins or continues."""
        if self._frequency is Frequency.YEARLY:
            return year + (self._start.year - year) % self._interval
        if self._frequency is Frequency.MONTHLY:
            return year + self._months_skipped_from(year) // 12
        if year > LAST_YEAR:
            return year
        first = date(year, 1, 1).toordinal()
        into = (first - self._first) % self._period
        if into < self._run:
            return year
        begins = first + self._period - into
        return date.fromordinal(begins).year if begins <= _LAST_DAY else LAST_YEAR + 1

    def _months_skipped_from(self, year: int) -> int:
        """How many months from January of that year on INTERVAL skips before it uses one."""
        passed = (year - self._start.year) * 12 + 1 - self._start.month
        return -passed % self._interval


def bits_of(mask: int) -> Iterator[int]:
    """The numbers of the set bits, ascending."""
    if mask.bit_count() > _MANY_BITS:
        yield from [number for number, bit in enumerate(reversed(bin(mask))) if bit == "1"]
        return
    while mask:
        yield _lowest(mask)
        mask &= mask - 1


def days_of_kind(parts: Parts, kind: YearKind) -> int:
    """The days of a year of this kind that match every date part."""
    mask = _span(0, kind.length)
    if parts.months:
        masks = _month_masks(kind.length)
        mask &= sum(masks[month - 1] for month in parts.months)
    if parts.month_days:
        mask &= _month_day_mask(parts.month_days, kind.length)
    if parts.year_days:
        mask &= _year_day_mask(parts.year_days, kind.length)
    if parts.weekdays:
        mask &= _weekday_mask(parts, kind)
    if parts.week_numbers:
        mask &= _week_number_mask(parts, kind)
    return mask


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _span(start: int, end: int) -> int:
    """The bits of the days in ``[start, end)``, without days before the year."""
    start = max(start, 0)
    return ((1 << (end - start)) - 1) << start if end > start else 0


def _length_of(year: int) -> int:
    return 365 + isleap(year)


def _kind_of(year: int, first: int) -> YearKind:
    return YearKind(_length_of(year - 1), _length_of(year), _length_of(year + 1), (first + 6) % 7)


@cache
def _month_starts(length: int) -> tuple[int, ...]:
    """The first days of the twelve months, and of the next January."""
    starts = [0]
    for month, days in enumerate(_MONTH_LENGTHS):
        starts.append(starts[-1] + days + (length - 365 if month == 1 else 0))
    return tuple(starts)


@cache
def _month_masks(length: int) -> tuple[int, ...]:
    return tuple(_span(first, end) for first, end in pairwise(_month_starts(length)))


@cache
def _all_kinds() -> frozenset[YearKind]:
    years = range(2000, 2000 + _CALENDAR_CYCLE)
    return frozenset(_kind_of(year, date(year, 1, 1).toordinal()) for year in years)


def _years_until_repeated(frequency: Frequency, interval: int) -> int:
    """After this many years both the calendar and the used periods repeat."""
    return _CALENDAR_CYCLE * interval // gcd(interval, _PERIODS_PER_CYCLE.get(frequency, 1))


def _month_day_mask(days: tuple[int, ...], length: int) -> int:
    starts = _month_starts(length)
    mask = 0
    for first, end in pairwise(starts):
        for day in days:
            at = first + day - 1 if day > 0 else end + day
            mask |= 1 << at if first <= at < end else 0
    return mask


def _year_day_mask(days: tuple[int, ...], length: int) -> int:
    places = {day - 1 if day > 0 else length + day for day in days}
    return sum(1 << place for place in places if 0 <= place < length)


def _weekday_mask(parts: Parts, kind: YearKind) -> int:
    """Days of the week, with and without an ordinal."""
    mask = 0
    for day in parts.weekdays:
        if day.ordinal:
            for start, end in _ordinal_ranges(parts, kind.length):
                mask |= _nth_weekday(day, start, end, kind.first_weekday)
        else:
            mask |= _WEEKLY << (day.weekday - kind.first_weekday) % 7
    return mask


def _ordinal_ranges(parts: Parts, length: int) -> Iterator[tuple[int, int]]:
    """What an ordinal counts in: the year, or each month where months are what is meant."""
    if parts.frequency is Frequency.YEARLY and not parts.months:
        yield 0, length
        return
    starts = _month_starts(length)
    for month in parts.months or range(1, 13):
        yield starts[month - 1], starts[month]


def _nth_weekday(day: NthWeekday, start: int, end: int, first_weekday: int) -> int:
    if day.ordinal > 0:
        at = start + (day.weekday - first_weekday - start) % 7 + 7 * (day.ordinal - 1)
    else:
        at = end - 1 - (first_weekday + end - 1 - day.weekday) % 7 + 7 * (day.ordinal + 1)
    return 1 << at if start <= at < end else 0


def _week_number_mask(parts: Parts, kind: YearKind) -> int:
    """The days in the wanted weeks. Each week has its number in the year that it belongs to."""
    first = _first_week(kind.first_weekday, parts.week_start)
    next_weekday = (kind.first_weekday + kind.length) % 7
    end = kind.length + _first_week(next_weekday, parts.week_start)
    mask = 0
    for number in _named_weeks(parts.week_numbers, (end - first) // 7):
        mask |= _span(first + 7 * (number - 1), first + 7 * number)
    before = _first_week((kind.first_weekday - kind.previous_length) % 7, parts.week_start)
    last_before = (first + kind.previous_length - before) // 7
    if last_before in _named_weeks(parts.week_numbers, last_before):
        mask |= _span(0, first)
    after = _first_week((next_weekday + kind.next_length) % 7, parts.week_start)
    if 1 in _named_weeks(parts.week_numbers, (kind.length + kind.next_length + after - end) // 7):
        mask |= _span(end, kind.length)
    return mask


def _first_week(first_weekday: int, week_start: int) -> int:
    """The day week 1 begins with: it is the first week with four days in the year."""
    into = (week_start - first_weekday) % 7
    return into - 7 if into >= 4 else into


def _named_weeks(numbers: tuple[int, ...], count: int) -> set[int]:
    wanted = {number if number > 0 else count + 1 + number for number in numbers}
    return {number for number in wanted if 1 <= number <= count}
