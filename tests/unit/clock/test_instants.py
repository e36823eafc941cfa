from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from rota.clock.protocol import END_OF_TIME, as_duration, later, to_utc
from rota.errors import InvalidInputError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_an_instant_in_utc_is_returned_unchanged() -> None:
    assert to_utc(NOON) is NOON


def test_an_instant_of_another_zone_becomes_the_same_instant_in_utc() -> None:
    there = datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert to_utc(there) == NOON
    assert to_utc(there).tzinfo is UTC


def test_a_naive_datetime_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(InvalidInputError, match="start must be an aware datetime, got") as caught:
        to_utc(datetime(2026, 3, 1), "start")  # noqa: DTZ001 - naive on purpose
    assert caught.value.details == {"field": "start", "value": "2026-03-01T00:00:00"}


def test_a_value_that_is_not_a_datetime_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidInputError, match="instant must be a datetime, not date"):
        to_utc(date(2026, 3, 1))  # type: ignore[arg-type]  # wrong on purpose


def test_a_number_is_not_a_duration() -> None:
    with pytest.raises(InvalidInputError, match="duration must be a timedelta, not int") as caught:
        as_duration(5)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.details == {"field": "duration"}


def test_a_duration_is_returned_unchanged() -> None:
    assert as_duration(timedelta(seconds=5)) == timedelta(seconds=5)


def test_later_stops_at_the_end_of_the_calendar() -> None:
    assert later(NOON, timedelta(hours=1)) == NOON + timedelta(hours=1)
    assert later(NOON, timedelta.max) == END_OF_TIME
    assert later(NOON, timedelta.min) == NOON
