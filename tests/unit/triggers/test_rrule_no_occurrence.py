"""No line of input can keep a search busy: what never occurs is known to, or given up on, soon."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest import mock
from zoneinfo import ZoneInfo

import pytest

from rota.errors import NoOccurrenceError
from rota.triggers.rrule import parse_rrule
from rota.triggers.rrule_days import MatchingDays
from rota.triggers.rrule_parts import SEARCH_STEPS, Budget

LONDON = ZoneInfo("Europe/London")
START = datetime.fromisoformat("2024-01-01T04:00")
NOW = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """The number of years looked at, as the only thing in the list."""
    counted = [0]
    look = MatchingDays.of_year

    def count(days: MatchingDays, year: int) -> tuple[int, int]:
        counted[0] += 1
        return look(days, year)

    with mock.patch.object(MatchingDays, "of_year", count):
        yield counted


NEVER = [
    ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", 500),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", 500),
    ("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30,31", 500),
    ("FREQ=WEEKLY;INTERVAL=2;BYMONTH=2;BYDAY=MO;BYSETPOS=2", 2_000),
    ("FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6", 500),
    ("FREQ=YEARLY;BYYEARDAY=1;BYMONTH=3", 500),
    ("FREQ=YEARLY;BYDAY=53MO;BYMONTHDAY=1", 500),
    ("FREQ=YEARLY;INTERVAL=4;BYYEARDAY=366;BYMONTH=1", 9_000),
    ("FREQ=MONTHLY;BYDAY=6MO", 500),
    ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", 500),
    ("FREQ=MONTHLY;BYMONTHDAY=1;BYSETPOS=2", 500),
    ("FREQ=MONTHLY;INTERVAL=12;BYMONTH=2", 9_000),
    ("FREQ=MONTHLY;INTERVAL=24;BYMONTHDAY=30,31;BYSETPOS=3", 9_000),
    ("FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=3", 500),
    ("FREQ=DAILY;INTERVAL=7;BYDAY=TU", 500),
    ("FREQ=DAILY;INTERVAL=146097;BYDAY=TU", 9_000),
    ("FREQ=DAILY;BYHOUR=1,2;BYSETPOS=3", 0),
    ("FREQ=HOURLY;BYMINUTE=1;BYSETPOS=7", 0),
    ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", 500),
    ("FREQ=MINUTELY;BYMONTHDAY=31;BYMONTH=4,6,9,11", 500),
    ("FREQ=SECONDLY;INTERVAL=86400;BYHOUR=3", 0),
    ("FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5", 0),
    ("FREQ=MINUTELY;INTERVAL=1440;BYHOUR=9,10,11", 0),
    ("FREQ=HOURLY;INTERVAL=24;BYHOUR=6", 0),
    ("FREQ=HOURLY;INTERVAL=168;BYDAY=TU", 0),
    ("FREQ=HOURLY;INTERVAL=24;BYHOUR=5;BYMONTH=1", 3_000),
]


@pytest.mark.parametrize(("text", "most_looks"), NEVER)
@pytest.mark.parametrize("zone", [UTC, LONDON], ids=str)
def test_a_rule_that_never_occurs_says_so_after_few_looks(
    text: str, most_looks: int, zone: ZoneInfo, looks: list[int]
) -> None:
    rule = parse_rrule(text, zone=zone, start=START)
    assert rule.next_after(NOW) is None
    assert rule.previous_at(NOW) is None
    assert looks[0] <= most_looks


RARE = [
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2044-02-29T04:00"),
    ("FREQ=MONTHLY;BYMONTH=2;BYDAY=MO;BYSETPOS=5", "2044-02-29T04:00"),
    ("FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYHOUR=4", "2044-02-29T04:00"),
    ("FREQ=HOURLY;INTERVAL=168;BYDAY=MO", "2024-03-04T04:00"),
    ("FREQ=YEARLY;INTERVAL=400;BYMONTH=2;BYMONTHDAY=29", "2424-02-29T04:00"),
    ("FREQ=DAILY;INTERVAL=1000000", "4761-11-28T04:00"),  # date.fromordinal agrees
    ("FREQ=SECONDLY;INTERVAL=90000;BYHOUR=3", "2024-03-15T03:00"),  # each 25 hours; each 25 days
]


@pytest.mark.parametrize(("text", "expected"), RARE)
def test_a_rule_that_occurs_rarely_is_found(text: str, expected: str) -> None:
    rule = parse_rrule(text, zone=UTC, start=START)
    found = rule.next_after(datetime(2024, 3, 1, tzinfo=UTC))
    assert found is not None
    assert found.replace(tzinfo=None) == datetime.fromisoformat(expected)


def test_that_nothing_is_left_late_says_nothing_of_earlier() -> None:
    rule = parse_rrule("FREQ=DAILY;INTERVAL=1000000", zone=UTC, start=START)
    assert rule.next_after(datetime(9000, 1, 1, tzinfo=UTC)) is None
    assert rule.next_after(NOW) == rule.start + timedelta(days=1_000_000)


def test_parts_that_hardly_ever_meet_are_given_up_on_with_the_rule_in_the_message() -> None:
    text = "FREQ=SECONDLY;INTERVAL=86401;BYHOUR=3;BYMINUTE=0;BYSECOND=1;BYMONTH=2;BYMONTHDAY=29"
    rule = parse_rrule(text, zone=LONDON, start=START)
    with pytest.raises(NoOccurrenceError, match="INTERVAL=86401") as given_up:
        rule.next_after(NOW)
    assert given_up.value.details == {"rule": text, "steps": SEARCH_STEPS}


def test_a_budget_counts_and_then_ends() -> None:
    budget = Budget("FREQ=DAILY", 2)
    budget.spend()
    budget.spend()
    assert budget.spent == 2
    with pytest.raises(NoOccurrenceError, match='"FREQ=DAILY" after 2 steps'):
        budget.spend()


@pytest.mark.parametrize("text", ["FREQ=YEARLY", "FREQ=DAILY", "FREQ=HOURLY", "FREQ=MINUTELY"])
def test_nothing_occurs_after_the_end_of_the_calendar(text: str) -> None:
    rule = parse_rrule(text, zone=LONDON, start=START)
    last = rule.previous_at(datetime.max.replace(tzinfo=UTC))
    assert last is not None
    assert last.year == 9998
    assert rule.next_after(last) is None
    assert rule.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_nothing_occurs_before_the_start() -> None:
    rule = parse_rrule("FREQ=DAILY", zone=LONDON, start=START)
    assert rule.next_after(datetime.min.replace(tzinfo=UTC)) == rule.start
    assert rule.previous_at(datetime.min.replace(tzinfo=UTC)) is None


def test_the_last_of_many_occurrences_is_closed_in_on(looks: list[int]) -> None:
    every_hour = ",".join(map(str, range(24)))
    text = f"FREQ=YEARLY;BYMONTH=1,2,3;BYDAY=MO,TU,WE;BYHOUR={every_hour}"
    rule = parse_rrule(text, zone=UTC, start=START)
    assert rule.previous_at(NOW) == datetime(2024, 3, 27, 23, tzinfo=UTC)
    assert looks[0] < 60


TEXTS = [
    "FREQ=YEARLY;BYMONTH=1;BYDAY=1MO",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30",
    "FREQ=MINUTELY;INTERVAL=5",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9",
    "FREQ=SECONDLY;INTERVAL=11;BYDAY=MO",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_rule_begun_long_ago_costs_what_a_young_one_does(text: str, looks: list[int]) -> None:
    def cost(begun: datetime) -> tuple[int, int]:
        rule = parse_rrule(text, zone=LONDON, start=begun)
        rule.next_after(NOW)  # what is worked out once is not what is counted
        looks[0] = 0
        budget = Budget.for_question(text)
        with mock.patch.object(Budget, "for_question", return_value=budget):
            assert rule.next_after(NOW) is not None
        return looks[0], budget.spent

    young = cost(datetime(2024, 5, 31, 9, tzinfo=UTC))
    for years in (1, 10, 50):
        old_looks, old_steps = cost(datetime(2024 - years, 5, 31, 9, tzinfo=UTC))
        assert old_looks <= young[0] + 30
        assert old_steps <= young[1] + 30
