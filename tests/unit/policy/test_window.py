"""Stretches of the day on a wall clock."""

# ruff: noqa: DTZ001 - a wall time is a naive datetime

from datetime import UTC, datetime, time
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.policy.quiet_hours import (
    QuietWindow,
    format_time_of_day,
    parse_time_of_day,
    read_weekdays,
)

FRIDAY = frozenset({4})


def wall(day: int, hour: int, minute: int = 0) -> datetime:
    """In January 2026, of which the 1st is a Thursday."""
    return datetime(2026, 1, day, hour, minute)


def test_a_window_begins_with_its_start_and_is_over_at_its_end() -> None:
    lunch = QuietWindow(time(12), time(13))
    assert [lunch.covers(wall(1, *at)) for at in ((11, 59), (12, 0), (12, 59), (13, 0))] == [
        False,
        True,
        True,
        False,
    ]


def test_a_window_over_midnight_belongs_to_the_day_it_begins_on() -> None:
    night = QuietWindow(time(22), time(7), FRIDAY)
    covered = [at for at in (wall(2, 6), wall(2, 23), wall(3, 6), wall(3, 7)) if night.covers(at)]
    assert covered == [wall(2, 23), wall(3, 6)]
    assert not night.covers(wall(3, 23))


def test_a_window_within_a_day_keeps_to_its_weekdays() -> None:
    lunch = QuietWindow(time(12), time(13), FRIDAY)
    assert [lunch.covers(wall(day, 12)) for day in (1, 2, 3)] == [False, True, False]


def test_the_night_of_sunday_lasts_into_monday() -> None:
    night = QuietWindow(time(22), time(7), frozenset({6}))
    assert night.covers(wall(5, 3))
    assert not night.covers(wall(6, 3))


def test_with_equal_ends_there_is_no_window() -> None:
    nothing = QuietWindow(time(9), time(9))
    assert not any(nothing.covers(wall(1, hour)) for hour in range(24))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("22:00", time(22)), ("7:05", time(7, 5)), ("00:00:09", time(0, 0, 9)), (time(4), time(4))],
)
def test_a_time_of_day_is_read_as_people_write_it(text: object, shown: time) -> None:
    assert parse_time_of_day(text, "start") == shown


@pytest.mark.parametrize(
    "text", ["24:00", "22", "22:0", "22:60", "1:02:60", "22:00Z", " 22:00", "٢٢:00", "", 22, None]
)
def test_an_invalid_time_of_day_is_refused_with_its_field_name(text: object) -> None:
    with pytest.raises(InvalidInputError, match="end must be") as refused:
        parse_time_of_day(text, "end")
    assert refused.value.details["field"] == "end"


@pytest.mark.parametrize("shown", [time(22), time(7, 5, 9)])
def test_a_time_of_day_can_be_written_and_read_again(shown: time) -> None:
    assert parse_time_of_day(format_time_of_day(shown), "start") == shown


def test_weekdays_have_numbers_and_names() -> None:
    assert read_weekdays(["Mon", "sun", 2], "weekdays") == {0, 2, 6}
    assert QuietWindow(time(1), time(2), {4, 5}).weekdays == frozenset({4, 5})


@pytest.mark.parametrize("days", ["mon", 1, None, [7], [-1], [True], ["monday"], [1.0]])
def test_invalid_weekdays_are_refused(days: object) -> None:
    with pytest.raises(InvalidInputError, match="rest_days must be"):
        read_weekdays(days, "rest_days")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"start": "22:00"}, "start"),
        ({"end": datetime(2026, 1, 1)}, "end"),
        ({"start": time(22, tzinfo=UTC)}, "start"),
        ({"end": time(1, 0, 0, 1)}, "end"),
        ({"weekdays": {9}}, "weekdays"),
    ],
)
def test_a_window_of_wrong_parts_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field} ") as refused:
        QuietWindow(**{"start": time(1), "end": time(2), **fields})
    assert refused.value.details["field"] == field
