"""Runs jobs: the worker, and one run of it from start to stop.

Jobs go one way: the producer leases them, the executor runs them, the completer writes the
outcomes. Beside them the heartbeat extends leases, and the rescuer frees jobs of dead workers.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec

from rota.clock.loop import LoopWatch, Stall
from rota.clock.protocol import Clock, keeps_real_time
from rota.clock.system import SystemClock, timeout_after
from rota.errors import StoreClosedError, WorkerBusyError, WorkerForkedError
from rota.events import EventEmitter, LoopBlocked, WorkerStarted, WorkerStopped, WorkerStopping
from rota.fleet.identity import make_process_name
from rota.fleet.outage import Outage
from rota.fleet.signals import call_on_signals
from rota.policy.audit import TenantAudit
from rota.policy.gates import Gate
from rota.policy.once import Ledger
from rota.policy.watch import GateWatch, LimitWatch
from rota.worker.attempts import Attempt, Flow, log_captured
from rota.worker.completer import Completer, Settled
from rota.worker.context import CancelReason, Facilities
from rota.worker.executor import Executor
from rota.worker.heartbeat import Heartbeat
from rota.worker.presence import show_presence
from rota.worker.processes import Processes
from rota.worker.producer import Producer, listen
from rota.worker.progress import ProgressWriter
from rota.worker.pruner import Pruner
from rota.worker.registry import Encode, Handler, Registry, RunIn, Work
from rota.worker.rescuer import Rescuer
from rota.worker.settings import Resources, WorkerSettings, WorkerStore

LAST_MOMENT = timedelta(seconds=1)
"""How long handlers may take to end when they are cancelled at the end of a run.

Also how long it may take to hand back leases whose answer was lost.
"""

LAST_WRITES = timedelta(seconds=5)
"""How long the store may take for the last writes."""

STALL_LIMIT = timedelta(seconds=1)
"""A handler that blocks the event loop for longer is named."""

_MILLISECOND = timedelta(milliseconds=1)

AnyWork = TypeVar("AnyWork", bound=Work)


class StopManner(StrEnum):
    """How a worker stopped."""

    FINISHED = "finished"
    """All running jobs ended."""
    GRACE_OVER = "grace over"
    """Some jobs took longer than the grace, and were handed back."""
    AT_ONCE = "at once"
    """It was stopped twice, or cancelled: running jobs were handed back."""
    WORN_OUT = "worn out"
    """It stopped by itself: as many handlers as it has slots, at least three, will not end.

    Only a new process frees what they hold.
    """


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker left behind. ``unwritten_count`` jobs will be rescued by other workers.

    It has started ``child_count`` child processes, and had to kill ``killed_count`` of them.
    """

    manner: StopManner
    handed_back_count: int = 0
    leaked_count: int = 0
    unwritten_count: int = 0
    child_count: int = 0
    killed_count: int = 0


class Worker:
    """Leases due jobs from a store and runs their handlers, each job at least once.

    A handler is called with a ``Context``. It may be a coroutine function, or a plain function,
    which runs in a thread. If it returns, its job is done; unless it returns a ``Snooze``, to be
    called again later, or a ``Discard``, to give up for good. Any other value is ignored. If it
    raises, the job is retried according to its retry policy. Jobs whose kind is in ``notifies``
    notify people, and quiet hours hold them back. Maintenance, quiet hours and limits from the
    store apply in addition to the gate in ``settings``.

    A worker belongs to its process and, while it runs, to the event loop in which it is used. All
    jitter is drawn from ``random``; seed it for a run that can be repeated.
    """

    def __init__(
        self,
        store: WorkerStore,
        handlers: Mapping[str, Work] | None = None,
        *,
        clock: Clock | None = None,
        notifies: Collection[str] = (),
        settings: WorkerSettings | None = None,
    ) -> None:
        self.events = EventEmitter("rota.worker")
        self.name = make_process_name()
        self.random = Random()  # noqa: S311 - jitter is not a secret
        settings, clock = settings or WorkerSettings(), clock or SystemClock()
        self._resources = Resources(
            store,
            clock,
            settings,
            Registry(handlers, notifies),
            self.events,
            self.random,
            self.name,
            Outage(self.events),
            _follow_gates(settings.gate, store),
            settings.limits or LimitWatch(store),
        )
        is_watched = keeps_real_time(clock)  # only real time can be blocked
        self._watch = LoopWatch(self._report_stall, limit=STALL_LIMIT) if is_watched else None
        self._blocker: Attempt | None = None
        self._run: _Run | None = None
        self._stop_count = 0
        self._process_id = os.getpid()

    def __repr__(self) -> str:
        state = "idle" if self._run is None else "running"
        return f"<Worker {self.name}, {state}>"

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of jobs that have a handler here, as of now."""
        return frozenset(self._resources.handlers)

    def handler(
        self,
        kind: str,
        *,
        notifies: bool = False,
        timeout: timedelta | None = None,
        encode: Encode | None = None,
        run_in: RunIn | None = None,
    ) -> Callable[[AnyWork], AnyWork]:
        """Call the decorated function for jobs of this kind.

        An attempt that takes longer than ``timeout`` is cut short, and has failed. With ``encode``
        what the function returns is kept as the job's result: at most 64 KiB of JSON. With
        ``run_in="process"`` a plain function runs in a child process, which imports its module.
        """

        def register(work: AnyWork) -> AnyWork:
            self._resources.handlers.add(
                kind, work, notifies=notifies, timeout=timeout, encode=encode, run_in=run_in
            )
            return work

        return register

    def register(self, kind: str, handler: Handler) -> None:
        """Register a handler with its options for jobs of this kind."""
        self._resources.handlers.register(kind, handler)

    def limit_to(self, kinds: Collection[str]) -> None:
        """Forget the handlers of all other kinds. KeyError for a kind without a handler."""
        handlers = self._resources.handlers
        chosen = {kind: handlers[kind] for kind in kinds}
        handlers.clear()
        handlers.update(chosen)

    def run(self) -> Coroutine[Any, Any, StopReport]:
        """Work until ``stop``, and return how it ended.

        A worker stops by itself when cancelled handlers that do not end hold all of its slots, and
        at least three of them. The ``manner`` is then ``WORN_OUT``, and its process should end.

        Cancelling it hands back all jobs at once. Raises StoreClosedError when the store is closed;
        a store that is away is retried.
        """
        return self._run_until_stopped(self._stop_count)

    def run_once(self) -> Coroutine[Any, Any, list[Settled]]:
        """Lease one batch of due jobs, run them, and return each as it was written.

        For tests, and for programs that are started again for every batch. It rescues no stalled
        jobs. What a store that is away does not take within seconds, or a store that does not
        answer within the length of a lease, is left to other workers.
        """
        return self._run_batch(self._stop_count)

    def stop(self) -> None:
        """Lease nothing more, and let ``run`` return when the running jobs have ended.

        Jobs that have not ended after the grace are handed back, and no attempt is spent. Called
        again, it hands them back now. A ``run`` that was called, as in
        ``create_task(worker.run())``, is stopped even if it has not started; a later one is not.
        Call it in the event loop's thread.
        """
        self._refuse_when_forked()
        self._stop_count += 1
        if self._run is not None:
            self._run.stop()

    async def _run_until_stopped(self, stopped_before: int) -> StopReport:
        run = self._begin()
        try:
            for _ in range(self._stop_count - stopped_before):
                run.stop()
            return await run.until_stopped()
        finally:
            self._run = None

    async def _run_batch(self, stopped_before: int) -> list[Settled]:
        run = self._begin()
        try:
            return [] if self._stop_count > stopped_before else await run.one_batch()
        finally:
            self._run = None

    def _begin(self) -> "_Run":
        self._refuse_when_forked()
        if self._run is not None:
            raise WorkerBusyError
        outage = Outage(self.events)
        self._run = _Run(replace(self._resources, random=self.random, outage=outage), self._watch)
        return self._run

    def _report_stall(self, stall: Stall) -> None:
        """Name the job whose handler blocks the event loop."""
        if not stall.is_over:  # once it is over, the slot may run another job
            self._blocker = None if self._run is None else self._run.find(stall.task_name)
        self.events.emit(
            LoopBlocked(
                duration=stall.blocked_for / _MILLISECOND,
                location=stall.where,
                job_id=None if self._blocker is None else self._blocker.job.id,
                kind=None if self._blocker is None else self._blocker.job.kind,
                is_over=stall.is_over,
            )
        )

    def _refuse_when_forked(self) -> None:
        if os.getpid() != self._process_id:
            raise WorkerForkedError(self._process_id, os.getpid())


async def run_until_signalled(worker: Worker) -> StopReport:
    """``worker.run()``, stopped by the first SIGINT or SIGTERM and hurried by the second."""
    with stop_on_signals(worker):
        return await worker.run()


def stop_on_signals(worker: Worker) -> AbstractContextManager[None]:
    """Call ``worker.stop()`` on each SIGINT and SIGTERM while the context lasts.

    Without effect where signal handlers are not available: outside the main thread, and on
    platforms whose event loops have none.
    """
    return call_on_signals(worker.stop)


class _Run:
    """Everything that works while a worker runs."""

    def __init__(self, resources: Resources, watch: LoopWatch | None) -> None:
        store, clock, settings = resources.store, resources.clock, resources.settings
        facilities = Facilities(
            partial(ProgressWriter, store, clock, asyncio.get_running_loop()),
            partial(Processes, settings.concurrency, settings.jobs_per_process, resources.events),
            partial(Ledger, store, clock),
            partial(TenantAudit, store, clock=clock, draw_bits=resources.random.getrandbits),
        )
        self._resources = resources
        self._flow = Flow()
        self._completer = Completer(resources, self._flow)
        self._watch = watch
        self._executor = Executor(resources, self._flow, facilities)
        self._heartbeat = Heartbeat(resources, self._flow, self._executor)
        self._producer = Producer(resources, self._flow, self._executor, self._heartbeat)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failure: BaseException | None = None
        self._stop_count = 0

    def stop(self) -> None:
        """Lease nothing more and finish; the second time, hand back what is not finished."""
        self._stop_count += 1
        self._producer.stop()
        self._flow.alarm.set()

    def find(self, slot_name: str | None) -> Attempt | None:
        """The attempt that runs in the slot of that name."""
        slot = self._executor.slots.get(slot_name or "")
        return None if slot is None else slot.attempt

    async def until_stopped(self) -> StopReport:
        """Work until stopped or worn out."""
        resources, flow, leaks = self._resources, self._flow, self._executor.leaks
        kinds, concurrency = sorted(resources.handlers), resources.settings.concurrency
        resources.events.emit(
            WorkerStarted(worker=resources.name, kinds=kinds, concurrency=concurrency)
        )
        manner = StopManner.AT_ONCE
        try:
            async with self._at_work():
                self._start_leasing()
                while not (self._stop_count or leaks.has_worn_out):
                    flow.alarm.clear()
                    await flow.alarm.wait()
                manner = await self._drain()
        finally:
            report = self._make_report(manner)
            resources.events.emit(
                WorkerStopped(
                    worker=resources.name,
                    manner=report.manner,
                    handed_back_count=report.handed_back_count,
                    unwritten_count=report.unwritten_count,
                )
            )
        return report

    async def one_batch(self) -> list[Settled]:
        """Lease one batch, run it, and return when all of it is written."""
        settled: list[Settled] = []
        self._completer.settled = settled
        async with self._at_work():
            await self._producer.lease(self._resources.settings.batch)
            await self._flow.wait_while(self._is_in_hand)
            if self._stop_count:
                await self._finish_running()
        return settled

    def _is_in_hand(self) -> bool:
        """Whether handlers run, or the store works on outcomes: for as long as a lease at most.

        It is asked again after each beat.
        """
        flow, settings = self._flow, self._resources.settings
        if self._stop_count or not flow.held:
            return False
        last_end = max([attempt.ended_at for attempt in flow.held])  # never, while a handler runs
        if self._resources.clock.now() - last_end >= settings.lease_for:
            return False
        return not self._completer.is_held_up or flow.is_busy

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Extend leases and write outcomes; at the end nothing is held any more."""
        settings, facilities = self._resources.settings, self._executor.facilities
        async with AsyncExitStack() as around:
            if settings.lifespan is not None:
                facilities.state = await around.enter_async_context(settings.lifespan())
            if self._watch is not None:
                around.enter_context(self._watch)
            if settings.captures_logs:
                around.enter_context(log_captured())
            around.push_async_callback(self._wind_up)
            self._start("completer", self._completer.run())
            self._start("heartbeat", self._heartbeat.run())
            yield
        if self._failure is not None:
            raise self._failure

    def _start_leasing(self) -> None:
        resources, flow = self._resources, self._flow
        self._start("producer", self._producer.run())
        self._start("listener", listen(resources, flow))
        self._start("rescuer", Rescuer(resources, flow, self._producer.unanswered).run())
        self._start("presence", show_presence(resources))
        keep = resources.settings.keep
        if keep is not None:
            self._start("pruner", Pruner(resources, keep).run())

    def _start(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(loop, name=f"rota {name}")
        self._tasks[name] = task
        task.add_done_callback(self._note_done)

    def _note_done(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self.stop()
            self.stop()

    async def _drain(self) -> StopManner:
        """Let running jobs end within the grace; hand back at once what has not started."""
        settings = self._resources.settings
        self._resources.events.emit(
            WorkerStopping(
                worker=self._resources.name,
                running_count=self._flow.running_count,
                grace_ms=settings.grace_for / _MILLISECOND,
            )
        )
        is_worn_out = self._executor.leaks.has_worn_out
        await self._finish_running()
        if self._stop_count > 1:
            return StopManner.AT_ONCE
        if is_worn_out:
            return StopManner.WORN_OUT
        return StopManner.GRACE_OVER if self._flow.is_busy else StopManner.FINISHED

    async def _finish_running(self) -> None:
        self._producer.stop()
        with suppress(TimeoutError):
            async with timeout_after(self._resources.clock, self._resources.settings.grace_for):
                await self._flow.wait_while(lambda: self._flow.is_busy and self._stop_count < 2)

    async def _wind_up(self) -> None:
        """Hand back what is not finished, write what has ended, and end all tasks."""
        try:
            if self._flow.held or self._producer.unanswered or "producer" in self._tasks:
                self._producer.stop()
                if self._flow.is_busy:
                    await self._hand_back()
                await self._write_the_last()
            if (progress := self._executor.facilities.progress) is not None:
                await progress.close()
        finally:
            tasks = [task for task in self._tasks.values() if not task.done()]
            for task in tasks:
                task.cancel()
            await self._executor.close()
            if (processes := self._executor.facilities.processes) is not None:
                await processes.close()
            if tasks:
                await asyncio.wait(tasks)

    async def _hand_back(self) -> None:
        """Cut short what is running; handlers get a moment to notice."""
        self._executor.cancel_all(CancelReason.STOPPING)
        with suppress(TimeoutError):
            async with timeout_after(self._resources.clock, LAST_MOMENT):
                await self._flow.wait_while(lambda: self._flow.is_busy)
        self._executor.abandon_cancelled()

    async def _write_the_last(self) -> None:
        """Write every outcome that the store accepts in time."""
        completing, producing = self._tasks["completer"], self._tasks.get("producer")
        with suppress(TimeoutError, StoreClosedError):
            async with timeout_after(self._resources.clock, LAST_WRITES):
                if producing is not None:
                    await asyncio.wait({producing})
                self._completer.close()
                await asyncio.wait({completing})
                if completing.cancelled():  # with all other tasks: the loop is being shut down
                    await self._completer.write_all()
                if self._producer.unanswered:
                    await self._reclaim()

    async def _reclaim(self) -> None:
        """Hand back leases whose answer was lost, unless the store is still away."""
        rescuer = Rescuer(self._resources, self._flow, self._producer.unanswered)
        with suppress(TimeoutError):
            async with timeout_after(self._resources.clock, LAST_MOMENT):
                await rescuer.reclaim()

    def _make_report(self, manner: StopManner) -> StopReport:
        processes = self._executor.facilities.processes
        return StopReport(
            manner=manner,
            handed_back_count=self._completer.handed_back_count,
            leaked_count=self._executor.leaks.count,
            unwritten_count=len(self._flow.ended),
            child_count=0 if processes is None else processes.started_count,
            killed_count=0 if processes is None else processes.killed_count,
        )


def _follow_gates(gate: Gate | None, store: WorkerStore) -> GateWatch:
    """The gates in the store, in addition to the one that was given."""
    if isinstance(gate, GateWatch):
        return gate
    return GateWatch(store, more=() if gate is None else (gate,))
