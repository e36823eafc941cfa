"""Describes how DST affects the occurrences of a schedule.

A schedule asks for wall times. At a DST change a wall time may be skipped, repeated or moved. This
module finds these changes for a list of occurrences; it decides nothing.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

import msgspec

from rota.triggers.cron import Cron, FieldCron
from rota.triggers.rrule import Exclusions, RecurrenceRule
from rota.triggers.zone import (
    LONGEST_SHIFT,
    Fold,
    Gap,
    Transition,
    instants_of,
    transitions_between,
    wall_time,
)

AskedFor = Callable[[datetime, datetime], Iterable[datetime]]
"""The wall times a schedule asks for in a half-open range, before DST changes apply.

The cheapest implementation asks the schedule itself, in a zone without transitions.
"""

NoteKind = Literal["moved", "merged", "first", "first_only", "second"]

_TICK = timedelta.resolution


class Note(msgspec.Struct, frozen=True):
    """How a DST change affected one occurrence; ``wall`` is the time it was scheduled for.

    ``moved``: that time does not exist, so it runs later. ``merged``: the same, and the later time
    was scheduled too, so one run covers both. ``first``, ``second``: which showing of a repeated
    time. ``first_only``: the rule skips the second showing.
    """

    kind: NoteKind
    wall: datetime
    transition: Transition

    @property
    def text(self) -> str:
        shown = _clock_time(self.wall)
        if self.wall.date() != (self.wall + self.transition.length).date():
            shown = _date_and_time(self.wall)
        return {
            "moved": f"clocks go forward: moved from {shown}",
            "merged": f"clocks go forward: also for {shown}",
            "first": f"clocks go back: first {_clock_time(self.wall)}",
            "first_only": f"clocks go back: first {_clock_time(self.wall)} only",
            "second": f"clocks go back: second {_clock_time(self.wall)}",
        }[self.kind]


class Skipped(msgspec.Struct, frozen=True):
    """Scheduled wall times, at least one and ascending, that never happen."""

    walls: tuple[datetime, ...]
    transition: Transition

    @property
    def subject(self) -> str:
        """Which times: "2027-03-28 01:30", or "2027-03-28 01:00 to 01:59 (60 times)"."""
        first, last = self.walls[0], self.walls[-1]
        if first == last:
            return _date_and_time(first)
        end = _clock_time(last) if first.date() == last.date() else _date_and_time(last)
        return f"{_date_and_time(first)} to {end} ({len(self.walls)} times)"

    @property
    def text(self) -> str:
        verb = "does" if len(self.walls) == 1 else "do"
        return f"{self.subject} {verb} not exist: {describe_change(self.transition)}"


class DstNotes(msgspec.Struct, frozen=True):
    """The notes by occurrence, and what was skipped between them, ascending."""

    notes: Mapping[datetime, Note]
    skipped: tuple[Skipped, ...]


def annotate(
    occurrences: Sequence[datetime],
    zone: tzinfo,
    asked_for: AskedFor | None,
    *,
    after: datetime,
    gap: Gap,
    fold: Fold,
) -> DstNotes:
    """Find how DST affected ``occurrences``: ascending, in UTC, and all after ``after``.

    A schedule in elapsed time has ``asked_for=None``: its occurrences are never moved or skipped.
    """
    if not occurrences:
        return DstNotes({}, ())
    notes: dict[datetime, Note] = {}
    skipped: list[Skipped] = []
    for transition in _transitions_near(after, occurrences[-1], zone):
        if transition.is_fold:
            passed_over = fold == "first" and asked_for is not None
            notes.update(_showings(occurrences, transition, passed_over=passed_over))
        elif asked_for is None:
            continue
        elif gap == "shift":
            notes.update(_moves(occurrences, transition, asked_for, zone))
        elif after < transition.at <= occurrences[-1]:
            walls = tuple(asked_for(transition.wall_from, transition.wall_to))
            skipped += [Skipped(walls, transition)] if walls else []
    return DstNotes(notes, tuple(skipped))


def describe_change(transition: Transition) -> str:
    """The change in wall time: "clocks go forward 01:00 → 02:00"."""
    before, after = transition.wall_from, transition.wall_to
    if transition.is_fold:
        before, after = after, before
    shown = _clock_time if before.date() == after.date() else _date_and_time
    direction = "back" if transition.is_fold else "forward"
    return f"clocks go {direction} {shown(before)} → {shown(after)}"


def _transitions_near(after: datetime, last: datetime, zone: tzinfo) -> Iterator[Transition]:
    """The transitions that can touch an occurrence.

    A fold begins before its transition, and a gap moves times to after it, so the range is wider
    than the occurrences at both ends.
    """
    start, end = _shifted(after, -LONGEST_SHIFT), _shifted(last, LONGEST_SHIFT)
    return transitions_between(start, end, zone)


def _shifted(instant: datetime, by: timedelta) -> datetime:
    """``instant`` moved, unless that leaves the calendar."""
    try:
        return instant + by
    except OverflowError:
        return instant


def _showings(
    occurrences: Sequence[datetime], transition: Transition, *, passed_over: bool
) -> Iterator[tuple[datetime, Note]]:
    at, length = transition.at, transition.length
    for instant in _within(occurrences, at - length, at + length):
        if instant < at:
            wall = (instant + transition.before).replace(tzinfo=None)
            yield instant, Note("first_only" if passed_over else "first", wall, transition)
        else:
            wall = (instant + transition.after).replace(tzinfo=None)
            yield instant, Note("second", wall, transition)


def _moves(
    occurrences: Sequence[datetime], transition: Transition, asked_for: AskedFor, zone: tzinfo
) -> Iterator[tuple[datetime, Note]]:
    landed = set(_within(occurrences, transition.at, transition.at + transition.length))
    for wall in asked_for(transition.wall_from, transition.wall_to) if landed else ():
        for instant in instants_of(wall, zone, gap="shift", fold="first"):
            if instant in landed:
                landing = wall + transition.length
                also_asked = any(asked_for(landing, landing + _TICK))
                yield instant, Note("merged" if also_asked else "moved", wall, transition)


def _within(instants: Sequence[datetime], start: datetime, end: datetime) -> Sequence[datetime]:
    """The instants in ``[start, end)`` of an ascending sequence."""
    return instants[bisect_left(instants, start) : bisect_left(instants, end)]


def _clock_time(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


def _date_and_time(wall: datetime) -> str:
    return f"{wall.date()} {_clock_time(wall)}"


def asked_by_cron(cron: Cron) -> AskedFor | None:
    """The wall times of an expression; None for one that counts elapsed time."""
    if not isinstance(cron, FieldCron):
        return None
    unzoned = replace(cron, zone=None)

    def asked_for(start: datetime, end: datetime) -> Iterator[datetime]:
        for instant in unzoned.between(_before(start), _before(end), UTC):
            yield instant.replace(tzinfo=None)

    return asked_for


def asked_by_rule(rule: RecurrenceRule) -> AskedFor | None:
    """The wall times of a rule without its RDATEs; None for one that steps in elapsed time."""
    if rule.parts.frequency.is_sub_daily:
        return None
    twin = _without_zone(rule)

    def asked_for(start: datetime, end: datetime) -> Iterator[datetime]:
        for instant in twin.between(_before(start), _before(end)):
            yield instant.replace(tzinfo=None)

    return asked_for


def _without_zone(rule: RecurrenceRule) -> RecurrenceRule:
    """The same rule on the same wall clock, in a zone that never changes."""
    parts = rule.parts
    if isinstance(parts.until, datetime) and parts.until.tzinfo is not None:
        until = wall_time(parts.until, rule.zone).replace(fold=0)
        parts = replace(parts, until=until)
    frame = replace(rule.frame, zone=UTC, start_at=rule.frame.start_wall)
    days_only = Exclusions(days=rule.excluded.days)
    return replace(rule, parts=parts, frame=frame, added=(), excluded=days_only)


def _before(wall: datetime) -> datetime:
    """The last instant before ``wall``, because ``between`` includes its end."""
    return wall.replace(tzinfo=UTC) - _TICK
