"""Where Rota and python-dateutil differ: each line of the table in the reference."""

import calendar
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr

from rota.errors import InvalidRecurrenceRuleError
from rota.triggers.rrule import parse_rrule

LONDON = ZoneInfo("Europe/London")
WEDNESDAY = datetime.fromisoformat("2024-01-03T09:00")


def _ours(text: str, start: datetime, count: int) -> list[str]:
    rule = parse_rrule(text, zone=UTC, start=start)
    begin = start.replace(tzinfo=UTC) - timedelta(seconds=1)
    return _shown(rule.between(begin, datetime(2100, 1, 1, tzinfo=UTC), limit=count))


def _theirs(text: str, start: datetime, count: int) -> list[str]:
    return _shown(islice(iter(rrulestr(text, dtstart=start)), count))


def _shown(instants: Iterable[datetime]) -> list[str]:
    return [f"{at:%Y-%m-%d %H:%M}".removesuffix(" 09:00") for at in instants]


@pytest.mark.parametrize(
    ("text", "ours", "theirs"),
    [
        pytest.param(
            "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1;COUNT=2",
            ["2024-01-08", "2024-01-15"],
            ["2024-01-03", "2024-01-08"],
            id="positions count from the beginning of the week, in the first week too",
        ),
        pytest.param(
            "FREQ=YEARLY;BYWEEKNO=52;BYDAY=SU;UNTIL=20220201T000000",
            ["2022-01-02"],
            [],
            id="the first days of 2022 are in week 52 of 2021",
        ),
        pytest.param(
            "FREQ=YEARLY;BYWEEKNO=-52;BYDAY=MO;UNTIL=20250101T000000",
            ["2024-12-30"],
            [],
            id="the last days of 2024 are in the 52nd week of 2025 from its end",
        ),
        pytest.param(
            "FREQ=DAILY;UNTIL=20240105",
            ["2024-01-03", "2024-01-04", "2024-01-05"],
            ["2024-01-03", "2024-01-04"],
            id="a date as UNTIL includes the day",
        ),
    ],
)
def test_occurrences_differ(text: str, ours: list[str], theirs: list[str]) -> None:
    start = WEDNESDAY
    if "BYWEEKNO=52" in text:
        start = datetime.fromisoformat("2021-12-27T09:00")
    if "BYWEEKNO=-52" in text:
        start = datetime.fromisoformat("2024-06-01T09:00")
    assert _ours(text, start, 9) == ours
    assert _theirs(text, start, 9) == theirs


def test_days_with_and_without_an_ordinal_are_added_and_not_intersected() -> None:
    late = datetime.fromisoformat("9995-01-01T09:00")  # there it walks to the end of the calendar
    text = "FREQ=MONTHLY;BYDAY=MO,1TU"
    assert _theirs(text, late, 1) == []
    found = list(
        parse_rrule(text, zone=UTC, start=late).between(
            late.replace(tzinfo=UTC), late.replace(tzinfo=UTC) + timedelta(days=364)
        )
    )
    assert {(at.weekday(), at.day <= 7) for at in found} == {(0, True), (0, False), (1, True)}
    assert len(found) == 52 + 12


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=7",
        "FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3",
        "FREQ=MONTHLY;BYMONTH=12;BYDAY=53MO",
    ],
)
def test_a_rule_that_raises_there_has_no_occurrences_here(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        _theirs(text, datetime.fromisoformat("2024-12-01T09:00"), 1)
    assert _ours(text, datetime.fromisoformat("2024-12-01T09:00"), 1) == []


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;BYSETPOS=1",
        "FREQ=DAILY;BYYEARDAY=100",
        "FREQ=WEEKLY;BYMONTHDAY=13",
        "FREQ=MONTHLY;BYWEEKNO=20",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO",
        "FREQ=YEARLY;BYEASTER=1",
        "FREQ=DAILY;COUNT=100001",
        "FREQ=DAILY;FREQ=WEEKLY",
        "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY",
        "RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY",
    ],
)
def test_some_rules_accepted_there_are_refused_here(text: str) -> None:
    rrulestr(text, dtstart=WEDNESDAY)
    with pytest.raises(InvalidRecurrenceRuleError):
        parse_rrule(text, zone=UTC, start=WEDNESDAY)


def test_count_beside_until_is_only_warned_of_there() -> None:
    text = "FREQ=DAILY;COUNT=2;UNTIL=20250101T000000"
    with pytest.warns(DeprecationWarning, match="count"):
        rrulestr(text, dtstart=WEDNESDAY)
    with pytest.raises(InvalidRecurrenceRuleError, match="UNTIL cannot stand beside COUNT"):
        parse_rrule(text, zone=UTC, start=WEDNESDAY)


def test_dates_without_a_time_are_midnight_there_and_days_here() -> None:
    text = "RRULE:FREQ=DAILY;COUNT=3\nEXDATE:20240104\nRDATE:20240110"
    assert _theirs(text, WEDNESDAY, 9) == [
        *("2024-01-03", "2024-01-04", "2024-01-05", "2024-01-10 00:00"),
    ]
    assert _ours(text, WEDNESDAY, 9) == ["2024-01-03", "2024-01-05", "2024-01-10"]


def test_a_wall_time_as_until_raises_there_when_the_start_is_aware() -> None:
    text = "FREQ=DAILY;UNTIL=20240701T090000"
    with pytest.raises(ValueError, match="UNTIL values must be specified in UTC"):
        rrulestr(text, dtstart=WEDNESDAY.replace(tzinfo=LONDON))
    rule = parse_rrule(text, zone=LONDON, start=WEDNESDAY)
    last = rule.previous_at(datetime(2025, 1, 1, tzinfo=UTC))
    assert last == datetime(2024, 7, 1, 8, tzinfo=UTC)


def test_an_hourly_rule_doubles_and_loses_hours_there() -> None:
    start = datetime(2024, 10, 27, 0, 30, tzinfo=LONDON)
    theirs = [at.astimezone(UTC) for at in islice(iter(rrulestr("FREQ=HOURLY", dtstart=start)), 4)]
    ours = parse_rrule("FREQ=HOURLY", zone=LONDON, start=start)
    assert [f"{at:%H:%M}" for at in theirs] == ["23:30", "00:30", "02:30", "03:30"]
    found = ours.between(start - timedelta(seconds=1), start + timedelta(hours=9), limit=4)
    assert [f"{at:%H:%M}" for at in found] == ["23:30", "00:30", "01:30", "02:30"]


def test_a_wall_time_in_a_gap_is_left_as_it_is_there() -> None:
    start = datetime(2024, 3, 30, 1, 30, tzinfo=LONDON)
    theirs = list(islice(iter(rrulestr("FREQ=DAILY", dtstart=start)), 2))[1]
    assert theirs != theirs.astimezone(UTC).astimezone(LONDON).replace(fold=0)  # no clock shows it
    assert f"{theirs:%d %H:%M}" == "31 01:30"
    ours = parse_rrule("FREQ=DAILY", zone=LONDON, start=start).next_after(start)
    assert ours is not None
    assert f"{ours.astimezone(LONDON):%d %H:%M}" == "31 02:30"


def test_a_rule_that_never_occurs_is_walked_to_the_end_of_the_calendar_there() -> None:
    text = "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"
    late = datetime.fromisoformat("9990-01-01T09:00")
    with mock.patch("dateutil.rrule.calendar.monthrange", wraps=calendar.monthrange) as asked:
        assert _theirs(text, late, 1) == []
    assert asked.call_count > 9 * 12
    assert _ours(text, WEDNESDAY, 1) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("FREQ=DAILY;BYDAY=TH;COUNT=2", id="a start that does not match is left out"),
        pytest.param("FREQ=YEARLY;BYWEEKNO=20;COUNT=9", id="a week without BYDAY has seven days"),
        pytest.param("FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1;BYDAY=MO;COUNT=6", id="calendar years"),
        pytest.param("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=4", id="a month without the day has none"),
    ],
)
def test_where_the_standard_can_be_read_in_two_ways_both_read_it_alike(text: str) -> None:
    assert _ours(text, WEDNESDAY, 9) == _theirs(text, WEDNESDAY, 9)
