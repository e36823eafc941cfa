"""Searches the calendar for the next or previous match of a cron expression."""

from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta, tzinfo
from typing import NamedTuple

from rota.triggers.cron_fields import CronFields
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

# ruff: noqa: DTZ001 - the zone is passed by position, which takes half the time


_TimeOfDay = tuple[int, int, int]


def first_after(fields: CronFields, wall: datetime) -> datetime | None:
    """The first match strictly after ``wall``; None when the calendar ends before it."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1:
        days = fields.days_in(year, month, (wall.isoweekday() - day + 1) % 7)
        if days >> day & 1:
            time = _time_after(fields, wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time, 0, wall.tzinfo)
        later = days >> day + 1
        if later:
            time = _first_time(fields)
            return datetime(year, month, day + _lowest(later) + 1, *time, 0, wall.tzinfo)
    return _first_in_later_month(fields, year, month, wall.tzinfo)


def last_at(fields: CronFields, wall: datetime) -> datetime | None:
    """The last match at or before ``wall``; None when the calendar begins after it."""
    year, month, day = wall.year, wall.month, wall.day
    if fields.months >> month & 1:
        days = fields.days_in(year, month, (wall.isoweekday() - day + 1) % 7)
        if days >> day & 1:
            time = _time_at_or_before(fields, wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time, 0, wall.tzinfo)
        earlier = days & (1 << day) - 1
        if earlier:
            time = _last_time(fields)
            return datetime(year, month, _highest(earlier), *time, 0, wall.tzinfo)
    return _last_in_earlier_month(fields, year, month, wall.tzinfo)


def _first_in_later_month(
    fields: CronFields, year: int, month: int, zone: tzinfo | None
) -> datetime | None:
    while True:
        later = fields.months >> month + 1
        if later:
            month += _lowest(later) + 1
        else:
            year += 1
            month = _lowest(fields.months)
        if year > MAXYEAR:
            return None
        days = fields.days_in(year, month, date(year, month, 1).isoweekday() % 7)
        if days:
            return datetime(year, month, _lowest(days), *_first_time(fields), 0, zone)


def _last_in_earlier_month(
    fields: CronFields, year: int, month: int, zone: tzinfo | None
) -> datetime | None:
    while True:
        earlier = fields.months & (1 << month) - 1
        if earlier:
            month = _highest(earlier)
        else:
            year -= 1
            month = _highest(fields.months)
        if year < MINYEAR:
            return None
        days = fields.days_in(year, month, date(year, month, 1).isoweekday() % 7)
        if days:
            return datetime(year, month, _highest(days), *_last_time(fields), 0, zone)


def _time_after(fields: CronFields, hour: int, minute: int, second: int) -> _TimeOfDay | None:
    """The first time of day in the sets strictly after this one."""
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            later = fields.seconds >> second + 1
            if later:
                return hour, minute, second + _lowest(later) + 1
        later = fields.minutes >> minute + 1
        if later:
            return hour, minute + _lowest(later) + 1, _lowest(fields.seconds)
    later = fields.hours >> hour + 1
    if later:
        return hour + _lowest(later) + 1, _lowest(fields.minutes), _lowest(fields.seconds)
    return None


def _time_at_or_before(
    fields: CronFields, hour: int, minute: int, second: int
) -> _TimeOfDay | None:
    """The last time of day in the sets at or before this one."""
    if fields.hours >> hour & 1:
        if fields.minutes >> minute & 1:
            earlier = fields.seconds & (2 << second) - 1
            if earlier:
                return hour, minute, _highest(earlier)
        earlier = fields.minutes & (1 << minute) - 1
        if earlier:
            return hour, _highest(earlier), _highest(fields.seconds)
    earlier = fields.hours & (1 << hour) - 1
    if earlier:
        return _highest(earlier), _highest(fields.minutes), _highest(fields.seconds)
    return None


def _first_time(fields: CronFields) -> _TimeOfDay:
    return _lowest(fields.hours), _lowest(fields.minutes), _lowest(fields.seconds)


def _last_time(fields: CronFields) -> _TimeOfDay:
    return _highest(fields.hours), _highest(fields.minutes), _highest(fields.seconds)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1


_TICK = timedelta.resolution


class Rules(NamedTuple):
    """A zone, and the rules for its gaps and folds."""

    zone: tzinfo
    gap: Gap
    fold: Fold


def next_instant(
    fields: CronFields, after: datetime, zone: tzinfo, gap: Gap, fold: Fold
) -> datetime | None:
    """The first occurrence strictly after the UTC instant ``after``.

    A strand is a stretch of wall time between transitions. Strands are compared only where they may
    differ. If there is no transition on the way, wall time and real time pass at the same rate, and
    the wall time at the answer proves it. On a longer way it is enough that neither the start nor
    the end is repeated or skipped: no wall time between them is wanted.
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
    """The first occurrence after ``wall``, and the first that a gap before it shifts."""
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
    """The last occurrence up to ``wall``, by the showing or shift that is not after ``at``."""
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
    """The gaps whose shifted times may still lie at or after ``instant``."""
    near = transitions_between(instant - LONGEST_SHIFT, instant + _TICK, zone)
    return [side for side in near if side.is_gap and instant < side.at + side.length]
