"""Every so long since an anchor."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import InvalidInputError
from rota.triggers import Trigger
from rota.triggers.interval import Interval, describe_duration

ANCHOR = datetime(2026, 5, 1, 12, tzinfo=UTC)
NINETY_MINUTES = timedelta(minutes=90)
TICK = timedelta.resolution


@pytest.mark.parametrize(
    ("instant", "previous", "following"),
    [
        (ANCHOR - timedelta(days=9), None, 0),
        (ANCHOR - TICK, None, 0),
        (ANCHOR, 0, 1),
        (ANCHOR + TICK, 0, 1),
        (ANCHOR + NINETY_MINUTES - TICK, 0, 1),
        (ANCHOR + NINETY_MINUTES, 1, 2),
        (ANCHOR + 1_000_000 * NINETY_MINUTES, 1_000_000, 1_000_001),
    ],
)
def test_occurrences_are_the_anchor_and_equal_steps_after_it(
    instant: datetime, previous: int | None, following: int
) -> None:
    interval = Interval(NINETY_MINUTES, ANCHOR)
    assert interval.next_after(instant) == ANCHOR + following * NINETY_MINUTES
    expected = None if previous is None else ANCHOR + previous * NINETY_MINUTES
    assert interval.previous_at(instant) == expected


def test_it_is_a_trigger_that_ends_with_the_calendar() -> None:
    trigger: Trigger = Interval(timedelta(days=400), ANCHOR)
    assert trigger.next_after(datetime(9999, 6, 1, tzinfo=UTC)) is None


def test_the_anchor_is_kept_in_utc() -> None:
    local = ANCHOR.astimezone()
    assert Interval(NINETY_MINUTES, local) == Interval(NINETY_MINUTES, ANCHOR)
    assert Interval(NINETY_MINUTES, local).anchor.tzinfo is UTC


@pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=-1)])
def test_an_interval_without_length_is_refused(every: timedelta) -> None:
    with pytest.raises(InvalidInputError, match="every must be longer than zero") as refusal:
        Interval(every, ANCHOR)
    assert refusal.value.details["field"] == "every"


def test_naive_datetimes_are_refused_by_name() -> None:
    naive = ANCHOR.replace(tzinfo=None)
    with pytest.raises(InvalidInputError, match="anchor must be an aware datetime"):
        Interval(NINETY_MINUTES, naive)
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        Interval(NINETY_MINUTES, ANCHOR).next_after(naive)
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        Interval(NINETY_MINUTES, ANCHOR).previous_at(naive)


def test_it_is_described_with_its_anchor() -> None:
    words = Interval(NINETY_MINUTES, ANCHOR).describe()
    assert words == "Every 1 hour 30 minutes since 2026-05-01 12:00:00 UTC"


def test_a_duration_is_described_down_to_fractions_of_a_second() -> None:
    assert describe_duration(timedelta(seconds=1.5)) == "1.5 seconds"
    assert describe_duration(timedelta(days=2, seconds=1)) == "48 hours 1 second"
    assert describe_duration(timedelta(minutes=1)) == "minute"
