"""Every answer around changes of the clocks, against brute force."""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from tests.unit.triggers import brute_force
from tests.unit.triggers.brute_force import MINUTE, Stretch

from rota.errors import InvalidCronExpressionError
from rota.triggers.cron import Cron, Dialect, parse_cron
from rota.triggers.zone import Fold, Gap, transitions_between

SECOND = timedelta(seconds=1)
TICK = timedelta.resolution
STEPS = (-TICK, timedelta(0), TICK, 59 * SECOND)
RULES: list[tuple[Gap, Fold]] = list(product(("skip", "shift"), ("first", "both")))


class Place(NamedTuple):
    name: str
    zone: str
    at: datetime
    around: timedelta = timedelta(hours=16)
    tick: timedelta = MINUTE


PLACES = [
    Place("an hour forward", "Europe/London", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    Place("an hour back", "Europe/London", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    Place("forward at two", "America/New_York", datetime(2026, 3, 8, 7, tzinfo=UTC)),
    Place("back at two", "America/New_York", datetime(2026, 11, 1, 6, tzinfo=UTC)),
    Place("a day never seen", "Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    Place("a day skipped earlier", "Pacific/Kwajalein", datetime(1993, 8, 21, 12, tzinfo=UTC)),
    Place("a day in the new year", "Pacific/Kiritimati", datetime(1994, 12, 31, 10, tzinfo=UTC)),
    Place("half an hour forward", "Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    Place("half an hour back", "Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    Place("winter time is the odd one", "Europe/Dublin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    Place("midnight skipped", "America/Sao_Paulo", datetime(2018, 11, 4, 3, tzinfo=UTC)),
    Place("midnight shown twice", "America/Sao_Paulo", datetime(2018, 2, 18, 2, tzinfo=UTC)),
    Place("midnight skipped in Cairo", "Africa/Cairo", datetime(2026, 4, 23, 22, tzinfo=UTC)),
    Place("midnight skipped in Beirut", "Asia/Beirut", datetime(2026, 3, 28, 22, tzinfo=UTC)),
    Place("a new standard offset", "America/Caracas", datetime(2016, 5, 1, 7, tzinfo=UTC)),
    Place("standard time moved back", "Asia/Pyongyang", datetime(2015, 8, 14, 15, tzinfo=UTC)),
    Place("two hours at once", "Antarctica/Troll", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    Place("summer time within Ramadan", "Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC)),
    Place(
        "an offset with half a minute",
        "Africa/Monrovia",
        datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC),
        timedelta(hours=10),
        timedelta(seconds=30),
    ),
    Place(
        "an offset with odd seconds",
        "Europe/Dublin",
        datetime(1916, 10, 1, 2, 25, 21, tzinfo=UTC),
        timedelta(hours=1, minutes=20),
        SECOND,
    ),
]


class Case(NamedTuple):
    """One schedule under one pair of rules, with what brute force found up to ``end``."""

    cron: Cron
    zone: tzinfo
    gap: Gap
    fold: Fold
    end: datetime
    expected: list[datetime]


def parse_random(random: Random, dialect: Dialect) -> Cron:
    """A random expression that some date satisfies."""
    write = brute_force.WRITERS[dialect]
    while True:
        try:
            return parse_cron(write(random), dialect)
        except InvalidCronExpressionError:
            continue


def check(cron: Cron, stretch: Stretch, random: Random, unit: timedelta = MINUTE) -> int:
    """Compare all answers within the inner part of a stretch, under all rules."""
    inner_start = stretch.start + (stretch.end - stretch.start) / 6
    count = 0
    for gap, fold in RULES:
        expected = stretch.occurrences(cron.text, gap, fold)
        inner = [at for at in expected if at >= inner_start]
        found = cron.between(inner_start - TICK, stretch.end, stretch.zone, gap=gap, fold=fold)
        assert list(found) == inner, (cron, gap, fold)
        count += len(inner)
        case = Case(cron, stretch.zone, gap, fold, stretch.end, expected)
        instants = [inner_start + (stretch.end - inner_start) * random.random() for _ in range(12)]
        instants += [at + step for at in random.sample(inner, min(6, len(inner))) for step in STEPS]
        for instant in instants:
            check_instant(case, instant, unit)
    return count


def check_instant(case: Case, instant: datetime, unit: timedelta) -> None:
    cron, zone, gap, fold, end, expected = case
    later = brute_force.first_after(expected, instant)
    earlier = brute_force.last_at(expected, instant)
    within = brute_force.is_within_unit(expected, instant, unit)
    context = (cron, instant, gap, fold)
    if later is not None:
        assert cron.next_after(instant, zone, gap=gap, fold=fold) == later, context
    elif instant < end:
        assert cron.next_after(instant, zone, gap=gap, fold=fold) > end, context
    if earlier is not None:
        assert cron.previous_at(instant, zone, gap=gap, fold=fold) == earlier, context
    assert cron.matches(instant, zone, gap=gap, fold=fold) == within, context


@pytest.mark.parametrize("place", PLACES, ids=[place.name for place in PLACES])
def test_all_answers_around_a_change_are_those_of_brute_force(place: Place) -> None:
    random = Random(place.name)
    zone = ZoneInfo(place.zone)
    (change,) = transitions_between(place.at, place.at + SECOND, zone)
    around = max(place.around, change.length + timedelta(hours=8))
    stretch = Stretch(place.at - around, place.at + around, zone, place.tick)
    crons = [parse_cron(text) for text in ("* * * * *", "30 1 * * *", "0,30 0-3 * * *")]
    crons += [parse_random(random, "posix") for _ in range(3)]
    crons += [parse_random(random, "extended") for _ in range(2)]
    assert sum(check(cron, stretch, random) for cron in crons) > 0


@pytest.mark.parametrize("seed", range(6))
def test_all_answers_around_random_changes_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)
    names = sorted(available_timezones())
    checked = 0
    while checked < 3:
        zone = ZoneInfo(random.choice(names))
        start = datetime(random.randint(1970, 2036), 1, 1, tzinfo=UTC)
        for change in transitions_between(start, start + timedelta(days=366), zone):
            if change.at.second or change.before % MINUTE or change.after % MINUTE:
                continue
            around = change.length + timedelta(hours=9)
            stretch = Stretch(change.at - around, change.at + around, zone, MINUTE)
            for _ in range(3):
                check(parse_random(random, "posix"), stretch, random)
            checked += 1


@pytest.mark.parametrize("seed", range(4))
def test_seconds_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)
    at = datetime(2026, 10, 25, 1, tzinfo=UTC) if seed % 2 else datetime(2026, 3, 29, 1, tzinfo=UTC)
    around = timedelta(hours=1, minutes=20)
    stretch = Stretch(at - around, at + around, ZoneInfo("Europe/London"), SECOND)
    for seconds in ("*/20", "7", "0,59", "30-33"):
        text = f"{seconds} {random.choice(('*', '*/9', '58-59', '0'))} * * * *"
        assert check(parse_cron(text, "extended"), stretch, random, SECOND) > 0


@pytest.mark.parametrize("seed", range(6))
def test_far_answers_agree_with_each_other(seed: int) -> None:
    """Where brute force would take years: both directions must find the same neighbours."""
    random = Random(seed)
    zones = [ZoneInfo(name) for name in random.sample(sorted(available_timezones()), 8)]
    for zone, (gap, fold) in product(zones, RULES):
        cron = parse_random(random, "extended")
        instant = datetime(1975, 1, 1, tzinfo=UTC) + random.random() * timedelta(days=22_000)
        for _ in range(5):
            later = cron.next_after(instant, zone, gap=gap, fold=fold)
            assert later > instant
            assert cron.previous_at(later, zone, gap=gap, fold=fold) == later
            assert cron.previous_at(later - TICK, zone, gap=gap, fold=fold) <= instant
            assert cron.matches(later, zone, gap=gap, fold=fold)
            instant = later


@pytest.mark.parametrize("gap", ["skip", "shift"])
def test_a_yearly_gap_is_passed_every_time(gap: Gap) -> None:
    """In 2028 and 2034, 26 March is the Sunday on which London has no 01:30."""
    cron = parse_cron("30 1 26 3 *")
    london = ZoneInfo("Europe/London")
    found = [
        cron.next_after(datetime(2028, 1, 1, tzinfo=UTC), london, gap=gap),
        cron.next_after(datetime(2034, 1, 1, tzinfo=UTC), london, gap=gap),
    ]
    assert [at.year for at in found] == ([2029, 2035] if gap == "skip" else [2028, 2034])


def test_a_gap_on_the_same_date_for_years_is_passed_in_one_search() -> None:
    """Tehran skipped the first hour of 22 March from 2017 to 2019, and of 21 March in 2020."""
    cron = parse_cron("30 0 22 3 *")
    tehran = ZoneInfo("Asia/Tehran")
    new_year = datetime(2017, 1, 1, tzinfo=UTC)
    assert cron.next_after(new_year, tehran).year == 2020
    shifted = cron.next_after(new_year, tehran, gap="shift")
    assert shifted == datetime(2017, 3, 21, 21, tzinfo=UTC)
    end_of_2019 = datetime(2019, 12, 31, tzinfo=UTC)
    assert cron.previous_at(end_of_2019, tehran).year == 2016
    assert cron.previous_at(end_of_2019, tehran, gap="shift").year == 2019


@pytest.mark.parametrize("text", ["30 1 25 10 *", "30 1 * * 0", "30 1 25 * *"])
def test_a_second_showing_is_nearer_than_the_next_date(text: str) -> None:
    cron = parse_cron(text)
    london = ZoneInfo("Europe/London")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second = first + timedelta(hours=1)
    assert cron.next_after(first, london) == second
    assert cron.next_after(first + 10 * MINUTE, london) == second
    assert cron.next_after(second, london) > second + timedelta(days=6)
    assert cron.next_after(first, london, fold="first") > second + timedelta(days=6)
    assert cron.previous_at(second - MINUTE, london) == first


def test_two_times_that_a_shift_brings_together_are_one_occurrence() -> None:
    cron = parse_cron("30 1,2 * * *")
    london = ZoneInfo("Europe/London")
    day = datetime(2026, 3, 29, tzinfo=UTC)
    found = list(cron.between(day, day + timedelta(hours=20), london, gap="shift"))
    assert found == [datetime(2026, 3, 29, 1, 30, tzinfo=UTC)]
