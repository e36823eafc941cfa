"""When a document is next."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.unit.poller.polling import DAY, HOUR, MINUTE, NOW, SECOND

from rota.errors import InvalidCronExpressionError, InvalidInputError
from rota.poller import next_start

NO_TIME = timedelta(0)
LONDON = ZoneInfo("Europe/London")


def ask(interval: Any = "* * * * *", sleep_until: Any = NOW, **fields: Any) -> datetime | None:
    found = {
        "repeat_until": None,
        "reprocess_delay": NO_TIME,
        "now": NOW,
        "zone": UTC,
        **fields,
    }
    return next_start(interval, sleep_until, **found)


@pytest.mark.parametrize("interval", [None, "", False, 0, float("nan")])
def test_a_document_without_an_interval_has_no_next_time(interval: str | None) -> None:
    assert ask(interval) is None


def test_the_next_time_is_strictly_after_the_last() -> None:
    assert ask() == NOW + MINUTE
    assert ask(sleep_until=NOW + 30 * SECOND) == NOW + MINUTE
    assert ask(sleep_until=NOW + MINUTE) == NOW + 2 * MINUTE


def test_without_a_last_time_it_counts_from_now() -> None:
    assert ask(sleep_until=None, now=NOW + 90 * SECOND) == NOW + 2 * MINUTE


def test_the_delay_is_added_to_the_last_time_and_not_to_the_present() -> None:
    assert ask(reprocess_delay=5 * MINUTE) == NOW + 6 * MINUTE
    late = NOW + 3 * MINUTE
    assert ask(reprocess_delay=5 * MINUTE, now=late) == NOW + 6 * MINUTE


def test_a_time_that_is_past_becomes_now() -> None:
    assert ask("0 * * * *", sleep_until=NOW - 10 * DAY) == NOW


def test_a_time_that_is_present_stays() -> None:
    assert ask(sleep_until=NOW - MINUTE) == NOW


def test_nothing_follows_the_end_but_the_end_itself_counts() -> None:
    assert ask(repeat_until=NOW + MINUTE) == NOW + MINUTE
    assert ask(repeat_until=NOW + MINUTE - SECOND) is None
    assert ask(repeat_until=NOW + 5 * MINUTE, reprocess_delay=5 * MINUTE) is None


def test_one_that_is_late_is_made_up_for_even_after_its_end() -> None:
    long_ago = NOW - DAY
    assert ask("0 * * * *", sleep_until=long_ago, repeat_until=long_ago + HOUR) == NOW


def test_a_schedule_at_the_end_of_the_calendar_has_no_next_time() -> None:
    last = datetime(9999, 12, 31, 23, 59, 30, tzinfo=UTC)
    assert ask(sleep_until=last) is None
    assert ask(reprocess_delay=timedelta.max) is None


@pytest.mark.parametrize("interval", ["0 * * * *", "@daily", "@every 1h"])
@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
def test_the_first_date_of_the_calendar_is_past_in_every_zone(interval: str, zone: str) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    assert ask(interval, sleep_until=first, zone=ZoneInfo(zone)) == NOW


@pytest.mark.parametrize("interval", ["0 0 30 2 *", "0 0 0 31 2,4 *"])
def test_a_date_that_no_year_has_never_comes(interval: str) -> None:
    assert ask(interval) is None


@pytest.mark.parametrize(
    ("interval", "after"),
    [
        ("*/20 * * * *", 20 * MINUTE),
        ("0 0 * * SAT", 12 * HOUR),
        ("0 13 ? MAY FRI", HOUR),
        ("@hourly", HOUR),
        ("@daily", 12 * HOUR),
        ("@every 1h30m", 90 * MINUTE),
        ("*/10 * * * * *", 10 * SECOND),
    ],
)
def test_intervals_are_of_the_extended_dialect(interval: str, after: timedelta) -> None:
    assert ask(interval) == NOW + after


def test_a_time_that_the_zone_skips_is_passed_over() -> None:
    before = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)
    found = ask("30 1 * * *", sleep_until=before, now=before, zone=LONDON)
    assert found == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


def test_a_time_that_the_zone_shows_twice_occurs_twice() -> None:
    first = ask("30 1 * * *", datetime(2026, 10, 25, tzinfo=UTC), zone=LONDON)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert ask("30 1 * * *", first, zone=LONDON) == first + HOUR


@pytest.mark.parametrize("interval", ["nonsense", "61 * * * *", "* * * *", "@sometimes"])
def test_an_interval_that_cannot_be_read_is_refused(interval: str) -> None:
    with pytest.raises(InvalidCronExpressionError):
        ask(interval)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("interval", 5),
        ("interval", []),
        ("interval", {}),
        ("interval", True),
        ("sleep_until", datetime(2026, 5, 1)),  # noqa: DTZ001 - naive on purpose
        ("sleep_until", "2026-05-01"),
        ("repeat_until", datetime(2026, 5, 1)),  # noqa: DTZ001 - naive on purpose
        ("repeat_until", 17),
        ("repeat_until", datetime.max.replace(tzinfo=ZoneInfo("America/New_York"))),
        ("now", datetime(2026, 5, 1)),  # noqa: DTZ001 - naive on purpose
        ("reprocess_delay", -SECOND),
        ("reprocess_delay", 5),
    ],
)
def test_invalid_values_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        ask(**{field: value})
    assert refusal.value.details["field"] == field
