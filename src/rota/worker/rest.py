"""How long an idle worker rests, and what wakes it."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Self

from rota.clock.protocol import END_OF_TIME, Clock, ConditionalClock, keeps_real_time, later
from rota.clock.system import Timeout, timeout_after
from rota.errors import RotaError
from rota.fleet.outage import StoreRetry
from rota.policy.watch import LeasedUnderLimits
from rota.stores.protocol import Reach, Watchable
from rota.worker.settings import Resources

SHORTEST_REST = timedelta(milliseconds=1)
"""A job that is due but was not leased just now is not asked for in a busy loop."""

POLL_JITTER = 0.2
"""Polls come up to this share earlier, so that idle workers do not poll in step."""

SHORTEST_LOOK = timedelta(milliseconds=2)
LONGEST_LOOK = timedelta(milliseconds=100)
LOOKS_EASED_AFTER = 50
"""An idle worker looks again after this fraction of the time since its last job."""

MOST_FRUITLESS = 3
"""Jobs that stay due after this many leases in a row that found none are not for this worker."""

_NO_TIME = timedelta(0)
_UNLIMITED = LeasedUnderLimits(())


def choose_rest(poll_for: timedelta, due_for: timedelta | None, chance: float) -> timedelta:
    """How long to rest: until the next job is due, or until the next poll."""
    poll = poll_for * (1 - POLL_JITTER * chance)
    return poll if due_for is None else max(min(poll, due_for), min(SHORTEST_REST, poll))


def choose_due_for(
    due_at: datetime | None, last: LeasedUnderLimits, now: datetime
) -> timedelta | None:
    """How long until a job can be leased; None when that is unknown.

    Jobs that limits hold back stay due. They can be leased when there are tokens again, when a
    running job ends, or at the next poll.
    """
    if last.is_limited and due_at is not None and due_at <= now:
        due_at = last.again_at
    return None if due_at is None else due_at - now


def choose_look(idle_for: timedelta) -> timedelta:
    """How soon to look again for writes of other processes: later, the longer the worker is idle.

    While jobs come one after the other, the next is seen within milliseconds. A worker that has
    been idle for seconds looks a few times a second.
    """
    return min(max(idle_for / LOOKS_EASED_AFTER, SHORTEST_LOOK), LONGEST_LOOK)


class DueJobs:
    """Distinguishes jobs that the next lease will find from due jobs for other workers."""

    def __init__(self) -> None:
        self._fruitless_count = 0
        self._found_at: datetime | None = None
        self._is_noted = True

    def begin(self, found_at: datetime) -> None:
        """A lease found no more jobs; the last job was found at ``found_at``."""
        if found_at != self._found_at:
            self._fruitless_count = 0
        self._found_at, self._is_noted = found_at, False

    def judge(self, last: LeasedUnderLimits, *, is_due: bool) -> LeasedUnderLimits:
        """The last lease, as far as it matters for how long to rest.

        Jobs that become due are new. Jobs for others are not asked for before the next poll.
        """
        if not self._is_noted:
            self._is_noted = True
            self._fruitless_count = self._fruitless_count + 1 if is_due else 0
        if not is_due:
            return _UNLIMITED
        is_for_others = self._fruitless_count > MOST_FRUITLESS
        return last._replace(is_limited=True) if is_for_others else last


class StoreChanges:
    """The writes to a store, under a virtual clock.

    In real time a worker polls: a notification may be lost, and other processes write. Virtual time
    must not stop for polls, or a day of an idle worker costs a hundred thousand of them. But a
    virtual clock knows when nothing runs any more, and then the version of the store shows every
    write that was made. So a loop with nothing to do waits for the next write instead.
    """

    def __init__(self, store: Watchable, clock: ConditionalClock) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def of(cls, store: object, clock: Clock) -> Self | None:
        """None in real time, and for a store that does not show its version: then loops poll."""
        if isinstance(clock, ConditionalClock) and isinstance(store, Watchable):
            return cls(store, clock)
        return None

    def read_version(self) -> int | None:
        """The version to wait from; read it before anything else."""
        return self._store.read_version()

    async def wait(self, version: int | None) -> None:
        """Return when the store has been written to since it had this version."""
        unchanged = (None, version)  # a version that cannot be read shows no write
        await self._clock.wait_until(lambda: self._store.read_version() not in unchanged)


class Rest:
    """Waits for ``called``, for the next job to be due, and for writes of other processes.

    A store that cannot notify is looked at in short intervals for a new version. This happens in
    real time only: no other process lives in virtual time, which would have to stop at every look.
    Under a virtual clock a rest lasts until something is written or due, without polls.
    """

    def __init__(self, resources: Resources, retry: StoreRetry, called: asyncio.Event) -> None:
        self._resources = resources
        self._retry = retry
        self._called = called
        store = resources.store
        self._due = DueJobs()
        is_real = keeps_real_time(resources.clock)
        self._changes = None if is_real else StoreChanges.of(store, resources.clock)
        is_watched = store.reach is not Reach.PROCESS if is_real else self._changes is not None
        self._watchable = store if is_watched and isinstance(store, Watchable) else None

    async def rest(self, last: LeasedUnderLimits, idle_since: datetime) -> None:
        """Return when called, when the next job is due, or at the next poll.

        ``last`` is the result of the last lease; the last job was leased at ``idle_since``. A call
        does not wait until it is known when the next job is due.
        """
        self._due.begin(idle_since)
        if self._called.is_set():
            return
        clock, chance = self._resources.clock, self._resources.random.random()
        rest_for = choose_rest(self._resources.settings.poll_for, None, chance)
        with suppress(TimeoutError):
            # Two ends: a clock that is set back may delay a due job, but never the next poll.
            async with timeout_after(clock, rest_for) as poll, timeout_after(clock, None) as due:
                looking = asyncio.create_task(self._look(poll, due, last, idle_since))
                try:
                    await self._called.wait()
                finally:
                    looking.cancel()
        if looking.done() and not looking.cancelled():
            looking.result()

    async def _look(
        self, poll: Timeout, due: Timeout, last: LeasedUnderLimits, idle_since: datetime
    ) -> None:
        """End the rest when the next job is due; at once if that cannot be found out.

        Jobs that limits hold back are due already: they are polled for, also in virtual time.
        """
        clock, shortest = self._resources.clock, SHORTEST_REST
        try:
            while True:
                # Read first: what is written from now on is new.
                version = None if self._watchable is None else self._watchable.read_version()
                due_at, now = await self._find_due_at(), clock.now()
                is_due = due_at is not None and due_at <= now
                if self._changes and version is not None and not (is_due or poll.expired()):
                    poll.reschedule(None)
                last = self._due.judge(last, is_due=is_due)
                due_for = choose_due_for(due_at, last, now)
                if due_for is not None:
                    _end_by(due, poll, later(now, max(due_for, shortest)))
                await self.refresh_ahead()
                if self._watchable is None:
                    return
                if shortest == _NO_TIME and self._changes is None:
                    # A write brought no job, and there may be many of them.
                    await clock.sleep(choose_look(clock.now() - idle_since))
                await self._wait_for_write(self._watchable, version, idle_since)
                shortest = _NO_TIME
        except Exception:
            _end_by(due, poll, clock.now())
            raise

    async def _wait_for_write(
        self, store: Watchable, version: int | None, idle_since: datetime
    ) -> None:
        clock = self._resources.clock
        if self._changes is not None:
            await self._changes.wait(version)
            return
        while store.read_version() in (None, version):
            await clock.sleep(choose_look(clock.now() - idle_since))

    async def _find_due_at(self) -> datetime | None:
        store, clock, settings = (
            self._resources.store,
            self._resources.clock,
            self._resources.settings,
        )
        return await self._retry.call(
            lambda: store.next_due_at(clock.now(), settings.queues, settings.tenants)
        )

    async def refresh_ahead(self) -> None:
        """Read gates and limits while no job waits for that."""
        now = self._resources.clock.now()
        with suppress(RotaError):  # the next lease reads them in any case
            await self._resources.gate.refresh_ahead(now)
            await self._resources.limits.refresh_ahead(now)


def _end_by(due: Timeout, poll: Timeout, instant: datetime) -> None:
    """End the rest at the instant, unless it ends sooner."""
    ends = [end for end in (due.when(), poll.when()) if end is not None]
    if not due.expired() and instant < min(ends, default=END_OF_TIME):
        due.reschedule(instant)
