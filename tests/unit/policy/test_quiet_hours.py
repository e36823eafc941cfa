"""Quiet hours, by example; all others are compared with brute force in test_quiet_hours_walk."""

# ruff: noqa: DTZ001 - a naive datetime is what is refused

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.policy.gates import Closed, Open
from rota.policy.quiet_hours import QuietHours, QuietWindow
from rota.testing import a_job

LONDON = ZoneInfo("Europe/London")
NIGHT = QuietHours(start=time(22), end=time(7), zone=LONDON)
SATURDAY, SUNDAY = 5, 6


def utc(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "reopens_at"),
    [
        (utc(1, 5, 21, 59), None),
        (utc(1, 5, 22), utc(1, 6, 7)),
        (utc(1, 6, 3), utc(1, 6, 7)),
        (utc(1, 6, 6, 59), utc(1, 6, 7)),
        (utc(1, 6, 7), None),
        (utc(7, 5, 20, 59), None),
        (utc(7, 5, 21), utc(7, 6, 6)),
    ],
)
def test_quiet_hours_end_by_the_clock_on_the_wall(
    now: datetime, reopens_at: datetime | None
) -> None:
    assert NIGHT.reopens_at(now) == reopens_at


def test_a_jump_over_the_end_ends_the_quiet() -> None:
    until_half_past_one = QuietHours(time(22), time(1, 30), LONDON)
    assert until_half_past_one.reopens_at(utc(3, 29, 0, 10)) == utc(3, 29, 1)


def test_a_window_inside_a_gap_does_not_happen() -> None:
    in_the_gap = QuietHours(time(1, 10), time(1, 50), LONDON)
    minutes = (utc(3, 29, 0) + timedelta(minutes=step) for step in range(120))
    assert all(in_the_gap.reopens_at(minute) is None for minute in minutes)


def test_an_end_that_is_shown_twice_ends_the_quiet_twice() -> None:
    until_half_past_one = QuietHours(time(22), time(1, 30), LONDON)
    assert until_half_past_one.reopens_at(utc(10, 25, 0)) == utc(10, 25, 0, 30)
    assert until_half_past_one.reopens_at(utc(10, 25, 0, 45)) is None
    assert until_half_past_one.reopens_at(utc(10, 25, 1)) == utc(10, 25, 1, 30)


def test_the_clock_going_back_into_the_window_prolongs_it() -> None:
    until_two = QuietHours(time(22), time(2), LONDON)
    assert until_two.reopens_at(utc(10, 25, 0)) == utc(10, 25, 2)


def test_a_day_that_a_zone_leaves_out_is_not_waited_for() -> None:
    # Apia had no 30 December 2011: after the 29th came the 31st.
    apia = QuietHours(time(0), time(0), ZoneInfo("Pacific/Apia"), holidays={date(2011, 12, 30)})
    last_of_29th = datetime(2011, 12, 30, 9, 59, tzinfo=UTC)
    assert apia.reopens_at(last_of_29th) is None
    assert apia.reopens_at(last_of_29th + timedelta(minutes=1)) is None


def test_an_instant_of_another_zone_is_the_same_instant() -> None:
    now = datetime(2026, 1, 6, 5, 30, tzinfo=timezone(timedelta(hours=6)))
    assert NIGHT.reopens_at(now) == utc(1, 6, 7)


def test_several_windows_are_one_quiet_where_they_meet() -> None:
    hours = QuietHours(
        time(20),
        time(22),
        LONDON,
        more=(QuietWindow(time(21), time(23)), QuietWindow(time(23), time(1))),
    )
    assert hours.reopens_at(utc(1, 5, 20)) == utc(1, 6, 1)


def test_a_rest_day_is_quiet_from_midnight_to_midnight() -> None:
    hours = QuietHours(time(22), time(7), LONDON, rest_days={SATURDAY, SUNDAY})
    # 9 January 2026 is a Friday.
    assert hours.reopens_at(utc(1, 9, 23)) == utc(1, 12, 7)
    assert hours.reopens_at(utc(1, 11, 12)) == utc(1, 12, 7)
    weekdays_only = QuietHours(time(22), time(7), LONDON, {0, 1, 2, 3}, rest_days={SATURDAY})
    assert weekdays_only.reopens_at(utc(1, 9, 23)) is None
    assert weekdays_only.reopens_at(utc(1, 10, 12)) == utc(1, 11, 0)


def test_a_holiday_is_quiet_from_midnight_to_midnight() -> None:
    christmas = {date(2026, 12, 25), date(2026, 12, 26)}
    assert QuietHours(time(22), time(7), LONDON, holidays=christmas).reopens_at(
        utc(12, 24, 22)
    ) == utc(12, 27, 7)
    only_holidays = QuietHours(time(0), time(0), LONDON, holidays=christmas)
    assert only_holidays.reopens_at(utc(12, 25, 12)) == utc(12, 27, 0)
    assert only_holidays.reopens_at(utc(12, 24, 23, 59)) is None


def test_only_jobs_that_notify_are_held_back() -> None:
    job, now = a_job(), utc(1, 5, 23)
    assert NIGHT.judge(job, now, notifies=True) == Closed(utc(1, 6, 7), "quiet hours")
    assert NIGHT.judge(job, now, notifies=False) == Open()
    assert NIGHT.judge(job, utc(1, 5, 12), notifies=True) == Open()


def test_quiet_hours_are_equal_by_what_they_say() -> None:
    again = QuietHours(time(22, fold=1), time(7), LONDON, {6, 5, 4, 3, 2, 1, 0}, rest_days=set())
    assert again == NIGHT
    assert hash(again) == hash(NIGHT)
    assert QuietHours(time(22), time(8), LONDON) != NIGHT


def test_at_the_end_of_the_calendar_quiet_lasts_to_its_end() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert NIGHT.reopens_at(last) == last
    assert QuietHours(time(22), time(7), ZoneInfo("Asia/Tokyo")).reopens_at(last) == last


@pytest.mark.parametrize(
    "fields",
    [
        {"start": time(0), "end": time(12), "more": (QuietWindow(time(12), time(0)),)},
        {"rest_days": set(range(7))},
        {"start": time(7), "end": time(6), "more": (QuietWindow(time(5), time(8)),)},
        {
            "start": time(22),
            "end": time(7),
            "weekdays": {0},
            "rest_days": {0, 2, 3, 4, 5, 6},
            "more": (QuietWindow(time(7), time(0), {1}),),
        },
    ],
)
def test_quiet_hours_that_never_end_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="no moment of the week"):
        QuietHours(**{"start": time(0), "end": time(0), "zone": UTC, **fields})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"start": "22:00"}, "start"),
        ({"end": None}, "end"),
        ({"zone": "Europe/London"}, "zone"),
        ({"weekdays": "mon"}, "weekdays"),
        ({"more": (time(2),)}, r"more\[0\]"),
        ({"rest_days": {8}}, "rest_days"),
        ({"holidays": "2026-12-25"}, "holidays"),
        ({"holidays": ["2026-13-25"]}, "holidays"),
        ({"holidays": ["20261225"]}, "holidays"),
        ({"holidays": [25]}, "holidays"),
        ({"holidays": [datetime(2026, 12, 25)]}, "holidays"),
    ],
)
def test_wrong_parts_are_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field} must"):
        QuietHours(**{"start": time(22), "end": time(7), "zone": LONDON, **fields})


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="now must be an aware"):
        NIGHT.reopens_at(datetime(2026, 1, 1))
