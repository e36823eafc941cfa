"""The zone of a rule: how long its offset stays the same, and when a day of it ends."""

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from rota.triggers.rrule_parts import (
    CALENDAR_END,
    LONGEST_SHIFT,
    YEAR_STEPS,
    Budget,
    Frame,
    instant_seconds,
)

LONDON, SAO_TOME = ZoneInfo("Europe/London"), ZoneInfo("Africa/Sao_Tome")
SPRING = instant_seconds(datetime(2026, 3, 29, 1, tzinfo=UTC))
AUTUMN = instant_seconds(datetime(2026, 10, 25, 1, tzinfo=UTC))
HOUR = 3600


def a_frame(zone: tzinfo) -> Frame:
    return Frame(zone, 0, 0, "skip", "both")


def seconds(text: str) -> int:
    return instant_seconds(datetime.fromisoformat(text).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("zone", "at", "offset", "end"),
    [
        (LONDON, "2026-01-01", 0, "2026-03-29T01:00"),
        (LONDON, "2026-03-29T00:59:59", 0, "2026-03-29T01:00"),
        (LONDON, "2026-03-29T01:00", HOUR, "2026-10-25T01:00"),
        (LONDON, "2026-10-25T01:00", 0, "2027-01-01"),
        (SAO_TOME, "2017-12-31T23:59:59", 0, "2018-01-01"),
        (SAO_TOME, "2018-01-01", 0, "2018-01-01T01:00"),
        (SAO_TOME, "2018-01-01T01:00", HOUR, "2019-01-01"),
        (SAO_TOME, "2019-01-01", HOUR, "2019-01-01T01:00"),
    ],
)
def test_a_long_stretch_ends_with_a_change_or_with_the_year(
    zone: ZoneInfo, at: str, offset: int, end: str
) -> None:
    budget = Budget.for_question("rule")
    frame = a_frame(zone)
    for _ in range(2):
        assert frame.long_stretch_at(seconds(at), budget) == (offset, seconds(end))
        assert budget.spent == YEAR_STEPS


def test_a_stretch_ends_two_days_later_or_with_a_change() -> None:
    frame = a_frame(LONDON)
    assert frame.stretch_at(SPRING - LONGEST_SHIFT - 1) == (0, SPRING - 1)
    assert frame.stretch_at(SPRING - LONGEST_SHIFT) == (0, SPRING)
    assert frame.stretch_at(SPRING - 1) == (0, SPRING)
    assert frame.stretch_at(SPRING) == (HOUR, SPRING + LONGEST_SHIFT)


def test_wall_times_are_plain_until_a_change_comes_near() -> None:
    frame = a_frame(LONDON)
    summer = SPRING + 30 * 24 * HOUR
    assert frame.plain_until(summer + HOUR, HOUR) == AUTUMN + HOUR - LONGEST_SHIFT
    near = AUTUMN - HOUR
    assert frame.plain_until(near + HOUR, HOUR) == near + HOUR
    for fixed in (UTC, timezone(timedelta(hours=1))):
        assert a_frame(fixed).plain_until(summer, HOUR) == CALENDAR_END


@pytest.mark.parametrize(
    ("zone", "day", "last"),
    [
        ("Europe/London", date(2026, 7, 1), "2026-07-01T22:59:59"),
        ("Africa/Cairo", date(2024, 4, 25), "2024-04-25T21:59:59"),  # midnight is skipped
        ("America/Havana", date(2026, 10, 31), "2026-11-01T03:59:59"),  # midnight comes twice
        ("Pacific/Apia", date(2011, 12, 29), "2011-12-30T09:59:59"),  # a whole day is skipped
    ],
)
def test_a_day_ends_before_a_later_one_is_shown(zone: str, day: date, last: str) -> None:
    assert a_frame(ZoneInfo(zone)).last_second_of(day.toordinal()) == seconds(last)


def test_changes_are_listed_from_the_first_second_up_to_but_without_the_last() -> None:
    frame = a_frame(LONDON)
    assert list(frame.transitions(SPRING, SPRING + 1)) == [(SPRING, 0, HOUR)]
    assert list(frame.transitions(SPRING + 1, AUTUMN)) == []
    assert list(frame.transitions(SPRING + 1, AUTUMN + 1)) == [(AUTUMN, HOUR, 0)]


@pytest.mark.parametrize(
    ("wall", "offset"),
    [
        (SPRING - 1, 0),
        (SPRING, None),
        (SPRING + HOUR - 1, None),
        (SPRING + HOUR, HOUR),
        (SPRING + LONGEST_SHIFT * 9, HOUR),
        (AUTUMN - 1, HOUR),
        (AUTUMN, None),
        (AUTUMN + HOUR - 1, None),
        (AUTUMN + HOUR, 0),
    ],
)
def test_a_wall_time_has_one_offset_unless_a_gap_or_a_fold_has_it(
    wall: int, offset: int | None
) -> None:
    assert a_frame(LONDON).plain_offset(wall) == offset
