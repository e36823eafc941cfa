"""Wall time and instants, by example; every IANA transition is walked in test_zone_walk."""

# ruff: noqa: DTZ001, DTZ901 - a wall time is a naive datetime

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError, InvalidZoneError
from rota.triggers.zone import (
    Fold,
    Gap,
    Transition,
    instants_of,
    load_zone,
    transition_around,
    transitions_between,
    wall_time,
)

LONDON = ZoneInfo("Europe/London")
HOUR = timedelta(hours=1)
NO_OFFSET = timedelta(0)

SPRING = Transition(datetime(2026, 3, 29, 1, tzinfo=UTC), NO_OFFSET, HOUR)
AUTUMN = Transition(datetime(2026, 10, 25, 1, tzinfo=UTC), HOUR, NO_OFFSET)


class BackAtNoon(tzinfo):
    """A zone of its own, one hour ahead until noon of 1 June 2026 UTC, that keeps to PEP 495."""

    change = datetime(2026, 6, 1, 12)

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        wall = moment.replace(tzinfo=None)
        if wall < self.change or (wall < self.change + HOUR and not moment.fold):
            return HOUR
        return NO_OFFSET

    def dst(self, moment: datetime | None) -> timedelta:  # noqa: ARG002 - given by tzinfo
        return NO_OFFSET

    def tzname(self, moment: datetime | None) -> str:  # noqa: ARG002 - given by tzinfo
        return "noon"

    def fromutc(self, moment: datetime) -> datetime:
        if moment.replace(tzinfo=None) < self.change:
            return moment + HOUR
        second = moment.replace(tzinfo=None) < self.change + HOUR
        return moment.replace(fold=1) if second else moment


def test_a_wall_time_has_no_zone_and_knows_its_second_showing() -> None:
    assert wall_time(datetime(2026, 7, 1, 12, tzinfo=UTC), LONDON) == datetime(2026, 7, 1, 13)
    first = wall_time(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), LONDON)
    second = wall_time(datetime(2026, 10, 25, 1, 30, tzinfo=UTC), LONDON)
    assert first == second == datetime(2026, 10, 25, 1, 30)
    assert (first.fold, second.fold) == (0, 1)


def test_any_aware_datetime_is_an_instant() -> None:
    tokyo = datetime(2026, 7, 1, 21, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert to_utc(tokyo) == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert to_utc(tokyo).tzinfo is UTC
    assert wall_time(tokyo, LONDON) == datetime(2026, 7, 1, 13)


def test_a_naive_instant_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(InvalidInputError, match="start must be an aware datetime") as refusal:
        to_utc(datetime(2026, 1, 1), "start")
    assert refusal.value.details == {"field": "start", "value": "2026-01-01T00:00:00"}


def test_an_aware_wall_time_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="wall must be a naive datetime"):
        instants_of(datetime(2026, 1, 1, tzinfo=UTC), LONDON, gap="skip", fold="first")


@pytest.mark.parametrize(
    ("wall", "gap", "fold", "hours"),
    [
        (datetime(2026, 7, 1, 1, 30), "skip", "first", ["00:30"]),
        (datetime(2026, 3, 29, 1, 30), "skip", "both", []),
        (datetime(2026, 3, 29, 1, 30), "shift", "first", ["01:30"]),
        (datetime(2026, 10, 25, 1, 30), "skip", "first", ["00:30"]),
        (datetime(2026, 10, 25, 1, 30), "shift", "both", ["00:30", "01:30"]),
        (datetime(2026, 10, 25, 1, 30, fold=1), "skip", "first", ["00:30"]),
    ],
)
def test_a_wall_time_becomes_instants_by_rule(
    wall: datetime, gap: Gap, fold: Fold, hours: list[str]
) -> None:
    found = instants_of(wall, LONDON, gap=gap, fold=fold)
    assert [f"{instant:%H:%M}" for instant in found] == hours
    assert all(instant.tzinfo is UTC for instant in found)


def test_a_day_that_a_zone_skipped_has_no_instant_and_is_shifted_by_a_day() -> None:
    apia = ZoneInfo("Pacific/Apia")
    skipped = datetime(2011, 12, 30, 9)
    assert instants_of(skipped, apia, gap="skip", fold="both") == ()
    (shifted,) = instants_of(skipped, apia, gap="shift", fold="both")
    assert wall_time(shifted, apia) == datetime(2011, 12, 31, 9)


def test_an_instant_beyond_the_calendar_is_none() -> None:
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    assert instants_of(datetime.min, east, gap="skip", fold="both") == ()
    assert instants_of(datetime.max, west, gap="skip", fold="both") == ()
    assert len(instants_of(datetime.max, east, gap="skip", fold="both")) == 1


def test_a_transition_gives_the_wall_times_it_skips_or_repeats() -> None:
    assert SPRING.is_gap
    assert not SPRING.is_fold
    assert (SPRING.wall_from, SPRING.wall_to) == (
        datetime(2026, 3, 29, 1),
        datetime(2026, 3, 29, 2),
    )
    assert AUTUMN.is_fold
    assert not AUTUMN.is_gap
    assert (AUTUMN.wall_from, AUTUMN.wall_to) == (
        datetime(2026, 10, 25, 1),
        datetime(2026, 10, 25, 2),
    )
    assert SPRING.length == AUTUMN.length == HOUR


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC), [SPRING, AUTUMN]),
        (SPRING.at, AUTUMN.at, [SPRING]),
        (SPRING.at, AUTUMN.at + timedelta(microseconds=1), [SPRING, AUTUMN]),
        (SPRING.at + timedelta(microseconds=1), AUTUMN.at, []),
        (AUTUMN.at, SPRING.at, []),
    ],
)
def test_transitions_are_found_from_the_start_up_to_but_without_the_end(
    start: datetime, end: datetime, found: list[Transition]
) -> None:
    assert list(transitions_between(start, end, LONDON)) == found


def test_transitions_are_found_up_to_the_ends_of_the_calendar() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    year_one = list(transitions_between(first, datetime(2, 1, 1, tzinfo=UTC), LONDON))
    year_9999 = list(transitions_between(datetime(9999, 1, 1, tzinfo=UTC), last, LONDON))
    assert year_one == []
    assert [transition.at.month for transition in year_9999] == [3, 10]


def test_the_transition_around_a_wall_time_is_found_with_any_microseconds() -> None:
    assert transition_around(datetime(2026, 3, 29, 1, 59, 59, 999_999), LONDON) == SPRING
    assert transition_around(datetime(2026, 3, 29, 1), LONDON) == SPRING
    assert transition_around(datetime(2026, 10, 25, 1, 0, 0, 1), LONDON) == AUTUMN
    assert transition_around(datetime(2026, 3, 29, 2), LONDON) is None
    assert transition_around(datetime(2026, 10, 25, 0, 59, 59, 999_999), LONDON) is None


def test_a_zone_of_ones_own_will_do() -> None:
    zone = BackAtNoon()
    (transition,) = transitions_between(
        datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC), zone
    )
    assert transition == Transition(datetime(2026, 6, 1, 12, tzinfo=UTC), HOUR, NO_OFFSET)
    twice = instants_of(datetime(2026, 6, 1, 12, 15), zone, gap="skip", fold="both")
    assert [f"{instant:%H:%M}" for instant in twice] == ["11:15", "12:15"]


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "America", "a\0b", None, 7]
)
def test_a_name_that_is_not_a_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidZoneError) as refusal:
        load_zone(name)
    assert refusal.value.details == {"zone": name}


def test_a_zone_is_loaded_by_its_name() -> None:
    assert load_zone("Europe/London") is LONDON


def test_offsets_that_are_equal_are_neither_a_gap_nor_a_fold() -> None:
    assert (SPRING.is_gap, SPRING.is_fold) == (True, False)
    assert (AUTUMN.is_gap, AUTUMN.is_fold) == (False, True)
    level = Transition(SPRING.at, HOUR, HOUR)
    assert (level.is_gap, level.is_fold) == (False, False)


class Brief(tzinfo):
    """An hour ahead of UTC for ``length`` from ``begins`` on, and otherwise the same as UTC."""

    def __init__(self, begins: datetime, length: timedelta) -> None:
        self.begins = begins
        self.length = length

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        wall = moment.replace(tzinfo=None)
        last_wall = self.begins + self.length + HOUR
        is_first_showing = not moment.fold or wall < last_wall - HOUR
        is_ahead = self.begins + HOUR * (not moment.fold) <= wall < last_wall and is_first_showing
        return HOUR if is_ahead else NO_OFFSET

    def dst(self, moment: datetime | None) -> timedelta:  # noqa: ARG002 - given by tzinfo
        return NO_OFFSET

    def tzname(self, moment: datetime | None) -> str:  # noqa: ARG002 - given by tzinfo
        return "brief"

    def fromutc(self, moment: datetime) -> datetime:
        at = moment.replace(tzinfo=None)
        if self.begins <= at < self.begins + self.length:
            return moment + HOUR
        is_second = self.begins + self.length <= at < self.begins + self.length + HOUR
        return moment.replace(fold=1) if is_second else moment


@pytest.mark.parametrize("hours_before", range(1, 100))
def test_an_offset_that_lasts_longer_than_48_hours_is_never_missed(hours_before: int) -> None:
    begins, length = datetime(2026, 6, 10, 12), timedelta(hours=48, minutes=30)
    first = begins.replace(tzinfo=UTC)
    found = transitions_between(
        first - hours_before * HOUR, first + timedelta(days=9), Brief(begins, length)
    )
    assert list(found) == [
        Transition(first, NO_OFFSET, HOUR),
        Transition(first + length, HOUR, NO_OFFSET),
    ]
