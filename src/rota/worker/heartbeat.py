"""Extends the leases of held attempts, and cancels those whose lease is lost.

In real time a thread with its own connection does this, so that a handler that blocks the event
loop does not cost every job its lease. Under any other clock, which no thread can wait for, a task
does it.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import NamedTuple

from rota.clock.protocol import END_OF_TIME, ConditionalClock, keeps_real_time
from rota.errors import StoreClosedError, StoreError
from rota.stores.protocol import HeldLease, LeaseKeeper
from rota.worker.attempts import Attempt, Flow
from rota.worker.context import CancelReason
from rota.worker.executor import Executor
from rota.worker.settings import Resources

LONGEST_INTERVAL = timedelta(seconds=5)
RETRIED_AFTER = timedelta(seconds=1)
"""How soon a beat that the store did not answer is repeated."""

CLOSED_AFTER = timedelta(seconds=5)
"""How long the thread may take to end."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Beat(NamedTuple):
    """The leases of one beat, and until when they are extended."""

    attempts: Sequence[Attempt]
    leases: Sequence[HeldLease]
    until: datetime
    now: datetime

    def note_kept(self, answers: Sequence[bool]) -> None:
        """The leases last longer. Any thread may call it.

        A loop that was blocked gets the answers of many beats at once. By the time it sees the
        first, that extension may be over, and a later beat has extended the lease again.
        """
        for attempt, is_held in zip(self.attempts, answers, strict=True):
            if is_held:
                attempt.lease_until = max(attempt.lease_until, self.until)


class Heartbeat:
    """Extends all leases every few seconds, until cancelled."""

    def __init__(self, resources: Resources, flow: Flow, executor: Executor) -> None:
        self._resources = resources
        self._flow = flow
        self._executor = executor
        self._stopped = Event()
        self._keeper: LeaseKeeper | None = None
        self._watch: asyncio.Task[None] | None = None
        self._watched_until = END_OF_TIME
        self._interval = min(resources.settings.lease_for / 4, LONGEST_INTERVAL)

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            if keeps_real_time(self._resources.clock):
                await self._run_thread()
            else:
                await self._keep_beating()
        finally:
            self._watched_until = _LONG_AGO  # leases that come later are not watched
            if self._watch is not None:
                self._watch.cancel()

    def note_leases(self, until: datetime) -> None:
        """Jobs were leased until then, which may be soon: the store may have been slow."""
        if until < self._watched_until:
            if self._watch is not None:
                self._watch.cancel()
            self._watched_until = until
            self._watch = asyncio.create_task(self._watch_leases(), name="rota lease watch")

    async def _run_thread(self) -> None:
        """Let a thread beat until cancelled; then wait a moment for it to end."""
        loop = asyncio.get_running_loop()
        ended: Future[None] = loop.create_future()
        thread = Thread(target=self._serve, args=(loop, ended), name="rota-heartbeat")
        thread.daemon = True
        thread.start()
        try:
            await asyncio.wait({ended})
        finally:
            self._stopped.set()
            await asyncio.wait({ended}, timeout=CLOSED_AFTER.total_seconds())
            if ended.done():
                ended.result()

    def _serve(self, loop: AbstractEventLoop, ended: "Future[None]") -> None:
        """The thread. It ends when stopped, and when the loop is closed."""
        error, pause = None, self._interval
        try:
            while not self._stopped.wait(pause.total_seconds()):
                pause = self._beat_in_thread(loop)
        except BaseException as raised:  # noqa: BLE001 - raised again where run() is awaited
            error = raised
        finally:
            if self._keeper is not None:
                self._keeper.close()
        with suppress(RuntimeError):  # the loop is closed
            if error is None:
                loop.call_soon_threadsafe(ended.set_result, None)
            else:
                loop.call_soon_threadsafe(ended.set_exception, error)

    def _beat_in_thread(self, loop: AbstractEventLoop) -> timedelta:
        beat = self._begin()
        if not beat.leases:
            return self._interval
        answer: Sequence[bool] | StoreError
        try:
            if self._keeper is None:  # most batches end before the first beat
                self._keeper = self._resources.store.make_keeper()
            answer = self._keeper.extend(beat.leases, beat.until, beat.now)
            beat.note_kept(answer)
        except StoreClosedError:
            raise
        except StoreError as error:
            answer = error
        loop.call_soon_threadsafe(self._take, beat, answer)
        return self._choose_pause(answer)

    async def _keep_beating(self) -> None:
        clock, held, pause = self._resources.clock, self._flow.held, self._interval
        while True:
            if isinstance(clock, ConditionalClock):  # virtual time does not stop for nothing
                await clock.wait_until(lambda: bool(held))
            await clock.sleep(pause)
            pause = await self._beat()

    async def _beat(self) -> timedelta:
        beat = self._begin()
        if not beat.leases:
            return self._interval
        answer: Sequence[bool] | StoreError
        try:
            answer = await self._resources.store.extend(beat.leases, beat.until, beat.now)
            beat.note_kept(answer)
        except StoreClosedError:
            raise
        except StoreError as error:
            answer = error
        self._take(beat, answer)
        return self._choose_pause(answer)

    def _choose_pause(self, answer: Sequence[bool] | StoreError) -> timedelta:
        is_failure = isinstance(answer, StoreError)
        return min(self._interval, RETRIED_AFTER) if is_failure else self._interval

    def _begin(self) -> Beat:
        """A beat for all attempts held now. Any thread may call it: the copy is atomic."""
        attempts = self._in_order()
        now = self._resources.clock.now()
        until = now + self._resources.settings.lease_for
        return Beat(attempts, [each.lease for each in attempts], until, now)

    def _take(self, beat: Beat, answer: Sequence[bool] | StoreError) -> None:
        """In the event loop: cancel the attempts whose leases are lost, or note the outage."""
        self._flow.changed.set()  # time has passed: see whether to wait on
        if isinstance(answer, StoreError):
            self._resources.outage.begin(self, answer)
            return
        self._resources.outage.end(self)
        for attempt, is_held in zip(beat.attempts, answer, strict=True):
            if not is_held:
                self._executor.cancel(attempt, CancelReason.LOST)

    async def _watch_leases(self) -> None:
        """Let nothing run longer than its lease is known to last.

        The store may hang or fail, or have taken most of a lease to answer: then a lease ends
        before the next beat has extended it.
        """
        clock = self._resources.clock
        while self._watched_until < END_OF_TIME:
            await clock.sleep_until(self._watched_until)
            now = clock.now()
            for attempt in self._in_order():
                if attempt.lease_until <= now:
                    self._executor.cancel(attempt, CancelReason.LAPSED)
            ends = [it.lease_until for it in self._flow.held if it.can_be_cancelled]
            self._watched_until = min(ends, default=END_OF_TIME)

    def _in_order(self) -> list[Attempt]:
        """By job: the order of a set differs between runs, and a simulation is repeatable."""
        return sorted(self._flow.held, key=lambda attempt: attempt.job.id)
