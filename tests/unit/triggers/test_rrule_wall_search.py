"""Rules of days and more, at changes of the clocks, against a walk over every minute."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from rota.triggers.rrule import RecurrenceRule, parse_rrule
from rota.triggers.zone import Fold, Gap, instants_of, wall_time

LONDON = ZoneInfo("Europe/London")
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
HOURS = ",".join(map(str, range(24)))

CHANGES = [
    ("Europe/London", "2024-03-31"),  # a gap from 01:00
    ("Europe/London", "2024-10-27"),  # a fold from 01:00
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    ("Australia/Lord_Howe", "2024-04-07"),  # half an hour, back
    ("Australia/Lord_Howe", "2024-10-06"),  # half an hour, forward
    ("Pacific/Apia", "2011-12-30"),  # the whole day never happened
    ("America/Sao_Paulo", "2018-11-04"),  # midnight never happened
    ("America/Sao_Paulo", "2018-02-18"),  # the hour before midnight, twice
    ("America/St_Johns", "2010-11-07"),  # the day begins, is taken back, and begins again
    ("Africa/Casablanca", "2024-03-10"),  # standard time is the one an hour ahead
]
RULES = [
    f"FREQ=DAILY;BYHOUR={HOURS};BYMINUTE=0,15,30,45",
    "FREQ=DAILY;BYHOUR=0,1,2,23;BYMINUTE=5,30",
    "FREQ=DAILY;BYHOUR=1;BYMINUTE=30",
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
    "FREQ=WEEKLY;BYDAY=SU,FR;BYHOUR=0,1,2;BYMINUTE=0,30",
    f"FREQ=WEEKLY;BYHOUR={HOURS};BYMINUTE=0;BYDAY=SU,MO,FR,SA;BYSETPOS=1,2,3,-1,-22,-30",
]


def _walls(rule: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """The wall times of the rule: what it has in a zone whose clocks never change."""
    for instant in parse_rrule(rule, zone=UTC, start=start).between(
        start.replace(tzinfo=UTC) - MINUTE, end.replace(tzinfo=UTC)
    ):
        yield instant.replace(tzinfo=None)


@pytest.mark.parametrize(("name", "day"), CHANGES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("gap", "fold"), list(product(("skip", "shift"), ("first", "both"))))
def test_every_wall_time_becomes_the_instants_its_gap_and_fold_say(
    name: str, day: str, rule: str, gap: Gap, fold: Fold
) -> None:
    zone = ZoneInfo(name)
    middle = datetime.fromisoformat(day)
    start, end = middle - 4 * DAY, middle + 10 * DAY
    expected = sorted(
        {
            instant
            for wall in _walls(rule, start, end)
            for instant in instants_of(wall, zone, gap=gap, fold=fold)
        }
    )
    last = _at(middle + 4 * DAY, zone)
    found = parse_rrule(rule, zone=zone, start=start, gap=gap, fold=fold)
    assert list(found.between(_at(start, zone) - MINUTE, last)) == [
        instant for instant in expected if instant <= last
    ]
    _check_points(found, expected, middle.replace(tzinfo=UTC))


def _at(wall: datetime, zone: tzinfo) -> datetime:
    return instants_of(wall, zone, gap="shift", fold="first")[0]


def _check_points(rule: RecurrenceRule, expected: list[datetime], middle: datetime) -> None:
    """From anywhere near the change, both neighbours are found."""
    for minutes in range(-36 * 60, 36 * 60, 143):
        point = middle + minutes * MINUTE
        later = next(instant for instant in expected if instant > point)
        earlier = max((instant for instant in expected if instant <= point), default=None)
        assert rule.next_after(point) == later
        assert rule.previous_at(point) == earlier


def test_a_wall_time_in_a_gap_moves_on_by_the_length_of_the_gap() -> None:
    rule = parse_rrule("FREQ=DAILY", zone=LONDON, start=datetime.fromisoformat("2024-03-30T01:30"))
    assert [wall_time(at, LONDON).isoformat() for at in _days(rule, 3)] == [
        "2024-03-30T01:30:00",
        "2024-03-31T02:30:00",
        "2024-04-01T01:30:00",
    ]


def test_a_wall_time_in_a_gap_can_be_skipped() -> None:
    rule = parse_rrule(
        "FREQ=DAILY", zone=LONDON, start=datetime.fromisoformat("2024-03-30T01:30"), gap="skip"
    )
    assert [at.day for at in _days(rule, 2)] == [30, 1]


def test_two_wall_times_shifted_onto_one_instant_occur_once() -> None:
    rule = parse_rrule(
        "FREQ=DAILY;BYHOUR=1,2;BYMINUTE=30", zone=LONDON, start=datetime.fromisoformat("2024-03-31")
    )
    assert [at.isoformat() for at in _days(rule, 2)] == [
        "2024-03-31T01:30:00+00:00",
        "2024-04-01T00:30:00+00:00",
    ]


def test_a_wall_time_shown_twice_occurs_the_first_time_or_both() -> None:
    def instants(fold: Fold) -> list[str]:
        start = datetime.fromisoformat("2024-10-27T01:30")
        rule = parse_rrule("FREQ=DAILY", zone=LONDON, start=start, fold=fold)
        return [f"{at:%d %H:%M}" for at in _days(rule, 3)]

    assert instants("first") == ["27 00:30", "28 01:30", "29 01:30"]
    assert instants("both") == ["27 00:30", "27 01:30", "28 01:30"]


def _days(rule: RecurrenceRule, limit: int) -> list[datetime]:
    return list(rule.between(rule.start - DAY, rule.start + 9 * DAY, limit=limit))


def test_a_start_in_the_second_showing_occurs_then_and_not_before() -> None:
    start = datetime(2024, 10, 27, 1, 30, tzinfo=UTC)  # the clock shows 01:30 again
    rule = parse_rrule("FREQ=DAILY;COUNT=2", zone=LONDON, start=start)
    assert _days(rule, 9) == [start, start + DAY]


def test_a_naive_start_says_by_its_fold_which_showing_it_is() -> None:
    wall = datetime.fromisoformat("2024-10-27T01:30")
    first = parse_rrule("FREQ=DAILY", zone=LONDON, start=wall)
    second = parse_rrule("FREQ=DAILY", zone=LONDON, start=wall.replace(fold=1))
    assert second.start - first.start == timedelta(hours=1)


def test_a_start_in_a_gap_is_skipped_with_the_rest() -> None:
    start = datetime.fromisoformat("2024-03-31T01:30")
    shifted = parse_rrule("FREQ=DAILY;COUNT=1", zone=LONDON, start=start)
    skipped = parse_rrule("FREQ=DAILY;COUNT=1", zone=LONDON, start=start, gap="skip")
    assert _days(shifted, 9) == [datetime(2024, 3, 31, 1, 30, tzinfo=UTC)]
    assert _days(skipped, 9) == [datetime(2024, 4, 1, 0, 30, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("gap", "last"), [("shift", "2026-03-31"), ("skip", "2026-04-03")], ids=["shift", "skip"]
)
def test_count_leaves_out_what_a_gap_makes_vanish(gap: Gap, last: str) -> None:
    start = datetime.fromisoformat("2024-03-30T01:30")
    count = (
        datetime.fromisoformat("2026-03-31") - datetime.fromisoformat("2024-03-30")
    ).days + 1  # three gaps on the way
    rule = parse_rrule(f"FREQ=DAILY;COUNT={count}", zone=LONDON, start=start, gap=gap)
    final = rule.previous_at(datetime(2030, 1, 1, tzinfo=UTC))
    assert final is not None
    assert wall_time(final, LONDON).date().isoformat() == last


def test_count_counts_a_wall_time_that_is_shown_twice_once() -> None:
    start = datetime.fromisoformat("2024-10-27T01:30")
    rule = parse_rrule("FREQ=DAILY;COUNT=2", zone=LONDON, start=start, fold="both")
    assert [f"{at:%d %H:%M}" for at in _days(rule, 9)] == ["27 00:30", "27 01:30", "28 01:30"]


def test_a_rule_that_names_only_the_gap_of_each_year_ends() -> None:
    rule = parse_rrule(
        "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU;BYHOUR=1;BYMINUTE=30;BYSECOND=0",
        zone=LONDON,
        start=datetime.fromisoformat("2024-01-01"),
        gap="skip",
    )
    assert rule.next_after(datetime(2024, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("seconds", ["0", "0,1", "0,1,2,3", "0,58,59"])
def test_a_count_that_ends_within_a_gap_counts_what_the_gap_leaves(
    count: int, seconds: str
) -> None:
    """London's clocks show no time from 01:00 to 02:00 on 31 March 2024."""
    text = f"FREQ=DAILY;BYHOUR=0,1,2;BYMINUTE=59,0;BYSECOND={seconds}"
    start = datetime.fromisoformat("2024-03-30T01:00")
    first, last = datetime(2024, 3, 29, tzinfo=UTC), datetime(2024, 4, 9, tzinfo=UTC)
    for more in (0, 6, 12):
        counted = parse_rrule(f"{text};COUNT={count + more}", zone=LONDON, start=start, gap="skip")
        endless = parse_rrule(text, zone=LONDON, start=start, gap="skip")
        found = list(endless.between(first, last, limit=count + more))
        assert len(found) == count + more
        assert list(counted.between(first, last)) == found


@pytest.mark.parametrize("gap", ["shift", "skip"])
def test_a_count_over_a_century_leaves_out_what_gaps_make_vanish(gap: Gap) -> None:
    """London's clocks go forward on the last Sunday of March, which is often the 31st."""
    start = datetime.fromisoformat("2024-03-31T01:30")
    rule = parse_rrule("FREQ=YEARLY;COUNT=100", zone=LONDON, start=start, gap=gap)
    years = range(2024, 2200)
    shown = [year for year in years if gap == "shift" or date(year, 3, 31).isoweekday() != 7]
    last = rule.previous_at(datetime(2500, 1, 1, tzinfo=UTC))
    assert last is not None
    assert last.year == shown[99]
    assert rule.next_after(last) is None
