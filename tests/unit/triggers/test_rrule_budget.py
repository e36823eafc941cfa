"""No question about a rule takes long, and a large COUNT does not hide what occurs soon."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from tests.cpu import least_cpu_seconds

from rota.errors import CronCalculationError, NoOccurrenceError
from rota.triggers.cron import parse_cron
from rota.triggers.interval import Interval
from rota.triggers.rrule import RecurrenceRule, parse_rrule
from rota.triggers.zone import Gap

NEW_YORK = ZoneInfo("America/New_York")
START = datetime.fromisoformat("2026-01-01T09:00")
NOW = datetime(2026, 6, 1, tzinfo=UTC)
LONGEST_CPU_SECONDS = 0.1
"""Twice what is promised, so that a busy machine does not fail."""


def cost(
    make_question: Callable[[], Callable[[datetime], object]],
    instant: datetime,
    enough: float = LONGEST_CPU_SECONDS,
) -> float:
    """Seconds of the processor that a question takes; one that has no answer counts as well."""

    def make_call() -> Callable[[], None]:
        ask = make_question()

        def call() -> None:
            with suppress(NoOccurrenceError):
                ask(instant)

        return call

    return least_cpu_seconds(make_call, enough)


def a_rule(text: str) -> RecurrenceRule:
    return parse_rrule(text, zone=NEW_YORK, start=START, gap="skip")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=YEARLY;INTERVAL=7000;COUNT=2", "9026-01-01T14:00"),
        ("FREQ=WEEKLY;INTERVAL=86400;COUNT=2", "3681-11-20T14:00"),
        ("FREQ=YEARLY;COUNT=7900", "2027-01-01T14:00"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=5;COUNT=100000", "2026-06-29T13:00"),
        ("FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0;COUNT=100000", "2026-06-01T13:00"),
        ("FREQ=HOURLY;BYMINUTE=0,15,30,45;BYSETPOS=-1;COUNT=50000", "2026-06-01T00:45"),
        ("FREQ=HOURLY;INTERVAL=5;BYHOUR=9;BYDAY=MO;COUNT=50000", "2026-06-29T13:00"),
    ],
)
def test_a_large_count_or_interval_is_answered_soon(text: str, expected: str) -> None:
    assert cost(lambda: a_rule(text).next_after, NOW) < LONGEST_CPU_SECONDS
    found = a_rule(text).next_after(NOW)
    assert found is not None
    assert found.replace(tzinfo=None) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=WEEKLY;COUNT=100000",
        "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;COUNT=100000",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=5;COUNT=20000",
        "FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0;COUNT=100000",
        "FREQ=SECONDLY;INTERVAL=7919;BYHOUR=3;BYMINUTE=7;BYSECOND=11",
        "FREQ=SECONDLY;INTERVAL=86401;BYHOUR=3;BYMINUTE=0;BYSECOND=0",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;BYHOUR=2;BYMINUTE=30",
        "FREQ=HOURLY;BYMINUTE=0,15,30,45;BYSETPOS=-1;COUNT=50000",
        "FREQ=HOURLY;INTERVAL=5;BYHOUR=9;BYDAY=MO;COUNT=50000",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=7;BYSECOND=11;BYDAY=MO;COUNT=5",
        "FREQ=YEARLY;COUNT=7900",
    ],
)
@pytest.mark.parametrize("year", [2026, 3000, 9000])
def test_every_question_ends_soon(text: str, year: int) -> None:
    instant = datetime(year, 6, 1, tzinfo=UTC)
    assert cost(lambda: a_rule(text).next_after, instant) < LONGEST_CPU_SECONDS
    assert cost(lambda: a_rule(text).previous_at, instant) < LONGEST_CPU_SECONDS


def test_an_abandoned_search_is_not_repeated() -> None:
    rule = a_rule("FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0;COUNT=100000")
    instant = datetime(3000, 6, 1, tzinfo=UTC)
    with pytest.raises(NoOccurrenceError):
        rule.next_after(instant)
    longest = LONGEST_CPU_SECONDS / 10
    assert cost(lambda: rule.next_after, instant, enough=longest) < longest


def test_steps_and_times_that_rarely_meet_are_found() -> None:
    text = "FREQ=SECONDLY;INTERVAL=7919;BYHOUR=3;BYMINUTE=7;BYSECOND=11"
    end, longest = datetime(2200, 1, 1, tzinfo=UTC), 2 * LONGEST_CPU_SECONDS

    def make_call() -> Callable[[], object]:
        rule = a_rule(text)
        return lambda: list(rule.between(NOW, end))

    assert least_cpu_seconds(make_call, longest) < longest
    found = list(a_rule(text).between(NOW, end))
    start = a_rule(text).start
    assert all((at - start).total_seconds() % 7919 == 0 for at in found)
    assert [at.year for at in found] == [2041, 2064, 2086, 2107, 2129, 2151, 2172, 2194]


@pytest.mark.parametrize("count", [1, 2, 27, 28, 29, 60])
def test_a_count_ends_a_rule_after_exactly_that_many(count: int) -> None:
    texts = [
        "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
        "FREQ=WEEKLY;BYDAY=SU;BYHOUR=2;BYMINUTE=30",
        "FREQ=MONTHLY;BYDAY=SU;BYSETPOS=2;BYHOUR=2;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=7;BYHOUR=2,9",
        "FREQ=MINUTELY;BYHOUR=9;BYMINUTE=0,30;BYDAY=MO",
        "FREQ=HOURLY;BYMINUTE=0,15,30;BYSETPOS=-1;BYHOUR=9",
    ]
    end = datetime(2100, 1, 1, tzinfo=UTC)
    for text in texts:
        endless = a_rule(text).between(NOW - timedelta(days=1000), end, limit=count + 1)
        counted = a_rule(f"{text};COUNT={count}").between(NOW - timedelta(days=1000), end)
        assert list(counted) == list(endless)[:count]


def test_a_rule_that_never_occurs_has_no_previous_occurrence_in_any_year() -> None:
    rule = a_rule("FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;BYHOUR=2;BYMINUTE=30")
    for year in (2500, 3000, 9000):
        assert rule.previous_at(datetime(year, 1, 1, tzinfo=UTC)) is None


BEYOND = [
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
]


def test_instants_outside_the_calendar_of_utc_are_answered() -> None:
    late, early = BEYOND
    rule, cron = a_rule("FREQ=DAILY"), parse_cron("0 9 * * *")
    interval = Interval(timedelta(hours=1), NOW)
    assert rule.next_after(late) is None
    assert rule.previous_at(early) is None
    assert rule.next_after(early) == rule.start
    assert interval.next_after(late) is None
    assert interval.next_after(early) == NOW
    assert interval.previous_at(early) is None
    with pytest.raises(CronCalculationError):
        cron.next_after(late, NEW_YORK)
    with pytest.raises(CronCalculationError):
        cron.previous_at(early, NEW_YORK)
    assert list(cron.between(late, late, NEW_YORK)) == []
    assert list(rule.between(late, late)) == []


@pytest.mark.parametrize("instant", BEYOND)
def test_every_has_no_occurrence_outside_the_calendar(instant: datetime) -> None:
    every = parse_cron("@every 1h", dialect="extended")
    if instant.year > 9000:
        with pytest.raises(CronCalculationError):
            every.next_after(instant, UTC)
    else:
        assert every.next_after(instant, UTC).year == 1


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("FREQ=YEARLY;COUNT=1100", 3125),
        ("FREQ=MONTHLY;COUNT=1700", 2167),
        ("FREQ=WEEKLY;COUNT=1200", 2048),
        ("FREQ=DAILY;COUNT=30000", 2108),
    ],
)
def test_the_end_of_a_long_series_is_found_within_the_budget(text: str, year: int) -> None:
    rule = a_rule(text)
    last = rule.previous_at(datetime(9000, 1, 1, tzinfo=UTC))
    assert last is not None
    assert last.year == year
    assert rule.next_after(last) is None


@pytest.mark.parametrize(
    ("text", "gap"), [("FREQ=MONTHLY;COUNT=3000", "skip"), ("FREQ=YEARLY;COUNT=6900", "shift")]
)
def test_a_series_whose_end_costs_too_much_is_given_up(text: str, gap: Gap) -> None:
    rule = parse_rrule(text, zone=NEW_YORK, start=START, gap=gap)
    with pytest.raises(NoOccurrenceError, match="after 4000 steps"):
        rule.next_after(datetime(9000, 1, 1, tzinfo=UTC))
