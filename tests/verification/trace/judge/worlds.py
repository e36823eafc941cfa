"""What may be true of one task, given what was observed.

A *world* is one complete account of a task's past: whether the store knows it, up to where its
occurrences are answered, what it still owes. Mostly there is exactly one. There are several where
the observer cannot know: when an ``initialize`` was cut off, it may have been remembered or not.
The judge is fair both ways: a start is in order when some world owed it, and late only when every
world did; what is observed then rules out the worlds that do not fit.

Everything here is pure. Readings follow section 5 of the theory: identity is the name, a start
cancels an earlier failure's retry, and a first coming within a due minute stays owed.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from tests.verification.trace.actions import TaskFacts
from tests.verification.trace.editions import Edition
from tests.verification.trace.judge.pulses import Pulses

ALWAYS = datetime.min.replace(tzinfo=UTC)


class World(msgspec.Struct, frozen=True):
    """One account of a task.

    Occurrences after ``mark`` are unanswered. ``retry_at`` belongs to the latest failure, unless a
    start came after it; until ``retry_owed_at`` it is not required. ``latched_at`` is what the
    clock showed, before it was set back, while something was owed. ``is_renewed`` says that the
    task was due since its last success.
    """

    is_known: bool
    expression: str = ""
    delay: timedelta = timedelta()
    mark: datetime = ALWAYS
    retry_at: datetime | None = None
    retry_owed_at: datetime | None = None
    latched_at: datetime | None = None
    is_orphan: bool = False
    has_succeeded: bool = False
    is_renewed: bool = False
    counts_run: bool = True
    """False while a run of an earlier incarnation of the name goes on."""


UNKNOWN = World(is_known=False)
Worlds = frozenset[World]


def owed_from(world: World, pulses: Pulses) -> datetime | None:
    """The instant from which a start is owed while the clock shows it or later."""
    if not world.is_known:
        return None
    if world.is_orphan:
        return ALWAYS
    due_at = pulses.first_after(world.expression, world.mark)
    candidates = [instant for instant in (due_at, world.retry_owed_at) if instant is not None]
    return min(candidates, default=None)


def may_start(world: World, now: datetime, pulses: Pulses) -> bool:
    """Whether a start now is in order."""
    if not world.is_known:
        return False
    if world.is_orphan or world.latched_at is not None:
        return True
    if world.retry_at is not None and world.retry_at <= now:
        return True
    return pulses.is_due_within(world.expression, world.mark, now)


def start(world: World, now: datetime, pulses: Pulses, claim_lag: timedelta) -> Iterator[World]:
    """The start was observed.

    It answers every occurrence up to now; where the clock was set back, or the claim came earlier
    than the callback, possibly up to another instant.
    """
    if not world.is_known:
        yield world
        return
    was_due = pulses.is_due_within(world.expression, world.mark, now)
    started = msgspec.structs.replace(
        world,
        mark=now,
        retry_at=None,
        retry_owed_at=None,
        latched_at=None,
        is_orphan=False,
        is_renewed=world.is_renewed or was_due or world.latched_at is not None,
        counts_run=True,
    )
    yield started
    highest = max(world.mark, world.latched_at or world.mark)
    if highest > now:
        yield msgspec.structs.replace(started, mark=highest)
    if claim_lag and pulses.is_due_within(world.expression, now - claim_lag, now):
        yield msgspec.structs.replace(started, mark=now - claim_lag)


def may_succeed(world: World) -> bool:
    """Whether this run may be a success: it is the first, or an occurrence lies between."""
    return not world.counts_run or world.is_renewed or not world.has_succeeded


def succeed(world: World) -> World:
    if not world.counts_run:
        return msgspec.structs.replace(world, counts_run=True)
    return msgspec.structs.replace(world, has_succeeded=world.is_known, is_renewed=False)


def fail(
    world: World, now: datetime, delays: Iterable[timedelta], shortest_pause: timedelta
) -> Iterator[World]:
    """The run failed; ``delays`` are those of lists that are being taken over meanwhile."""
    if not world.counts_run or not world.is_known:
        yield msgspec.structs.replace(world, counts_run=True)
        return
    for delay in {world.delay, *delays}:
        yield msgspec.structs.replace(
            world, retry_at=now + delay, retry_owed_at=now + (delay or shortest_pause)
        )


def interrupt(world: World) -> Iterator[World]:
    """A crash cut the run off: the start is owed again."""
    if not world.is_known or not world.counts_run:
        yield msgspec.structs.replace(world, counts_run=True)
    if world.is_known:
        yield msgspec.structs.replace(world, is_orphan=True, counts_run=True)


def leave_running(world: World) -> Iterator[World]:
    """Nothing was cut off, but the store may hold the task as running."""
    yield world
    if world.is_known:
        yield msgspec.structs.replace(
            world, is_orphan=True, retry_at=None, retry_owed_at=None, is_renewed=True
        )


def set_back(world: World, shown_before: datetime, pulses: Pulses) -> World:
    """The clock is set back: what was owed may still be started, but is no longer demanded."""
    if not may_start(world, shown_before, pulses):
        return world
    return msgspec.structs.replace(world, latched_at=max(shown_before, world.latched_at or ALWAYS))


class TakeOver(msgspec.Struct, frozen=True):
    """How a new list meets what was known of one task.

    ``marks`` are the moments before the minutes in which a first coming may have taken place: that
    of the call and that of the return. ``is_claimed``: a failing store may hold a claim of it, or
    lack a result.
    """

    facts: TaskFacts | None
    marks: frozenset[datetime]
    is_running: bool
    is_claimed: bool
    edition: Edition

    def apply(self, worlds: Iterable[World]) -> Worlds:
        return frozenset(after for world in worlds for after in self._meet(world))

    def _meet(self, world: World) -> Iterator[World]:
        if self.facts is None:
            yield msgspec.structs.replace(UNKNOWN, counts_run=not self.is_running)
        elif not world.is_known:
            yield from self._begin(self.facts)
        elif (world.expression, world.delay) == (self.facts.expression, self.facts.retry_delay):
            yield world
        elif self.edition.resets_changed_tasks:
            yield from self._reset(world, self.facts)
        else:
            yield from self._change(world, self.facts)

    def _begin(self, facts: TaskFacts) -> Iterator[World]:
        for mark in self.marks:
            new = World(
                is_known=True, expression=facts.expression, delay=facts.retry_delay, mark=mark
            )
            yield new
            if self.is_running:
                yield msgspec.structs.replace(new, counts_run=False)

    def _change(self, world: World, facts: TaskFacts) -> Iterator[World]:
        """The history is kept; a run under way may still fail under the old delay."""
        yield msgspec.structs.replace(world, expression=facts.expression, delay=facts.retry_delay)
        if self.is_running:
            yield msgspec.structs.replace(world, expression=facts.expression)

    def _reset(self, world: World, facts: TaskFacts) -> Iterator[World]:
        """The history is forgotten; of an interrupted or a running task perhaps not all of it."""
        for new in self._begin(facts):
            yield new
            if world.is_orphan or self.is_claimed:
                yield msgspec.structs.replace(new, is_orphan=True)
        if self.is_running or self.is_claimed:
            yield from self._change(world, facts)
