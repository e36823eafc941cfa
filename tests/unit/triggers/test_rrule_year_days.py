"""The bits of a year against the calendar itself, day by day."""

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from rota.triggers.rrule_days import MatchingDays, bits_of
from rota.triggers.rrule_parts import LAST_YEAR, Frequency, NthWeekday, Parts

YEARS = (*range(1995, 2030), 2100, 2101, 2400)
START = date(2000, 1, 1)


def _days(parts: Parts, year: int, start: date = START) -> set[date]:
    first, mask = MatchingDays(parts, start).of_year(year)
    return {date.fromordinal(first + day) for day in bits_of(mask)}


def _all_days(year: int) -> list[date]:
    first = date(year, 1, 1)
    return [first + timedelta(days=day) for day in range((date(year + 1, 1, 1) - first).days)]


def _week(day: date, week_start: int) -> tuple[int, int]:
    """The number of a week in its own year, from the front and from the back.

    A week belongs to the year that has four of its days: the year of its fourth day.
    """
    first = day - timedelta(days=(day.weekday() - week_start) % 7)
    year = (first + timedelta(days=3)).year
    number = (first + timedelta(days=3)).timetuple().tm_yday // 7
    starts = [first + timedelta(weeks=week) for week in range(-54, 55)]
    weeks = [start for start in starts if (start + timedelta(days=3)).year == year]
    assert abs(weeks.index(first) - number) <= 1
    return weeks.index(first) + 1, weeks.index(first) - len(weeks)


@pytest.mark.parametrize("week_start", range(7))
def test_weeks_are_numbered_in_the_year_that_has_four_of_their_days(week_start: int) -> None:
    for year in (1997, 2000, 2004, 2009, 2015, 2016, 2020, 2021, 2022, 2026):
        numbers = {
            day: _week(day, week_start) for day in (*_all_days(year)[:8], *_all_days(year)[-8:])
        }
        for wanted in (1, 2, 51, 52, 53, -1, -2, -51, -52, -53):
            parts = Parts(Frequency.YEARLY, week_numbers=(wanted,), week_start=week_start)
            found = _days(parts, year)
            for day, pair in numbers.items():
                assert (day in found) == (wanted in pair), (day, wanted)


def test_week_numbers_are_those_of_the_iso_calendar() -> None:
    for year in YEARS:
        parts = Parts(Frequency.YEARLY, week_numbers=(1, 20, 53))
        expected = {day for day in _all_days(year) if day.isocalendar().week in {1, 20, 53}}
        assert _days(parts, year) == expected


@pytest.mark.parametrize(
    ("parts", "matches"),
    [
        (Parts(Frequency.DAILY), lambda _day: True),
        (Parts(Frequency.DAILY, months=(2, 12)), lambda day: day.month in {2, 12}),
        (Parts(Frequency.DAILY, month_days=(29, 31)), lambda day: day.day in {29, 31}),
        (
            Parts(Frequency.DAILY, month_days=(-1, -31)),
            lambda day: (
                (day + timedelta(1)).day == 1 or (day.day == 1 and (day + timedelta(31)).day == 1)
            ),
        ),
        (
            Parts(Frequency.YEARLY, year_days=(-366, 60, 366)),
            lambda day: (
                day.timetuple().tm_yday in {60, 366}
                or (day.timetuple().tm_yday == 1 and _is_leap(day.year))
            ),
        ),
        (
            Parts(Frequency.DAILY, weekdays=(NthWeekday(0), NthWeekday(6))),
            lambda day: day.weekday() in {0, 6},
        ),
        (
            Parts(Frequency.MONTHLY, weekdays=(NthWeekday(4, 1), NthWeekday(4, -1))),
            lambda day: (
                day.weekday() == 4 and (day.day <= 7 or (day + timedelta(7)).month != day.month)
            ),
        ),
        (
            Parts(Frequency.MONTHLY, weekdays=(NthWeekday(0), NthWeekday(1, 5))),
            lambda day: day.weekday() == 0 or (day.weekday() == 1 and day.day > 28),
        ),
        (
            Parts(Frequency.YEARLY, weekdays=(NthWeekday(0, 53), NthWeekday(2, -53))),
            lambda day: (
                (day.weekday() == 0 and day.timetuple().tm_yday > 364)
                or (day.weekday() == 2 and _days_left(day) > 363)
            ),
        ),
        (
            Parts(Frequency.YEARLY, months=(3,), weekdays=(NthWeekday(6, -1),)),
            lambda day: day.month == 3 and day.weekday() == 6 and day.day > 24,
        ),
    ],
)
def test_the_days_are_those_the_calendar_has(parts: Parts, matches: Callable[[date], bool]) -> None:
    for year in YEARS:
        assert _days(parts, year) == {day for day in _all_days(year) if matches(day)}, year


def _is_leap(year: int) -> bool:
    return date(year, 12, 31).timetuple().tm_yday == 366


def _days_left(day: date) -> int:
    return (date(day.year, 12, 31) - day).days


@pytest.mark.parametrize("interval", [2, 3, 7, 13, 90, 400, 100_000_000])
@pytest.mark.parametrize("week_start", [0, 3, 6])
def test_the_interval_leaves_the_periods_it_should(interval: int, week_start: int) -> None:
    start = date(2003, 5, 14)
    week = start - timedelta(days=(start.weekday() - week_start) % 7)

    def passed(frequency: Frequency, day: date) -> int:
        if frequency is Frequency.YEARLY:
            return day.year - start.year
        if frequency is Frequency.MONTHLY:
            return (day.year - start.year) * 12 + day.month - start.month
        return (day - start).days if frequency is Frequency.DAILY else (day - week).days // 7

    for frequency in (Frequency.YEARLY, Frequency.MONTHLY, Frequency.WEEKLY, Frequency.DAILY):
        parts = Parts(frequency, interval=interval, week_start=week_start)
        for year in range(2003, 2009):
            expected = {day for day in _all_days(year) if passed(frequency, day) % interval == 0}
            assert _days(parts, year, start) == expected, (frequency, year)


def test_the_first_matching_day_is_found_across_years() -> None:
    days = MatchingDays(Parts(Frequency.DAILY, months=(2,), month_days=(29,)), START)
    found = days.first_from(date(2096, 3, 1).toordinal())
    assert found == date(2104, 2, 29).toordinal()


def test_nothing_is_found_after_the_last_year() -> None:
    days = MatchingDays(Parts(Frequency.DAILY), START)
    assert days.first_from(date(LAST_YEAR, 12, 31).toordinal()) is not None
    assert days.first_from(date(LAST_YEAR + 1, 1, 1).toordinal()) is None


def test_years_that_were_worked_out_are_not_kept_without_end() -> None:
    days = MatchingDays(Parts(Frequency.YEARLY, interval=3), START)
    for year in range(2000, 3000):
        days.of_year(year)
        assert len(days._years) <= 64


@pytest.mark.parametrize(
    ("parts", "most"),
    [
        (Parts(Frequency.YEARLY, year_days=(366,)), 1),
        (Parts(Frequency.YEARLY), 366),
        (Parts(Frequency.MONTHLY, weekdays=(NthWeekday(0),)), 5),
        (Parts(Frequency.MONTHLY, months=(2,)), 29),
        (Parts(Frequency.WEEKLY, weekdays=(NthWeekday(0), NthWeekday(3))), 2),
    ],
)
def test_no_period_has_more_days_than_it_is_said_to(parts: Parts, most: int) -> None:
    assert MatchingDays(parts, START).most_in_a_period == most
