"""What a worker does that has found less than it has room for: it waits, and knows for what."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from rota.clock.protocol import keeps_real_time, later
from rota.clock.timeout import Timeout, timeout_after
from rota.errors import RotaError
from rota.fleet.outage import StoreRetry
from rota.policy.gate_watch import GateWatch
from rota.policy.limit_watch import LeasedUnderLimits, LimitWatch
from rota.stores.protocol import Watchable
from rota.worker.surroundings import Surroundings

SHORTEST_REST = timedelta(milliseconds=1)
"""What is due already, and was not leased just now, is not asked for without end."""

POLL_JITTER = 0.2
"""Polls come up to so much earlier than asked for, so that idle workers do not come in step."""

SHORTEST_LOOK = timedelta(milliseconds=2)
LONGEST_LOOK = timedelta(milliseconds=100)
LOOKS_EASED_AFTER = 50
"""A worker without work for a while looks again after a part of that time: one in so many."""

_NO_TIME = timedelta(0)
_NOTHING_HELD_BACK = LeasedUnderLimits(())


def choose_rest(poll_for: timedelta, due_for: timedelta | None, chance: float) -> timedelta:
    """How long to wait when there is nothing: until the next job is due, or to look by oneself."""
    poll = poll_for * (1 - POLL_JITTER * chance)
    return poll if due_for is None else max(min(poll, due_for), min(SHORTEST_REST, poll))


def choose_due_for(
    due_at: datetime | None, held_back: LeasedUnderLimits, now: datetime
) -> timedelta | None:
    """How long it is until a job can be had; None when nobody knows.

    While limits hold jobs back they are due all the time: it is when there are tokens again, when a
    place becomes free, or at the next poll, that it makes sense to ask for them.
    """
    if held_back.is_limited and due_at is not None and due_at <= now:
        due_at = held_back.again_at
    return None if due_at is None else due_at - now


def choose_look(idle_for: timedelta) -> timedelta:
    """How soon to look again whether others have written: the longer ago the last job, the later.

    While jobs come one after the other, the next is seen within milliseconds; a worker that has
    nothing to do for seconds costs a few looks a second.
    """
    return min(max(idle_for / LOOKS_EASED_AFTER, SHORTEST_LOOK), LONGEST_LOOK)


class Resting:
    """Waits for ``called``, for the next job to be due, and for what other processes write.

    Where a store tells nobody of what others have written, it is looked at in short intervals
    whether there is anything new at all. That is for real time only: no other process lives in any
    other, and time that is made up would have to stop at every look.
    """

    def __init__(
        self, surroundings: Surroundings, retry: StoreRetry, called: asyncio.Event
    ) -> None:
        self._surroundings = surroundings
        self._retry = retry
        self._called = called
        settings, store = surroundings.settings, surroundings.store
        self._watches = [
            watch
            for watch in (settings.gate, settings.limits)
            if isinstance(watch, GateWatch | LimitWatch)
        ]
        is_real = keeps_real_time(surroundings.clock)
        self._watchable = store if is_real and isinstance(store, Watchable) else None

    async def rest(self, held_back: LeasedUnderLimits, taken_at: datetime) -> None:
        """Until somebody calls, the next job is due, or it is time to look without being called.

        When the next one is due is looked up meanwhile: whoever is called does not wait for that.
        ``taken_at`` is when there was a job for the last time.
        """
        if self._called.is_set():
            return
        clock, chance = self._surroundings.clock, self._surroundings.random.random()
        rest_for = choose_rest(self._surroundings.settings.poll_for, None, chance)
        with suppress(TimeoutError):
            # Two ends: a clock that is set back may put off what is due, but never the next poll.
            async with timeout_after(clock, rest_for), timeout_after(clock, None) as due:
                looking = asyncio.create_task(self._look(due, rest_for, held_back, taken_at))
                try:
                    await self._called.wait()
                finally:
                    looking.cancel()
        if looking.done() and not looking.cancelled():
            looking.result()

    async def _look(
        self, due: Timeout, rest_for: timedelta, held_back: LeasedUnderLimits, taken_at: datetime
    ) -> None:
        """Let the rest end when the next job is due; at once if that cannot be found out."""
        watchable, shortest = self._watchable, SHORTEST_REST
        try:
            while True:
                # Read before anything else: what is written meanwhile is new.
                version = None if watchable is None else watchable.read_version()
                due_at, now = await self._find_due_at(), self._surroundings.clock.now()
                if due_at is None or due_at > now:
                    held_back = _NOTHING_HELD_BACK  # what comes from now on is new
                due_for = choose_due_for(due_at, held_back, now)
                if due_for is not None and due_for < rest_for:
                    _end_by(due, later(now, max(due_for, shortest)))
                await self._refresh_ahead()
                if watchable is None:
                    return
                if shortest == _NO_TIME:  # news that brought nothing: others may write all the time
                    await self._pause(taken_at)
                await self._watch(watchable, version, taken_at)
                shortest = _NO_TIME
        except Exception:
            _end_by(due, self._surroundings.clock.now())
            raise

    async def _find_due_at(self) -> datetime | None:
        clock, settings = self._surroundings.clock, self._surroundings.settings
        return await self._retry.call(
            lambda: self._surroundings.store.next_due_at(
                clock.now(), settings.queues, settings.tenants
            )
        )

    async def _refresh_ahead(self) -> None:
        """Read gates and limits while there is time, so that the next job need not wait for that.

        Whoever leases does it in any case if it is not done here.
        """
        now = self._surroundings.clock.now()
        with suppress(RotaError):
            for watch in self._watches:
                await watch.refresh_ahead(now)

    async def _watch(self, store: Watchable, version: int | None, taken_at: datetime) -> None:
        """Return when something was written since that version."""
        while store.read_version() in (None, version):
            await self._pause(taken_at)

    async def _pause(self, taken_at: datetime) -> None:
        """Until the next look."""
        clock = self._surroundings.clock
        await clock.sleep(choose_look(clock.now() - taken_at))


def _end_by(rest: Timeout, instant: datetime) -> None:
    """Let a rest end then, if it would not end sooner."""
    end = rest.when()
    if not rest.expired() and (end is None or instant < end):
        rest.reschedule(instant)
