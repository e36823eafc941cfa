"""One run of a worker, from its start to the last thing it writes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from rota.clock.timeout import timeout_after
from rota.errors import StoreClosedError
from rota.events import WorkerStarted, WorkerStopped, WorkerStopping
from rota.fleet.outage import Outage
from rota.jobs import JobId
from rota.worker.context import CancelReason
from rota.worker.loops.leasing import Leaser, listen
from rota.worker.loops.rescue import Rescue
from rota.worker.loops.retention import prune_for_ever
from rota.worker.loops.settling import Settled, Settler
from rota.worker.presence import Presence
from rota.worker.running.crew import Crew
from rota.worker.running.heartbeat import Pulse, make_heart
from rota.worker.running.stalls import watch_loop
from rota.worker.surroundings import Surroundings

LAST_MOMENT = timedelta(seconds=1)
"""How long handlers that are cut short at the end may take, before their jobs are handed back.

And how long it may take to hand back what was leased without an answer."""

LAST_WORDS = timedelta(seconds=5)
"""How long the store may take for the last writes."""

_MILLISECOND = timedelta(milliseconds=1)


class StopManner(StrEnum):
    """How a worker came to its end."""

    FINISHED = "finished"
    """All that ran was finished."""
    GRACE_OVER = "grace over"
    """Some jobs took longer than the grace, and were handed back."""
    AT_ONCE = "at once"
    """It was told twice, or cancelled: what ran was handed back."""
    WORN_OUT = "worn out"
    """It stopped by itself: as many handlers as it has places, three at least, will not end.

    Nothing but a new process frees what they hold.
    """


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker left behind. ``unwritten_count`` jobs will be rescued by others."""

    manner: StopManner
    handed_back_count: int = 0
    leaked_count: int = 0
    unwritten_count: int = 0


class _Wish(IntEnum):
    """What is wanted of a worker."""

    WORK = 0
    END = 1
    """As with STOP, but nobody has said so yet."""
    STOP = 2
    STOP_AT_ONCE = 3


class Shift:
    """Everything that is at work while a worker runs."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._outage = Outage(surroundings.journal)
        self._settler = Settler(surroundings, self._outage)
        self._crew = Crew(surroundings, self._settler, self._note_end)
        self._leaser = Leaser(surroundings, self._outage, self._crew, self._settler)
        unanswered = self._leaser.unanswered
        self._rescue = Rescue(surroundings, self._outage, self._held_ids, unanswered)
        self._wish = _Wish.WORK
        self._is_worn_out = False
        self._crew.on_worn_out = self._wear_out
        self._called = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Start nothing more and finish; the second time, hand back what is not finished."""
        self._end(_Wish.STOP if self._wish < _Wish.STOP else _Wish.STOP_AT_ONCE)

    def _wear_out(self) -> None:
        if self._wish is _Wish.WORK:
            self._is_worn_out = True
            self._end(_Wish.END)

    def _end(self, wish: _Wish) -> None:
        self._wish = wish
        self._leaser.stop()
        self._called.set()

    async def run(self) -> StopReport:
        """Work until told to stop."""
        journal, owner = self._surroundings.journal, self._surroundings.owner
        kinds, settings = sorted(self._surroundings.handlers), self._surroundings.settings
        journal.emit(WorkerStarted(worker=owner, kinds=kinds, concurrency=settings.concurrency))
        manner = StopManner.AT_ONCE
        try:
            async with self._at_work():
                self._start_taking()
                await self._wait_while(lambda: self._wish is _Wish.WORK)
                self._tell_stopping()
                manner = await self._drain()
        finally:
            report = self._make_report(manner)
            self._tell_stopped(report)
        return report

    async def run_once(self) -> list[Settled]:
        """Lease one batch, run it, and return when all of it is written."""
        settled: list[Settled] = []
        self._settler.settled = settled
        async with self._at_work():
            self._crew.put(await self._leaser.lease_once(self._surroundings.settings.batch))
            await self._wait_while(lambda: self._crew.is_busy and self._wish is _Wish.WORK)
            await self._drain()
        return settled

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Leases are kept and outcomes written; at the end nothing is left in hand."""
        pulse = Pulse(self._surroundings, self._outage, self._settler.in_hand, self._crew.cancel)
        with watch_loop(self._surroundings, self._crew.runners):
            settling = self._start(self._settler.run(), "settling")
            self._start(make_heart(self._surroundings, pulse).run(), "heartbeat")
            try:
                yield
            finally:
                try:
                    await self._hand_back()
                    await self._write_the_last(settling)
                finally:
                    await self._end_tasks()
        if self._failure is not None:
            raise self._failure

    def _start_taking(self) -> None:
        surroundings, outage = self._surroundings, self._outage
        self._start(self._leaser.run(), "leasing")
        self._start(listen(surroundings, outage, self._leaser), "listening")
        self._start(self._rescue.run(), "rescue")
        self._start(Presence(surroundings).run(), "presence")
        if surroundings.settings.retention is not None:
            retention = surroundings.settings.retention
            self._start(prune_for_ever(surroundings, outage, retention), "retention")

    def _start(self, loop: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(loop, name=f"rota {name}")
        self._tasks.add(task)
        task.add_done_callback(self._note_done)
        return task

    def _note_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self.stop()
            self.stop()

    def _note_end(self) -> None:
        """A job has ended; called for each, and cheap."""
        self._leaser.note_room()
        if not self._crew.is_busy:
            self._called.set()

    def _held_ids(self) -> set[JobId]:
        return {held.job.id for held in self._settler.in_hand}

    async def _wait_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            await self._called.wait()
            self._called.clear()

    async def _drain(self) -> StopManner:
        """Let what runs come to its end, within the grace; what waits goes back at once."""
        self._leaser.stop()
        self._crew.hand_back_waiting()
        with suppress(TimeoutError):
            async with timeout_after(
                self._surroundings.clock, self._surroundings.settings.grace_for
            ):
                await self._wait_while(
                    lambda: self._crew.is_busy and self._wish is not _Wish.STOP_AT_ONCE
                )
        if self._wish is _Wish.STOP_AT_ONCE:
            return StopManner.AT_ONCE
        if self._is_worn_out:
            return StopManner.WORN_OUT
        return StopManner.GRACE_OVER if self._crew.is_busy else StopManner.FINISHED

    async def _hand_back(self) -> None:
        """Whatever is not finished goes back; handlers get a moment to notice."""
        self._leaser.stop()
        self._crew.hand_back_waiting()
        if not self._crew.is_busy:
            return
        self._crew.cancel_all(CancelReason.STOPPING)
        with suppress(TimeoutError):
            async with timeout_after(self._surroundings.clock, LAST_MOMENT):
                await self._wait_while(lambda: self._crew.is_busy)
        self._crew.abandon_all()

    async def _write_the_last(self, settling: "asyncio.Task[None]") -> None:
        """Let go of everything the store can be told of in time."""
        with suppress(TimeoutError, StoreClosedError):
            async with timeout_after(self._surroundings.clock, LAST_WORDS):
                await self._leaser.ended()
                self._settler.close()
                await asyncio.wait({settling})
                if settling.cancelled():  # with all other tasks: the loop is being shut down
                    await self._settler.write_all()
                await self._reclaim()

    async def _reclaim(self) -> None:
        """Hand back what was leased without an answer, unless the store is still away."""
        with suppress(TimeoutError):
            async with timeout_after(self._surroundings.clock, LAST_MOMENT):
                await self._rescue.reclaim()

    async def _end_tasks(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await self._crew.close()
        if tasks:
            await asyncio.wait(tasks)

    def _make_report(self, manner: StopManner) -> StopReport:
        return StopReport(
            manner=manner,
            handed_back_count=self._settler.handed_back_count,
            leaked_count=self._crew.leaked_count,
            unwritten_count=self._settler.waiting_count,
        )

    def _tell_stopping(self) -> None:
        self._surroundings.journal.emit(
            WorkerStopping(
                worker=self._surroundings.owner,
                running_count=self._crew.running_count,
                grace_ms=self._surroundings.settings.grace_for / _MILLISECOND,
            )
        )

    def _tell_stopped(self, report: StopReport) -> None:
        self._surroundings.journal.emit(
            WorkerStopped(
                worker=self._surroundings.owner,
                manner=report.manner,
                handed_back_count=report.handed_back_count,
                unwritten_count=report.unwritten_count,
            )
        )
