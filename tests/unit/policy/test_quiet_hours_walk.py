"""Quiet hours against a brute force that asks a clock on the wall, minute by minute."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.policy.quiet_hours import QuietHours, QuietWindow
from rota.triggers.zone import Transition, transitions_between

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ZONES = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Chatham",
]
SINCE, UNTIL = datetime(2011, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)


def is_quiet(hours: QuietHours, instant: datetime) -> bool:
    """Written apart from the code under test, from the same sentence."""
    shown = instant.astimezone(hours.zone).replace(tzinfo=None)
    today = shown.date()
    if today in hours.holidays or today.weekday() in hours.rest_days:
        return True
    windows = (QuietWindow(hours.start, hours.end, hours.weekdays), *hours.more)
    return any(
        from_ <= shown < until
        for window in windows
        for from_, until in (stretch(window, today - DAY), stretch(window, today))
    )


def stretch(window: QuietWindow, begun: date) -> tuple[datetime, datetime]:
    """The wall times of a window that begins on that day; none where it does not."""
    from_ = datetime.combine(begun, window.start)
    if begun.weekday() not in window.weekdays:
        return from_, from_
    until = datetime.combine(begun, window.end)
    return from_, until if until >= from_ else until + DAY


def reopening(hours: QuietHours, now: datetime) -> datetime | None:
    if not is_quiet(hours, now):
        return None
    while is_quiet(hours, now):
        now += MINUTE
    return now


def hours_around(transition: Transition, zone: ZoneInfo, chance: random.Random) -> QuietHours:
    """Windows whose ends lie near the wall times that are skipped or shown twice."""

    def near() -> time:
        spot = chance.choice([transition.wall_from, transition.wall_to])
        return (spot + MINUTE * chance.randint(-150, 150)).time()

    def some_days(most: int) -> set[int]:
        return set(chance.sample(range(7), chance.randint(0, most)))

    day = transition.wall_from.date()
    holidays = {day + DAY * chance.randint(-1, 1)} if chance.random() < 0.2 else set[date]()
    more = tuple(QuietWindow(near(), near(), some_days(6)) for _ in range(chance.randint(0, 2)))
    rest_days = some_days(2) if chance.random() < 0.2 else set[int]()
    start, end = near(), near()
    try:
        return QuietHours(
            start, end, zone, some_days(7), more=more, rest_days=rest_days, holidays=holidays
        )
    except InvalidInputError:  # there is no open moment left: try others
        return hours_around(transition, zone, chance)


def cases(name: str, count: int) -> Iterator[tuple[QuietHours, datetime]]:
    zone, chance = ZoneInfo(name), random.Random(name)
    transitions = list(transitions_between(SINCE, UNTIL, zone)) or [
        Transition(UNTIL, timedelta(0), timedelta(0))
    ]
    for _ in range(count):
        transition = chance.choice(transitions)
        yield (
            hours_around(transition, zone, chance),
            transition.at.replace(second=0) + MINUTE * chance.randint(-300, 200),
        )


@pytest.mark.parametrize("name", ZONES)
def test_quiet_hours_reopen_at_the_first_minute_outside(name: str) -> None:
    quiet_count = 0
    for hours, now in cases(name, 50):
        expected = reopening(hours, now)
        quiet_count += expected is not None
        assert hours.reopens_at(now) == expected, (hours, now)
    assert 5 < quiet_count < 45


@pytest.mark.parametrize("name", ["Europe/London", "Australia/Lord_Howe", "America/St_Johns"])
def test_every_minute_of_a_transition_is_judged_by_the_wall_clock(name: str) -> None:
    for hours, now in cases(name, 8):
        for step in range(0, 900, 7):
            instant = now + MINUTE * step
            assert (hours.reopens_at(instant) is not None) == is_quiet(hours, instant)
