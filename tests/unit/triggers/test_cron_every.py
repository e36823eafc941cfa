"""``@every``: a fixed time after the last run."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import (
    CronCalculationError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidInputError,
)
from rota.triggers.cron import Every, parse_cron

LONDON = ZoneInfo("Europe/London")
START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("90m", 5400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5h", 1800),
        ("1.h", 3600),
        ("1h30m10s", 3610 + 1800),
        ("2s500ms", 2),
        ("1500ms", 1),
        ("10ms", 1),
        ("1ns", 1),
        ("3000000us", 3),
        ("3000000µs", 3),
        ("3000000μs", 3),
        ("36h", 36 * 3600),
    ],
)
def test_a_duration_is_read_as_go_reads_it_in_whole_seconds(duration: str, seconds: int) -> None:
    cron = parse_cron(f"@every {duration}", "extended")
    assert cron.next_after(START, LONDON) == START + timedelta(seconds=seconds)


def test_the_next_run_has_no_fraction_of_a_second() -> None:
    cron = parse_cron("@every 5m", "extended")
    late = START + timedelta(microseconds=750_000)
    assert cron.next_after(late, LONDON) == START + timedelta(minutes=5)


def test_the_clock_on_the_wall_makes_no_difference() -> None:
    cron = parse_cron("@every 2h", "extended")
    before = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    for gap, fold in (("skip", "both"), ("shift", "first")):
        found = cron.next_after(before, LONDON, gap=gap, fold=fold)  # type: ignore[arg-type]  # str
        assert found == before + timedelta(hours=2)


def test_between_follows_run_after_run() -> None:
    cron = parse_cron(" @every  20m ", "extended")
    hour = list(cron.between(START, START + timedelta(hours=1), LONDON))
    assert [f"{at:%H:%M}" for at in hour] == ["12:20", "12:40", "13:00"]
    assert list(cron.between(START, START + timedelta(hours=1), LONDON, limit=1)) == hour[:1]
    assert list(cron.between(START, START, LONDON)) == []


def test_it_has_no_past() -> None:
    cron = parse_cron("@every 5m", "extended")
    with pytest.raises(CronCalculationError, match="counts from the last run"):
        cron.previous_at(START, LONDON)
    with pytest.raises(CronCalculationError, match="counts from the last run"):
        cron.matches(START, LONDON)


def test_it_ends_with_the_calendar() -> None:
    cron = parse_cron("@every 1h", "extended")
    last_hour = datetime(9999, 12, 31, 22, 30, tzinfo=UTC)
    assert len(list(cron.between(last_hour, datetime.max.replace(tzinfo=UTC), LONDON))) == 1
    with pytest.raises(CronCalculationError, match="in the calendar"):
        cron.next_after(datetime.max.replace(tzinfo=UTC), LONDON)


@pytest.mark.parametrize(
    ("duration", "reason"),
    [
        ("5", "has an invalid duration"),
        ("m", "has an invalid duration"),
        ("5 m", "must be followed by one duration"),
        ("-5m", "has an invalid duration"),
        ("5min", "has an invalid duration"),
        ("1d", "has an invalid duration"),
        ("５m", "has an invalid duration"),  # noqa: RUF001 - a digit that is not ASCII
        ("1" * 4000, "has an invalid duration"),
        ("0s", "has a duration of zero"),
        ("0h0.0s", "has a duration of zero"),
        ("9999999999h", "has a duration above 106751 days"),
        ("9" * 4000 + "s", "has a duration above 106751 days"),
        ("", "must be followed by one duration"),
    ],
)
def test_an_invalid_duration_is_refused(duration: str, reason: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(f"@every {duration}", "extended")
    assert refusal.value.field == "expression"
    assert reason in refusal.value.reason


def test_a_bad_duration_is_marked() -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(" @every  5q ", "extended")
    assert refusal.value.position == (9, 11)
    assert isinstance(refusal.value.__cause__, FieldParseError)


def test_equal_periods_are_equal_schedules() -> None:
    assert parse_cron("@every 90m", "extended") == parse_cron("@every 1h30m", "extended")
    assert hash(Every(timedelta(1), "a")) == hash(Every(timedelta(1), "b"))


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        ("1s", "Every second"),
        ("90s", "Every 1 minute 30 seconds"),
        ("5m", "Every 5 minutes"),
        ("1h", "Every hour"),
        ("36h", "Every 36 hours"),
        ("25h1m1s", "Every 25 hours 1 minute 1 second"),
    ],
)
def test_it_is_described_in_hours_minutes_and_seconds(duration: str, words: str) -> None:
    assert parse_cron(f"@every {duration}", "extended").describe() == words


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="limit must not be negative"):
        parse_cron("@every 5m", "extended").between(START, START, LONDON, limit=-1)
