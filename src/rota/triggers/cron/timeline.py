"""The instants at which a zone's clock shows the wall times of an expression.

Near a change of the clocks wall times and instants come apart; it helps to see two strands. The
*main strand* holds every wall time that exists, in its first showing: along it, wall times and
instants ascend together. Each transition may add a *side strand*, where the wall times from
``wall_from`` to ``wall_to`` follow one another from the instant ``at`` on: the second showing of a
fold, or the times that a gap skips, when they are to be shifted rather than dropped. The answer is
the nearest that any strand offers, and only the side strands near the question can matter.
"""

from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from rota.triggers.cron.calendar_search import first_after, last_at
from rota.triggers.cron.fields import CronFields
from rota.triggers.zone import (
    LONGEST_SHIFT,
    Fold,
    Gap,
    Transition,
    first_transition,
    showings,
    transition_around,
    transitions_between,
)

_TICK = timedelta.resolution


class Rules(NamedTuple):
    """The zone of a question, and what a gap and a fold in it shall mean."""

    zone: tzinfo
    gap: Gap
    fold: Fold


def next_instant(
    fields: CronFields, after: datetime, zone: tzinfo, gap: Gap, fold: Fold
) -> datetime | None:
    """The first occurrence strictly after the UTC instant ``after``.

    Strands are only compared where they may differ. If no transition lies on the way, wall time
    and real time pass alike, and reading the clock at the answer proves it. On a longer way it is
    enough that neither its start nor its end is shown twice, or never: whatever lies between
    belongs to wall times that are not wanted.
    """
    shown = after.astimezone(zone)
    wanted = first_after(fields, shown)
    if gap == "shift" or wanted is None:
        return _first_of_strands(fields, after, _naive(shown), Rules(zone, gap, fold))
    wait = wanted - shown
    if wait < LONGEST_SHIFT:
        found = after + wait
        reached = found.astimezone(zone)
        if reached == wanted and (fold == "both" or not reached.fold):
            return found
    elif not _is_shown_twice(shown, zone):
        found, other = showings(wanted, zone)
        if found == other:
            return found
    return _first_of_strands(fields, after, _naive(shown), Rules(zone, gap, fold))


def previous_instant(
    fields: CronFields, at: datetime, zone: tzinfo, gap: Gap, fold: Fold
) -> datetime | None:
    """The last occurrence at or before the UTC instant ``at``; as ``next_instant``."""
    shown = at.astimezone(zone)
    wanted = last_at(fields, shown)
    if gap == "shift" or wanted is None:
        return _last_of_strands(fields, at, _naive(shown), Rules(zone, gap, fold))
    past = shown - wanted
    if past < LONGEST_SHIFT:
        found = at - past
        reached = found.astimezone(zone)
        if reached == wanted and (fold == "both" or not reached.fold):
            return found
    elif not _is_shown_twice(shown, zone):
        found, other = showings(wanted, zone)
        if found == other:
            return found
    return _last_of_strands(fields, at, _naive(shown), Rules(zone, gap, fold))


def _naive(shown: datetime) -> datetime:
    return shown.replace(tzinfo=None)


def _is_shown_twice(shown: datetime, zone: tzinfo) -> bool:
    first, second = showings(shown, zone)
    return first != second


def _first_of_strands(
    fields: CronFields, after: datetime, wall: datetime, rules: Rules
) -> datetime | None:
    found: list[datetime] = []
    fold = transition_around(wall, rules.zone)
    if fold is not None:
        if rules.fold == "both":
            found += _first_on_side_strand(fields, fold, after)
        if after >= fold.at:
            wall = fold.wall_to - _TICK
    if rules.gap == "shift":
        for gap in _gaps_just_before(after, rules.zone):
            found += _first_on_side_strand(fields, gap, after)
    found += _first_on_main_strand(fields, wall, rules)
    return min(found, default=None)


def _last_of_strands(
    fields: CronFields, at: datetime, wall: datetime, rules: Rules
) -> datetime | None:
    found: list[datetime] = []
    fold = transition_around(wall, rules.zone)
    if fold is not None and at >= fold.at:
        if rules.fold == "both":
            found += _last_on_side_strand(fields, fold, at)
        wall = fold.wall_to - _TICK
    found += _last_on_main_strand(fields, wall, at, rules)
    if rules.gap == "shift":
        for end in (at, *found):
            for gap in _gaps_just_before(end, rules.zone):
                found += _last_on_side_strand(fields, gap, at)
    return max(found, default=None)


def _first_on_main_strand(fields: CronFields, wall: datetime, rules: Rules) -> list[datetime]:
    """The first occurrence shown after ``wall``, and the first that a gap before it shifts."""
    found: list[datetime] = []
    while (candidate := first_after(fields, wall)) is not None:
        first, second = showings(candidate, rules.zone)
        if first <= second:
            return [*found, first]
        if rules.gap == "shift":
            found = found or [first]
        wall = first_transition(second, first, rules.zone).wall_to - _TICK
    return found


def _last_on_main_strand(
    fields: CronFields, wall: datetime, at: datetime, rules: Rules
) -> list[datetime]:
    """The last occurrence shown up to ``wall``, by the showing or shift that ends before ``at``."""
    while (candidate := last_at(fields, wall)) is not None:
        first, second = showings(candidate, rules.zone)
        if first <= second:
            return [second if rules.fold == "both" and second <= at else first]
        if rules.gap == "shift" and first <= at:
            return [first]
        wall = first_transition(second, first, rules.zone).wall_from - _TICK
    return []


def _first_on_side_strand(fields: CronFields, side: Transition, after: datetime) -> list[datetime]:
    passed = max(after - side.at, -_TICK)
    candidate = first_after(fields, side.wall_from + passed)
    if candidate is None or candidate >= side.wall_to:
        return []
    return [side.at + (candidate - side.wall_from)]


def _last_on_side_strand(fields: CronFields, side: Transition, at: datetime) -> list[datetime]:
    latest = min(side.wall_from + (at - side.at), side.wall_to - _TICK)
    candidate = last_at(fields, latest)
    if candidate is None or candidate < side.wall_from:
        return []
    return [side.at + (candidate - side.wall_from)]


def _gaps_just_before(instant: datetime, zone: tzinfo) -> list[Transition]:
    """The gaps whose shifted times still follow one another at ``instant``."""
    near = transitions_between(instant - LONGEST_SHIFT, instant + _TICK, zone)
    return [side for side in near if side.is_gap and instant < side.at + side.length]
