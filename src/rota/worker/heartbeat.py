"""Extends the leases of held attempts, and cancels those whose lease is lost.

In real time a thread with its own connection does this, so that a handler that blocks the event
loop does not cost every job its lease. Under any other clock, which no thread can wait for, a task
does it.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
        self._watch: asyncio.Task[None] | None = None
        self._watched_until = END_OF_TIME
        self.interval = min(resources.settings.lease_for / 4, LONGEST_INTERVAL)
        self.retry_after = min(self.interval, RETRIED_AFTER)

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            if keeps_real_time(self._resources.clock):
                loop, keeper = asyncio.get_running_loop(), self._resources.store.make_keeper()
                await _BeatThread(self, keeper, loop, loop.create_future()).run()
            else:
                await self._keep_beating()
        finally:
            self._watched_until = _LONG_AGO  # leases that come later are not watched
            if self._watch is not None:
                self._watch.cancel()

    async def _keep_beating(self) -> None:
        clock, held, pause = self._resources.clock, self._flow.held, self.interval
        while True:
            if isinstance(clock, ConditionalClock):  # virtual time does not stop for nothing
                await clock.wait_until(lambda: bool(held))
            await clock.sleep(pause)
            pause = await self._beat()

    async def _beat(self) -> timedelta:
        beat = self.begin()
        if not beat.leases:
            return self.interval
        try:
            answers = await self._resources.store.extend(beat.leases, beat.until, beat.now)
        except StoreClosedError:
            raise
        except StoreError as error:
            self.take_failure(error)
            return self.retry_after
        beat.note_kept(answers)
        self.take_answer(beat, answers)
        return self.interval

    def begin(self) -> Beat:
        """A beat for all attempts held now. Any thread may call it: the copy is atomic."""
        attempts = self._in_order()
        now = self._resources.clock.now()
        until = now + self._resources.settings.lease_for
        return Beat(attempts, [each.lease for each in attempts], until, now)

    def note_leases(self, until: datetime) -> None:
        """Jobs were leased until then, which may be soon: the store may have been slow."""
        if until < self._watched_until:
            if self._watch is not None:
                self._watch.cancel()
            self._watched_until = until
            self._watch = asyncio.create_task(self._watch_leases(), name="rota lease watch")

    def take_answer(self, beat: Beat, answers: Sequence[bool]) -> None:
        """Cancel the attempts whose leases are lost."""
        self._resources.outage.end(self)
        for attempt, is_held in zip(beat.attempts, answers, strict=True):
            if not is_held:
                self._executor.cancel(attempt, CancelReason.LOST)

    def take_failure(self, error: StoreError) -> None:
        """The store does not answer."""
        self._resources.outage.begin(self, error)

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


@dataclass(slots=True, eq=False)
class _BeatThread:
    """Beats in a thread, and reports to the heartbeat on the event loop."""

    _heartbeat: Heartbeat
    _keeper: LeaseKeeper
    _loop: AbstractEventLoop
    _ended: "Future[None]"
    _stopped: Event = field(default_factory=Event)

    async def run(self) -> None:
        """Beat until cancelled; then wait a moment for the thread to end."""
        Thread(target=self._serve, name="rota-heartbeat", daemon=True).start()
        try:
            await asyncio.wait({self._ended})
        finally:
            self._stopped.set()
            await asyncio.wait({self._ended}, timeout=CLOSED_AFTER.total_seconds())
            if self._ended.done():
                self._ended.result()

    def _serve(self) -> None:
        """The thread."""
        error, pause = None, self._heartbeat.interval
        try:
            while not self._stopped.wait(pause.total_seconds()):
                pause = self._beat()
        except BaseException as raised:  # noqa: BLE001 - raised again where run() is awaited
            error = raised
        finally:
            self._keeper.close()
        if error is None:
            self._call(self._ended.set_result, None)
        else:
            self._call(self._ended.set_exception, error)

    def _beat(self) -> timedelta:
        heartbeat = self._heartbeat
        beat = heartbeat.begin()
        if not beat.leases:
            return heartbeat.interval
        try:
            answers = self._keeper.extend(beat.leases, beat.until, beat.now)
        except StoreClosedError:
            raise
        except StoreError as error:
            self._call(heartbeat.take_failure, error)
            return heartbeat.retry_after
        beat.note_kept(answers)
        self._call(heartbeat.take_answer, beat, answers)
        return heartbeat.interval

    def _call(self, report: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(report, *arguments)
        except RuntimeError:  # the loop is closed
            self._stopped.set()
