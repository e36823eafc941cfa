"""Which expressions, zones and days make interesting stories."""

from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

from rota.triggers.zone import Transition, transitions_between

ZONES: dict[str, int] = {
    "UTC": 2024,
    "Europe/Kyiv": 2024,
    "America/New_York": 2024,
    "Australia/Lord_Howe": 2024,  # half an hour
    "Europe/Dublin": 2024,  # negative daylight saving
    "America/Sao_Paulo": 2018,  # at midnight
    "Africa/Casablanca": 2024,  # around Ramadan
    "Asia/Kolkata": 2024,  # never, and half an hour off
    "Pacific/Apia": 2011,  # a whole day
    "America/St_Johns": 2010,  # one minute past midnight
}
"""Zones, each with a year in which its clocks do something worth simulating."""

_HOUR = timedelta(hours=1)


@cache
def transitions_of(zone: str) -> tuple[Transition, ...]:
    """The changes of a zone's clocks in its year."""
    year = ZONES[zone]
    start, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    return tuple(transitions_between(start, end, ZoneInfo(zone)))


def draw_start(random: Random, zone: str, span: timedelta) -> datetime:
    """When a story of this length begins: mostly so that a change of the clocks lies inside."""
    transitions = transitions_of(zone)
    if transitions and random.random() < 0.7:
        start = random.choice(transitions).at - random.random() * span
    else:
        start = datetime(ZONES[zone], 1, 1, tzinfo=UTC) + random.random() * timedelta(days=365)
    return _on_some_grid(random, start)


def _on_some_grid(random: Random, instant: datetime) -> datetime:
    """Whole minutes and whole seconds happen to be where the edges are."""
    match random.randrange(4):
        case 0:
            return instant.replace(second=0, microsecond=0)
        case 1:
            return instant.replace(microsecond=0)
        case 2:
            return instant.replace(second=59, microsecond=999_999)
    return instant


def draw_expression(random: Random, zone: str, start: datetime, span: timedelta) -> str:
    """An expression that is due a few times, but not too often, within the span."""
    if span <= _HOUR:
        return _draw_minutes(random)
    if span <= 8 * _HOUR:
        return _draw_within_hours(random, zone, start, span)
    return _draw_within_days(random, zone, start, span)


def _draw_minutes(random: Random) -> str:
    match random.randrange(4):
        case 0:
            return "* * * * *"
        case 1:
            return f"{_some(random, range(60), 12)} * * * *"
        case 2:
            first = random.randrange(56)
            return f"{first}-{random.randrange(first, 60)} * * * *"
    return f"{random.randrange(60)} * * * *"


def _draw_within_hours(random: Random, zone: str, start: datetime, span: timedelta) -> str:
    match random.randrange(4):
        case 0:
            return f"{_some(random, range(60), 3)} * * * *"
        case 1:
            return f"{random.choice((0, 15, 30, 59))} {_hour_in(random, zone, start, span)} * * *"
        case 2:
            hour = _hour_in(random, zone, start, span)
            return f"{_some(random, range(60), 4)} {hour}-{min(23, hour + 2)} * * *"
    return f"{random.choice((0, 30))} * * * *"


def _draw_within_days(random: Random, zone: str, start: datetime, span: timedelta) -> str:
    hour = _hour_in(random, zone, start, span)
    match random.randrange(4):
        case 0:
            return f"{random.randrange(60)} {hour} * * *"
        case 1:
            return f"0 {_some(random, range(24), 3)} * * *"
        case 2:
            return f"30 {hour} {_some(random, range(1, 32), 9)} * {_some(random, range(7), 2)}"
    return f"{random.choice((0, 30))} {hour} * * {_some(random, range(7), 4)}"


def _hour_in(random: Random, zone: str, start: datetime, span: timedelta) -> int:
    """An hour the wall clock shows in the span, mostly one next to a change of the clocks."""
    inside = [each.at for each in transitions_of(zone) if start <= each.at <= start + span]
    if inside and random.random() < 0.7:
        instant = random.choice(inside) + random.choice((-_HOUR, -_HOUR / 2, 0 * _HOUR))
    else:
        instant = start + random.random() * span
    return instant.astimezone(ZoneInfo(zone)).hour


def _some(random: Random, values: range, most: int) -> str:
    chosen = random.sample(values, random.randint(1, most))
    return ",".join(str(value) for value in sorted(chosen))
