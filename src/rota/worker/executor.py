"""Runs attempts: gate, handler, call under its timeout, classify, emit.

A fixed number of slots run them, each a task that lives as long as the worker. A job costs no task
of its own; one whose handler never suspends does not even cost a turn of the event loop. Every few
milliseconds a slot lets everything else run.
"""

import asyncio
import inspect
from asyncio import CancelledError, Future, Task
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from types import coroutine
from typing import Any

from rota.clock.loop import in_flight, is_current, turn
from rota.errors import RotaError
from rota.events import JobStarted
from rota.jobs import Failed, Interrupted, Skipped, is_missed
from rota.jobs.recurrence import MISSED
from rota.policy.gates import Closed
from rota.worker.attempts import (
    HANDED_BACK,
    Attempt,
    Flow,
    LogCapture,
    Result,
    Stage,
    classify,
    current_capture,
    failed,
)
from rota.worker.context import CallNext, CancelReason, Context, Facilities
from rota.worker.job_events import NOT_HELD, handler_leaked, job_started, lease_lost
from rota.worker.registry import Handler
from rota.worker.settings import Resources
from rota.worker.threads import Threads

BREATH_AFTER = timedelta(milliseconds=5)
BREATH_COUNT = 500
"""After this time, or this number of jobs, a slot lets the event loop turn once."""

CANCEL_GRACE = timedelta(seconds=5)
"""How long a cancelled handler may take to end before its slot is given up."""

MOST_READS = 3
REREAD_AFTER = timedelta(seconds=1)
UNREAD = "the gates could not be read"
"""A job whose gates cannot be read in time, in this number of readings, waits this long."""

LEAKS_TOLERATED = 2
"""This number of leaked handlers never wears a worker out, however few slots it has."""

NO_HANDLER = "NoHandler"
TIMED_OUT = "TimedOut"

_numbers = count(1)


def is_worn_out(leaked_count: int, concurrency: int) -> bool:
    """Whether as many leaked handlers go on as there are slots: only a new process helps.

    Each keeps a thread, or at least what its coroutine holds, and may wake at any time. A few are
    tolerated even with one slot: a thread may just be late.
    """
    return leaked_count >= max(concurrency, LEAKS_TOLERATED + 1)


@dataclass(slots=True, eq=False)
class Slot:
    """A place in which jobs run, one at a time. ``is_retired``: it takes no more jobs."""

    name: str
    attempt: Attempt | None = None
    task: "Task[None] | None" = None
    is_retired: bool = False


@dataclass(slots=True)
class Leaks:
    """Handlers that went on after they were cancelled; ``tasks`` are those that still do."""

    count: int = 0
    tasks: "set[Task[None]]" = field(default_factory=set)
    has_worn_out: bool = False

    def add(self, task: "Task[None] | None", concurrency: int) -> None:
        self.count += 1
        if task is not None:
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        self.has_worn_out = self.has_worn_out or is_worn_out(len(self.tasks), concurrency)


@dataclass(slots=True, eq=False)
class Executor:
    """Runs the ready attempts of a flow, ``concurrency`` at a time."""

    _resources: Resources
    _flow: Flow
    facilities: Facilities
    slots: dict[str, Slot] = field(default_factory=dict)
    leaks: Leaks = field(default_factory=Leaks)
    _threads: Threads | None = None
    _idle: "deque[Future[None]]" = field(default_factory=deque)
    _is_waking: bool = False
    _watches: "set[Task[None]]" = field(default_factory=set)
    _is_closed: bool = False

    def submit(self, attempts: Iterable[Attempt]) -> None:
        """Run these in this order, each as soon as a slot is free."""
        self._flow.ready.extend(attempts)
        self._wake_slot()

    def cancel(self, attempt: Attempt, reason: CancelReason) -> None:
        """Cut the attempt short, or do not start it. An attempt that has ended stays as it is."""
        if not attempt.can_be_cancelled:
            return
        attempt.cancel_reason = reason
        if attempt.context is not None:
            attempt.context.cancel_reason = reason
        if reason is CancelReason.LOST:
            self._resources.events.emit(lease_lost(attempt, NOT_HELD))
        if attempt.stage is Stage.WAITING:
            with suppress(ValueError):  # it may not have been submitted yet
                self._flow.ready.remove(attempt)
            self._abandon(attempt)
        else:
            self._interrupt(attempt)

    def cancel_all(self, reason: CancelReason) -> None:
        """Cut short everything that runs."""
        for slot in list(self.slots.values()):
            if slot.attempt is not None:
                self.cancel(slot.attempt, reason)

    def hand_back_ready(self) -> None:
        """Hand back what has not started."""
        now = self._resources.clock.now()
        while self._flow.ready:
            self._flow.end(self._flow.ready.popleft(), HANDED_BACK, now)

    def abandon_cancelled(self) -> None:
        """Stop waiting for handlers that were cancelled and still go on."""
        for slot in list(self.slots.values()):
            if slot.attempt is not None and slot.attempt.cancel_reason is not None:
                self._leak(slot, slot.attempt)

    async def close(self) -> None:
        """End the slots; leaked handlers are not waited for."""
        self._is_closed = True
        if self._threads is not None:
            self._threads.close()
        tasks = [slot.task for slot in self.slots.values() if slot.task is not None]
        for task in (*tasks, *self._watches, *self.leaks.tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self.leaks.tasks:
            await _disown(self.leaks.tasks)

    async def _serve(self, slot: Slot) -> None:
        """The life of a slot: run what is ready, rest when nothing is."""
        clock, ready = self._resources.clock, self._flow.ready
        self._is_waking = False
        breathed_at = now = clock.now()
        job_count = 0
        try:
            while not (slot.is_retired or self._is_closed):
                if not ready:
                    await self._rest()
                elif now - breathed_at > BREATH_AFTER or job_count >= BREATH_COUNT:
                    await turn()
                else:
                    now = await self._run(slot, ready.popleft(), now)
                    job_count += 1
                    continue
                breathed_at = now = clock.now()
                job_count = 0
        finally:
            self.slots.pop(slot.name, None)

    async def _run(self, slot: Slot, attempt: Attempt, now: datetime) -> datetime:
        """Run one attempt in the slot: gate, handler, call, classify; return when it ended."""
        flow, job, result = self._flow, attempt.job, HANDED_BACK
        if flow.ready:
            self._wake_slot()
        attempt.stage, attempt.started_at = Stage.RUNNING, now
        slot.attempt = attempt
        flow.running_count += 1
        try:
            handler = self._resources.handlers.get(job.kind)
            is_fresh = self._resources.gate.is_fresh(now) or await self._read_gates(attempt)
            if (held_back := self._judge(attempt, handler, is_fresh=is_fresh)) is not None:
                result = Result(held_back)
            elif handler is None:
                result = Result(Failed(f"No handler for type={job.kind}"), NO_HANDLER)
            else:
                context = attempt.context = Context(job, attempt.started_at, self.facilities)
                result = classify(await self._call(handler, attempt, context), handler.encode)
        except CancelledError as error:
            result = _classify_cancellation(slot, attempt, error)
        except BaseException as error:
            if _concerns_interpreter(error, slot):
                raise
            result = failed(error)
        finally:
            self._end(slot, attempt, result)
        return attempt.ended_at

    def _end(self, slot: Slot, attempt: Attempt, result: Result) -> None:
        """Free the slot, and pass the attempt on to the completer."""
        if self.facilities.progress is not None:
            self.facilities.progress.end(attempt.job.id)
        if attempt.is_interrupted and slot.task is not None:
            slot.task.uncancel()
        slot.attempt = None
        if attempt.stage is Stage.RUNNING:  # otherwise the slot was given up
            self._flow.running_count -= 1
            if attempt.is_interrupted:
                self._abandon(attempt, result)
            else:
                self._flow.end(attempt, result, self._resources.clock.now())

    async def _read_gates(self, attempt: Attempt) -> bool:
        """Read the gates until they are fresh at the start of the attempt; see ``GateWatch``."""
        clock, gate = self._resources.clock, self._resources.gate
        with suppress(RotaError):  # then the job waits
            for _ in range(MOST_READS):
                await gate.make_fresh(clock)
                attempt.started_at = clock.now()
                if gate.is_fresh(attempt.started_at):
                    return True
        return False

    def _judge(
        self, attempt: Attempt, handler: Handler | None, *, is_fresh: bool
    ) -> Closed | Skipped | Interrupted | None:
        """Why the handler may not start now.

        Its lease has run out while the gates were read, its occurrence was missed, or a gate is
        closed.
        """
        gate, job = self._resources.gate, attempt.job
        if attempt.lease_until <= attempt.started_at:
            return Interrupted()
        if job.recurrence is not None and is_missed(job, attempt.started_at):
            return Skipped(MISSED)
        if not is_fresh:
            return Closed(attempt.started_at + REREAD_AFTER, UNREAD, is_recheck=True)
        if gate.is_open_to_all:
            return None
        notifies = handler.notifies if handler else self._resources.handlers.notifies(job.kind)
        verdict = gate.judge(job, attempt.started_at, notifies=notifies)
        return verdict if isinstance(verdict, Closed) else None

    def _call(self, handler: Handler, attempt: Attempt, context: Context) -> Awaitable[Any]:
        """What the handler returns. One that needs nothing around it is called directly."""
        resources = self._resources
        if resources.events.wants(JobStarted):
            resources.events.emit(job_started(attempt))
        if resources.settings.captures_logs:
            attempt.log = LogCapture(resources.clock)
            current_capture.set(attempt.log)
        if handler.timeout is not None or attempt.job.dependencies or resources.settings.middleware:
            return self._call_within(handler, attempt, context)
        if handler.is_async:
            return isolated(handler.work(context))
        return self._call_in_thread(handler, attempt, context)

    async def _call_within(self, handler: Handler, attempt: Attempt, context: Context) -> Any:
        """Prepare and call the handler, which is cancelled when it takes longer than allowed."""
        alarm = None
        if handler.timeout is not None:
            alarm = asyncio.create_task(self._cancel_after(handler.timeout, attempt))
        try:
            if handler.prepare is not None and attempt.job.dependencies:
                await handler.prepare(context, self._resources.store)
            return await isolated(self._call_inside(handler, attempt, context))
        finally:
            if alarm is not None:
                alarm.cancel()

    async def _call_inside(self, handler: Handler, attempt: Attempt, context: Context) -> Any:
        """Call the handler with the middleware around it, in the same context variables."""

        async def call() -> Any:
            if handler.is_async:
                return await handler.work(context)
            return await self._call_in_thread(handler, attempt, context)

        outermost: CallNext = call
        for each in reversed(self._resources.settings.middleware):
            outermost = partial(each, context, outermost)
        return await outermost()

    async def _cancel_after(self, allowed_for: timedelta, attempt: Attempt) -> None:
        await self._resources.clock.sleep(allowed_for)
        attempt.cancel_detail = f"Timed out after {allowed_for.total_seconds():g} s"
        self.cancel(attempt, CancelReason.TIMED_OUT)

    async def _call_in_thread(self, handler: Handler, attempt: Attempt, context: Context) -> Any:
        """The thread's result. A thread cannot be interrupted: a cancelled call waits for it.

        The wait ends when the slot is given up.
        """
        self._threads = self._threads or Threads()
        future = self._threads.call(handler.work, context)
        with in_flight():
            while not future.done():
                await _wait_for_thread(future, attempt)
        try:
            result = future.result()
        except KeyboardInterrupt as error:  # the task's own: signals reach the main thread only
            raise RuntimeError("The task raised KeyboardInterrupt") from error
        return await result if inspect.isawaitable(result) else result

    def _abandon(self, attempt: Attempt, result: Result = HANDED_BACK) -> None:
        """The attempt was cut short: what is written depends on the reason.

        ``result`` shows where the handler was.
        """
        now = self._resources.clock.now()
        if attempt.cancel_reason is CancelReason.LOST:
            self._flow.drop(attempt, now)
        elif attempt.cancel_reason is CancelReason.TIMED_OUT:
            where = result.outcome.traceback if isinstance(result.outcome, Failed) else None
            failed = Failed(attempt.cancel_detail, traceback=where)
            self._flow.end(attempt, Result(failed, TIMED_OUT), now)
        else:
            self._flow.end(attempt, HANDED_BACK, now)

    def _interrupt(self, attempt: Attempt) -> None:
        """Cancel the slot of a running attempt; give it up if the handler goes on."""
        slot = next((it for it in self.slots.values() if it.attempt is attempt), None)
        if slot is None or slot.task is None:
            return
        attempt.is_interrupted = True
        slot.task.cancel()
        watch = asyncio.create_task(self._give_up_later(slot, attempt))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _give_up_later(self, slot: Slot, attempt: Attempt) -> None:
        await self._resources.clock.sleep(CANCEL_GRACE)
        if slot.attempt is attempt:
            self._leak(slot, attempt)

    def _leak(self, slot: Slot, attempt: Attempt) -> None:
        """The handler will not end: give up the slot, and let another one take its place."""
        if slot.is_retired:
            return
        slot.is_retired = True
        self.slots.pop(slot.name, None)
        self._flow.running_count -= 1
        self.leaks.add(slot.task, self._resources.settings.concurrency)
        self._resources.events.emit(handler_leaked(attempt, self.leaks.count))
        self._abandon(attempt)
        self._flow.alarm.set()
        self._wake_slot()

    def _wake_slot(self) -> None:
        """Wake or make one slot, unless one is on its way; it wakes the next."""
        if self._is_waking or self._is_closed or not self._flow.ready:
            return
        while self._idle:
            rest = self._idle.popleft()
            if not rest.done():
                rest.set_result(None)
                self._is_waking = True
                return
        if len(self.slots) < self._resources.settings.concurrency:
            self._is_waking = True
            slot = Slot(f"rota slot {next(_numbers)}")
            self.slots[slot.name] = slot
            slot.task = asyncio.create_task(self._serve(slot), name=slot.name)

    async def _rest(self) -> None:
        rest: Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(rest)
        try:
            await rest
        finally:
            self._is_waking = False


@coroutine
def isolated(work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """``await`` this to run ``work`` in a copy of the current context, without a new task.

    A slot lives long and runs many jobs: a context variable that a handler sets must not reach the
    next one.
    """
    run = copy_context().run
    try:
        waits_for = run(work.send, None)
        while True:
            try:
                answer = yield waits_for
            except GeneratorExit:
                run(work.close)
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine's to deal with
                waits_for = run(work.throw, error)
            else:
                waits_for = run(work.send, answer)
    except StopIteration as end:
        return end.value


async def _wait_for_thread(future: "Future[Any]", attempt: Attempt) -> None:
    try:
        await asyncio.wait({future})
    except CancelledError:
        if not attempt.is_interrupted or attempt.stage is not Stage.RUNNING:
            raise


def _classify_cancellation(slot: Slot, attempt: Attempt, error: CancelledError) -> Result:
    task = slot.task
    if attempt.is_interrupted or task is None or not task.cancelling():
        return failed(error)
    slot.is_retired = True  # the event loop is being shut down: the slot ends, not the job
    return HANDED_BACK


def _concerns_interpreter(error: BaseException, slot: Slot) -> bool:
    if isinstance(error, GeneratorExit):
        return not is_current(slot.task)
    return isinstance(error, KeyboardInterrupt)


async def _disown(leaked: Iterable["Task[None]"]) -> None:
    """Let the event loop be closed although these coroutines will not be cancelled.

    Closing a loop cancels all its tasks and waits for them, which would never end.
    """
    await turn()
    await turn()  # those that react to a second cancellation have ended now
    for task in leaked:
        asyncio._unregister_task(task)  # noqa: SLF001 - documented, for makers of tasks
        # The leak was emitted already; asyncio need not log it once more.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - all tasks have it
