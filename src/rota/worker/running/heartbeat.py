"""Keeps the leases of what is in hand from running out, and notices those that are lost.

By the machine's time this is done by a thread with a connection of its own, so that a handler that
blocks the event loop does not cost every job on it its lease. Under any other clock, which no
thread can wait for, it is done by a task.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import NamedTuple

from rota.clock.protocol import keeps_real_time
from rota.clock.timeout import timeout_after
from rota.errors import StoreClosedError, StoreError
from rota.fleet.outage import Outage
from rota.stores.protocol import HeldLease, LeaseKeeper
from rota.worker.context import CancelReason
from rota.worker.running.held import Held
from rota.worker.surroundings import Surroundings

LONGEST_INTERVAL = timedelta(seconds=5)
RETRIED_AFTER = timedelta(seconds=1)
"""How soon a beat is tried again that the store did not answer."""

CLOSED_AFTER = timedelta(seconds=5)
"""How long the thread may take to end."""


class Beat(NamedTuple):
    """The leases of one beat, and how long they are to last from now on."""

    held: Sequence[Held]
    leases: Sequence[HeldLease]
    until: datetime
    now: datetime


class Pulse:
    """What one beat asks of the store, and what its answer means."""

    def __init__(
        self,
        surroundings: Surroundings,
        outage: Outage,
        in_hand: Collection[Held],
        cancel: Callable[[Held, CancelReason], None],
    ) -> None:
        lease_for = surroundings.settings.lease_for
        self.interval = min(lease_for / 4, LONGEST_INTERVAL)
        self.retry_after = min(self.interval, RETRIED_AFTER)
        self._lease_for = lease_for
        self._clock = surroundings.clock
        self._outage = outage
        self._in_hand = in_hand
        self._cancel = cancel
        self._watch: asyncio.Task[None] | None = None

    def begin(self) -> Beat:
        """What is in hand now. May be called from any thread: the copy is made in one step."""
        held = _in_order(self._in_hand)
        now = self._clock.now()
        return Beat(held, [each.lease for each in held], now + self._lease_for, now)

    def watch(self) -> None:
        """While the store is asked: it may hang, and leases run out all the same."""
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_leases())

    def unwatch(self) -> None:
        """The store has answered."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def note_kept(self, beat: Beat, answers: Sequence[bool]) -> None:
        """Leases last longer. May be called from any thread, and before ``take_answer``.

        A loop that was blocked hears of many beats at once: by the time it hears of the first, the
        lease that one brought may be over, and the last has long extended it.
        """
        for held, is_held in zip(beat.held, answers, strict=True):
            if is_held:
                held.until = max(held.until, beat.until)

    def take_answer(self, beat: Beat, answers: Sequence[bool]) -> None:
        """Whoever has lost a lease is told; what has ended has none, and is left alone."""
        self.unwatch()
        self._outage.end(self)
        for held, is_held in zip(beat.held, answers, strict=True):
            if not is_held:
                self._cancel(held, CancelReason.LOST)
        self._cancel_lapsed()  # an answer may come too late to be of use

    def take_failure(self, error: StoreError) -> None:
        """The store does not answer: nothing runs on beyond a lease that is known to be over."""
        self.unwatch()
        self._outage.begin(self, error)
        self._cancel_lapsed()

    async def _watch_leases(self) -> None:
        while True:
            lasting = [held.until for held in self._in_hand if held.may_be_cut_short]
            # What is leased meanwhile lasts longer than that.
            await self._clock.sleep_until(min(lasting, default=self._clock.now() + self._lease_for))
            self._cancel_lapsed()

    def _cancel_lapsed(self) -> None:
        now = self._clock.now()
        for held in _in_order(self._in_hand):
            if held.until <= now:
                self._cancel(held, CancelReason.LAPSED)


def _in_order(in_hand: Collection[Held]) -> list[Held]:
    """By their jobs: a set has another order in every run, and a trial is to be repeatable."""
    return sorted(in_hand, key=lambda held: held.job.id)


class TaskHeart:
    """Beats on the event loop, by any clock."""

    def __init__(self, surroundings: Surroundings, pulse: Pulse) -> None:
        self._store = surroundings.store
        self._clock = surroundings.clock
        self._pulse = pulse

    async def run(self) -> None:
        """Beat until cancelled."""
        pause = self._pulse.interval
        while True:
            await self._clock.sleep(pause)
            pause = await self._beat()

    async def _beat(self) -> timedelta:
        beat = self._pulse.begin()
        if not beat.leases:
            return self._pulse.interval
        self._pulse.watch()
        try:
            answers = await self._store.extend(beat.leases, beat.until, beat.now)
        except (StoreClosedError, asyncio.CancelledError):
            self._pulse.unwatch()
            raise
        except StoreError as error:
            self._pulse.take_failure(error)
            return self._pulse.retry_after
        self._pulse.note_kept(beat, answers)
        self._pulse.take_answer(beat, answers)
        return self._pulse.interval


class ThreadHeart:
    """Beats in a thread; what it finds out is told on the event loop."""

    def __init__(self, surroundings: Surroundings, pulse: Pulse) -> None:
        self._store = surroundings.store
        self._clock = surroundings.clock
        self._pulse = pulse
        self._stopped = Event()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Beat until cancelled; then wait a moment for the thread to end."""
        keeper = self._store.make_keeper()
        Thread(target=self._beat_on, args=(keeper,), name="rota-heartbeat", daemon=True).start()
        try:
            await asyncio.shield(self._ended)
        finally:
            self._stopped.set()
            with suppress(TimeoutError):
                async with timeout_after(self._clock, CLOSED_AFTER):
                    await asyncio.shield(self._ended)
            self._pulse.unwatch()

    def _beat_on(self, keeper: LeaseKeeper) -> None:
        """The thread."""
        error: BaseException | None = None
        try:
            pause = self._pulse.interval
            while not self._stopped.wait(pause.total_seconds()):
                pause = self._beat(keeper.extend)
        except BaseException as raised:  # noqa: BLE001 - raised again where run() is awaited
            error = raised
        finally:
            keeper.close()
        self._call(self._end, error)

    def _beat(
        self, extend: Callable[[Sequence[HeldLease], datetime, datetime], list[bool]]
    ) -> timedelta:
        beat = self._pulse.begin()
        if not beat.leases:
            return self._pulse.interval
        self._call(self._pulse.watch)
        try:
            answers = extend(beat.leases, beat.until, beat.now)
        except StoreClosedError:
            raise
        except StoreError as error:
            self._call(self._pulse.take_failure, error)
            return self._pulse.retry_after
        self._pulse.note_kept(beat, answers)
        self._call(self._pulse.take_answer, beat, answers)
        return self._pulse.interval

    def _call(self, tell: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(tell, *arguments)
        except RuntimeError:  # the loop is closed: there is nobody left to be told
            self._stopped.set()

    def _end(self, error: BaseException | None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


def make_heart(surroundings: Surroundings, pulse: Pulse) -> TaskHeart | ThreadHeart:
    """The one that suits the clock."""
    is_real = keeps_real_time(surroundings.clock)
    return ThreadHeart(surroundings, pulse) if is_real else TaskHeart(surroundings, pulse)
