"""The scheduler's loop: find due tasks, claim and start them, write results, wait.

One coroutine does all the writing, turn by turn. What ends or comes due during a write goes into
the next one, so a busy minute costs a few large commits.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.clock.protocol import Clock
from rota.errors import StopSchedulerError, StoreError, describe_error
from rota.events import (
    ClockMovedBack,
    EventEmitter,
    PollCompleted,
    PollDelayed,
    PollStarted,
    TaskRunCompleted,
    TaskRunFailed,
)
from rota.fleet.outage import Backoff, Outage
from rota.scheduler.due_heap import DueHeap, Task
from rota.scheduler.history import TaskRun, cut_error
from rota.scheduler.orders import Orders
from rota.scheduler.ownership import Ownership
from rota.scheduler.policy import SchedulerContext
from rota.scheduler.runs import Run, Runs
from rota.scheduler.task import (
    Start,
    StartReason,
    TaskState,
    begin_attempt,
    decide_start,
    reconfigure,
    record_failure,
    record_success,
)

MILLISECOND = timedelta(milliseconds=1)
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=30)
NOTEWORTHY_DELAY = timedelta(seconds=5)
LAST_TRIES = 3
"""How often the last results are written to a failing store before ``stop()`` gives up."""

logger = logging.getLogger("rota.scheduler")


class Claim(NamedTuple):
    """A task about to start, and why."""

    task: Task
    start: Start


class TaskLoop:
    """Runs the tasks of a due heap until it is asked to stop."""

    def __init__(self, context: SchedulerContext, heap: DueHeap, ownership: Ownership) -> None:
        self.runs = Runs(context)
        self.orders = Orders(context.store, heap)
        self.turn = asyncio.Lock()
        self._context = context
        self._heap = heap
        self._ownership = ownership
        self._alarm = Alarm(context.clock)
        self._pause = StorePause(context.events)
        self._waited_until: datetime | None = None
        self._polled_at: datetime | None = None

    def request_stop(self) -> None:
        """Start nothing more; ``run`` returns when all runs have ended and are written."""
        self.runs.is_stopping = True
        self.wake()

    def wake(self) -> None:
        """Something changed: take a turn now."""
        self._alarm.ring()

    async def run(self) -> None:
        try:
            while self.runs or not self.runs.is_stopping:
                await self._try_turn()
                await self._wait()
            await self._write_last_results()
        finally:
            self._alarm.cancel()

    async def _try_turn(self) -> None:
        now = self._context.clock.now()
        if self._pause.lasts_at(now):
            return
        try:
            async with self.turn:
                await self._take_turn(now)
        except StoreError as error:
            self._pause.begin(error, self._context.clock.now())
        except Exception as error:
            logger.exception("A turn of the scheduler failed; it is tried again")
            self._pause.begin(error, self._context.clock.now())
        else:
            self._pause.end()

    async def _wait(self) -> None:
        if self.runs.is_stopping:
            self._waited_until = None
            if not self.runs:
                return
        elif self._pause.until is not None:
            self._waited_until = self._pause.until
            await self._alarm.wait_for(self._pause.left_at(self._context.clock.now()))
            return
        else:
            self._waited_until = self._next_turn_at()
        await self._alarm.wait_until(self._waited_until)

    def _next_turn_at(self) -> datetime | None:
        due_at = self._heap.next_due_at
        check_at = self._ownership.next_check_at(self._context.settings.peers_checked_every)
        instants = (due_at, check_at, self._next_sign_at())
        return min((it for it in instants if it is not None), default=None)

    def _next_sign_at(self) -> datetime | None:
        """When a poll is to be reported even if no task is due."""
        every = self._context.settings.poll_at_least_every
        if every is None or self._polled_at is None or not self._heap.tasks:
            return None
        return self._polled_at + every

    def _is_sign_due(self, now: datetime) -> bool:
        every = self._context.settings.poll_at_least_every
        if every is None or not self._heap.tasks or self.runs.is_stopping:
            return False
        polled_at = self._polled_at
        return polled_at is None or not polled_at <= now < polled_at + every

    async def _take_turn(self, now: datetime) -> None:
        self._emit_delay(now)
        self._heap.advance(now)
        self._ownership.check_elsewhere(now, self._context.settings.peers_checked_every)
        evaluated_count, started_count = 0, 0
        is_reported = self._is_sign_due(now)
        if is_reported:
            self._emit_poll_started(now)
        while True:
            if await self._ownership.catch_up():
                self.orders.expect()
            await self.orders.catch_up()
            claims, evaluated = self._choose(self._context.clock.now())
            if evaluated and not is_reported:
                is_reported = True
                self._emit_poll_started(now)
            evaluated_count += evaluated
            if not claims and not self._ownership.unsaved:
                break
            started_count += await self._write(claims)
        await self.runs.history.save()
        if is_reported:
            self._polled_at = now
            self._emit_poll_completed(now, evaluated_count, started_count)

    def _choose(self, now: datetime) -> tuple[list[Claim], int]:
        """The next tasks to start, within one write and the limit; and how many were evaluated."""
        claims: list[Claim] = []
        evaluated = 0
        room = self._count_free_places()
        while len(claims) < room and (task := self._heap.take()) is not None:
            evaluated += 1
            start = _decide(task, now)
            if start is not None:
                claims.append(Claim(task, start))
            elif task.state.running:
                self._ownership.watch(task, now)
        return claims, evaluated

    def _count_free_places(self) -> int:
        if self.runs.is_stopping:
            return 0
        settings = self._context.settings
        if settings.max_concurrent_runs is None:
            return settings.claim_batch
        return min(settings.claim_batch, settings.max_concurrent_runs - len(self.runs))

    async def _write(self, claims: Sequence[Claim]) -> int:
        """Write claims and results at once, then start what was claimed; returns how many."""
        now, identifier = self._context.clock.now(), self._ownership.identifier
        names = {claim.task.name for claim in claims}  # a claim includes the task's last result
        ended = [task for name, task in self._ownership.unsaved.items() if name not in names]
        results = [task.state for task in ended]
        states = [
            # If the clock is set back meanwhile, the occurrence must still count as answered.
            begin_attempt(task.state, max(now, start.scheduled_at), identifier, start.reason.value)
            for task, start in claims
        ]
        tasks = [claim.task for claim in claims] + ended
        written = await self._ownership.save(tasks, states + results)
        self._note_saved(ended, results, written[len(claims) :])
        return self._start(claims, states, written)

    def _note_saved(
        self, ended: Sequence[Task], results: Sequence[TaskState], written: Sequence[bool]
    ) -> None:
        for task, state, is_written in zip(ended, results, written, strict=True):
            if is_written and task.state is state:  # otherwise it changed and is written again
                self._ownership.unsaved.pop(task.name, None)

    def _start(
        self, claims: Sequence[Claim], states: Sequence[TaskState], written: Sequence[bool]
    ) -> int:
        started_count = 0
        for claim, state, is_written in zip(claims, states, written, strict=False):
            task = claim.task
            if not is_written:
                continue
            self._ownership.unsaved.pop(task.name, None)
            if self.runs.is_stopping:
                self._undo_claim(task)
                continue
            task.is_interrupted = task.is_requested = False
            before, task.state = task.state, state
            self._note_interrupted(claim, before)
            self.runs.begin(task, self._execute(claim, before, asyncio.current_task()))
            started_count += 1
        return started_count

    def _note_interrupted(self, claim: Claim, before: TaskState) -> None:
        """The run of a dead instance enters the history when the task starts again."""
        started_at = before.last_attempt_at
        if claim.start.reason is StartReason.INTERRUPTED and started_at is not None:
            run = TaskRun(
                scheduled_at=started_at,
                started_at=started_at,
                outcome="interrupted",
                reason=before.last_reason or "",
            )
            self.runs.history.note(claim.task.name, run)

    async def _execute(
        self, claim: Claim, before: TaskState, host: asyncio.Task[Any] | None
    ) -> None:
        """One run, from its claim to its result, unless a stop comes first."""
        task, start = claim
        if self.runs.is_stopping:
            claimed = task.state
            task.state = reconfigure(before, claimed.cron_expression, claimed.retry_delay_ms)
            self.runs.release(task)
            self._undo_claim(task)
        else:
            self._take_result(await self.runs.call(task, start, host))

    def _undo_claim(self, task: Task) -> None:
        """A stop came between the claim and the start: write the state from before the claim."""
        self._ownership.unsaved[task.name] = task
        self.wake()

    def _take_result(self, run: Run) -> None:
        """Apply and emit the result of a run now; the next turn writes it."""
        task, now = run.task, self._context.clock.now()
        record = record_success if run.error is None else record_failure
        task.state = record(task.state, now)
        self._emit_result(run, now)
        self._note_run(run, now)
        self._ownership.unsaved[task.name] = task
        if run.error is not None or _is_overtaken(task):
            self._heap.reconsider(task)
        self.wake()

    def _emit_result(self, run: Run, now: datetime) -> None:
        events, name = self._context.events, run.task.name
        duration = (now - run.started_at) / MILLISECOND
        if run.error is not None:
            events.emit(
                TaskRunFailed(
                    task_name=name,
                    duration=duration,
                    error=describe_error(run.error),
                    next_retry_at=run.task.state.retry_due_at or now,
                )
            )
        elif events.wants(TaskRunCompleted):
            events.emit(TaskRunCompleted(task_name=name, duration=duration))

    def _note_run(self, run: Run, now: datetime) -> None:
        noted = TaskRun(
            scheduled_at=run.start.scheduled_at,
            started_at=run.started_at,
            ended_at=now,
            outcome="succeeded" if run.error is None else "failed",
            reason=run.start.reason.value,
            error=None if run.error is None else cut_error(describe_error(run.error)),
        )
        self.runs.history.note(run.task.name, noted)

    async def _write_last_results(self) -> None:
        """Nothing runs any more: write the last results, or raise StopSchedulerError."""
        for tries_left in reversed(range(LAST_TRIES)):
            try:
                await self._write_unsaved()
            except Exception as error:
                if not tries_left:
                    raise StopSchedulerError(error) from error
            else:
                return

    async def _write_unsaved(self) -> None:
        async with self.turn:
            while self._ownership.unsaved:
                await self._ownership.catch_up()
                await self._write(())
            await self.runs.history.save_all()

    def _emit_delay(self, now: datetime) -> None:
        """Report that the host slept, its clock was set, or the event loop was blocked."""
        due_at, self._waited_until = self._waited_until, None
        events, advanced_to = self._context.events, self._heap.advanced_to
        if due_at is not None and now - due_at > NOTEWORTHY_DELAY:
            events.emit(PollDelayed(by=(now - due_at) / MILLISECOND, now=now))
        if advanced_to is not None and now < advanced_to:
            events.emit(ClockMovedBack(by=(now - advanced_to) / MILLISECOND, now=now))

    def _emit_poll_started(self, now: datetime) -> None:
        if self._context.events.wants(PollStarted):
            self._context.events.emit(
                PollStarted(poll_time=now, scheduled_task_count=len(self._heap.tasks))
            )

    def _emit_poll_completed(self, poll_at: datetime, evaluated: int, started: int) -> None:
        if self._context.events.wants(PollCompleted):
            self._context.events.emit(
                PollCompleted(
                    poll_time=poll_at,
                    tasks_evaluated=evaluated,
                    tasks_executed=started,
                    duration=(self._context.clock.now() - poll_at) / MILLISECOND,
                )
            )


def _decide(task: Task, now: datetime) -> Start | None:
    state = task.state
    if task.is_requested and (not state.running or task.is_interrupted):
        return Start(StartReason.REQUESTED, now, preempts=state.pending_retry_until)
    pause, last_due_at = task.pause, task.schedule.last_due_at
    if pause is not None and pause.is_active:
        return None
    if pause is not None and pause.skips(last_due_at):
        last_due_at = None
    return decide_start(state, last_due_at, now, is_interrupted=task.is_interrupted)


def _is_overtaken(task: Task) -> bool:
    """Whether an occurrence or a request came while the task was running."""
    last_due_at, attempt_at = task.schedule.last_due_at, task.state.last_attempt_at
    is_missed = attempt_at is None or (last_due_at is not None and last_due_at > attempt_at)
    return is_missed or task.is_requested


class StorePause:
    """The pause before a failing store is tried again, as instants of the scheduler's clock."""

    def __init__(self, events: EventEmitter) -> None:
        self.until: datetime | None = None
        self._outage = Outage(events)
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._length = FIRST_PAUSE

    def lasts_at(self, now: datetime) -> bool:
        """Whether it is too early to try again. A clock set back does not prolong the pause."""
        return self.until is not None and self.until - self._length <= now < self.until

    def left_at(self, now: datetime) -> timedelta:
        """How long to wait before the next try; never longer than the pause."""
        return timedelta() if self.until is None else min(self.until - now, self._length)

    def begin(self, error: Exception, now: datetime) -> None:
        self._outage.begin(self, error)
        self._length = self._backoff.take()
        self.until = now + self._length

    def end(self) -> None:
        self.until = None
        self._backoff.reset()
        self._outage.end(self)


class Alarm:
    """Wakes one waiter. A ring while nothing waits is kept for the next wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        self._set_for: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def ring(self) -> None:
        self._rung.set()

    async def wait_until(self, instant: datetime | None) -> None:
        """Return at ``instant`` or after ``ring``. None waits for a ring alone."""
        self._set(instant)
        await self._rung.wait()
        self._rung.clear()

    async def wait_for(self, duration: timedelta) -> None:
        """Return after ``duration``, even if the clock is set, or after ``ring``."""
        self._set(None)
        self._timer = asyncio.create_task(self._ring_after(duration))
        await self._rung.wait()
        self._rung.clear()

    def cancel(self) -> None:
        self._set(None)

    def _set(self, instant: datetime | None) -> None:
        is_running = self._timer is not None and not self._timer.done()
        if is_running and instant is not None and instant == self._set_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._set_for = instant
        self._timer = None if instant is None else asyncio.create_task(self._ring_at(instant))

    async def _ring_after(self, duration: timedelta) -> None:
        await self._clock.sleep(duration)
        self._rung.set()

    async def _ring_at(self, instant: datetime) -> None:
        await self._clock.sleep_until(instant)
        self._rung.set()
