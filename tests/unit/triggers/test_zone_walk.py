"""Every transition of every IANA zone from 1970 to 2037, found without the code under test.

The offset of each zone is sampled every 68 hours, as no two changes are closer than three days;
where it differs from the sample before, the change is bisected. What a wall time near it must
become then follows from the two offsets alone.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, product
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest

from rota.triggers.zone import (
    Fold,
    Gap,
    instants_of,
    transition_around,
    transitions_between,
    wall_time,
)

CHUNK_COUNT = 12
# The database of 2026 has 599 zones with 30,337 transitions: a shorter walk would prove less.
LEAST_ZONES_IN_CHUNK = 45
LEAST_TRANSITIONS_IN_CHUNK = 1_900
START = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(2038, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=68)
SECOND = timedelta(seconds=1)
GAPS: tuple[Gap, ...] = ("skip", "shift")
FOLDS: tuple[Fold, ...] = ("first", "both")


class Change(NamedTuple):
    at: datetime
    before: timedelta
    after: timedelta


def naive(instant: datetime) -> datetime:
    return instant.replace(tzinfo=None)


def offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return naive(instant.astimezone(zone)) - naive(instant)


@cache
def sampled_instants() -> list[datetime]:
    return [START + count * STEP for count in range((END - START) // STEP + 1)]


def changes(zone: ZoneInfo) -> Iterator[Change]:
    samples = sampled_instants()
    shown = [each.astimezone(zone) for each in samples]
    for place, (earlier, later) in enumerate(pairwise(shown)):
        if later - earlier != STEP:
            yield bisect(samples[place], samples[place + 1], zone)


def bisect(low: datetime, high: datetime, zone: ZoneInfo) -> Change:
    before, after = offset(low, zone), offset(high, zone)
    seconds = [0, int((high - low).total_seconds())]
    while seconds[1] - seconds[0] > 1:
        middle = sum(seconds) // 2
        changed = offset(low + middle * SECOND, zone) != before
        seconds[changed] = middle
    return Change(low + seconds[1] * SECOND, before, after)


def check_instants(wall: datetime, change: Change, zone: ZoneInfo) -> None:
    """Near a change, an instant shows this wall time by the old offset before it, or the new."""
    by_old, by_new = (
        (wall - change.before).replace(tzinfo=UTC),
        (wall - change.after).replace(tzinfo=UTC),
    )
    real = ([by_old] if by_old < change.at else []) + ([by_new] if by_new >= change.at else [])
    for gap, fold in product(GAPS, FOLDS):
        expected = real[:1] if fold == "first" else real
        if not real and gap == "shift":
            expected = [by_old]
        found = instants_of(wall, zone, gap=gap, fold=fold)
        assert list(found) == expected, (zone.key, wall, gap, fold)
    around = transition_around(wall, zone)
    assert (around is not None) == (len(real) != 1), (zone.key, wall)
    assert around is None or around.at == change.at


def check_change(change: Change, zone: ZoneInfo) -> None:
    last_before = change.at - SECOND
    assert wall_time(last_before, zone) == naive(last_before) + change.before
    shown = wall_time(change.at, zone)
    assert shown == naive(change.at) + change.after
    assert shown.fold == (change.after < change.before)
    ends = sorted((naive(change.at) + change.before, naive(change.at) + change.after))
    middle = ends[0] + (ends[1] - ends[0]) / 2
    for wall in (ends[0] - SECOND, ends[0], middle, ends[1] - SECOND, ends[1]):
        check_instants(wall, change, zone)


@pytest.mark.parametrize("chunk", range(CHUNK_COUNT))
def test_every_transition_of_every_zone_is_exact(chunk: int) -> None:
    names = sorted(available_timezones())[chunk::CHUNK_COUNT]
    walked = 0
    for name in names:
        zone = ZoneInfo(name)
        expected = list(changes(zone))
        found = list(transitions_between(START, END, zone))
        assert [(each.at, each.before, each.after) for each in found] == expected, name
        for change in expected:
            check_change(change, zone)
        walked += len(expected)
    print(f"{len(names)} zones, {walked} transitions")  # noqa: T201 - shown with -rP
    assert len(names) >= LEAST_ZONES_IN_CHUNK
    assert walked >= LEAST_TRANSITIONS_IN_CHUNK
