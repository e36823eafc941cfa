"""The scheduler at work: look what is due, claim it, start it, write down how it ended, rest.

One coroutine does all the writing, turn by turn. Whatever ends or falls due while a write is under
way goes into the next one, so a busy minute costs a few large commits and a quiet one a small one.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.errors import StopSchedulerError, StoreError, describe_error
from rota.events import (
    ClockMovedBack,
    EventEmitter,
    PollCompleted,
    PollDelayed,
    PollStarted,
    StoreFailed,
    StoreRecovered,
    TaskRunCompleted,
    TaskRunFailed,
)
from rota.scheduler.keeping.ledger import TaskLedger
from rota.scheduler.running.agenda import Agenda, Task
from rota.scheduler.running.alarm import Alarm
from rota.scheduler.running.custody import Custody
from rota.scheduler.running.runs import Run, Runs
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.evaluate import Start, StartReason, decide_start
from rota.scheduler.tasks.state import (
    TaskState,
    begin_attempt,
    record_failure,
    record_success,
)

MILLISECOND = timedelta(milliseconds=1)
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(seconds=30)
NOTEWORTHY_DELAY = timedelta(seconds=5)
LAST_TRIES = 3
"""How often the last results are offered to a failing store before ``stop()`` gives up."""

logger = logging.getLogger("rota.scheduler")


class Claim(NamedTuple):
    """A task about to be started, and why."""

    task: Task
    start: Start


class TaskLoop:
    """Runs the tasks of an agenda until it is asked to stop."""

    def __init__(
        self, surroundings: Surroundings, identifier: str, agenda: Agenda, custody: Custody
    ) -> None:
        self.runs = Runs(surroundings, self._take_result, self._take_back)
        self.turn = asyncio.Lock()
        self._clock = surroundings.clock
        self._journal = surroundings.journal
        self._settings = surroundings.settings
        self._ledger = TaskLedger(surroundings.store)
        self._identifier = identifier
        self._agenda = agenda
        self._custody = custody
        self._alarm = Alarm(surroundings.clock)
        self._outage = Outage(surroundings.journal)
        self._is_stopping = False
        self._rested_until: datetime | None = None

    def request_stop(self) -> None:
        """Start nothing more; ``run`` returns when what is running has ended and is written."""
        self._is_stopping = self.runs.is_stopping = True
        self.wake()

    def wake(self) -> None:
        """Something changed: look again now."""
        self._alarm.ring()

    async def run(self) -> None:
        try:
            while self.runs or not self._is_stopping:
                await self._try_turn()
                await self._rest()
            await self._write_the_last()
        finally:
            self._alarm.cancel()

    async def _try_turn(self) -> None:
        now = self._clock.now()
        if self._outage.lasts_at(now):
            return
        try:
            async with self.turn:
                await self._take_turn(now)
        except StoreError as error:
            self._outage.begin(error, self._clock.now())
        except Exception as error:
            logger.exception("A turn of the scheduler failed; it is tried again")
            self._outage.begin(error, self._clock.now())
        else:
            self._outage.end()

    async def _rest(self) -> None:
        if self._is_stopping:
            self._rested_until = None
            if not self.runs:
                return
        elif self._outage.until is not None:
            self._rested_until = self._outage.until
            await self._alarm.rest_for(self._outage.left_at(self._clock.now()))
            return
        else:
            self._rested_until = self._next_look_at()
        await self._alarm.rest_until(self._rested_until)

    def _next_look_at(self) -> datetime | None:
        ahead = self._agenda.next_look_at
        elsewhere = self._custody.next_look_at(self._settings.peers_checked_every)
        return min((it for it in (ahead, elsewhere) if it is not None), default=None)

    async def _take_turn(self, now: datetime) -> None:
        self._tell_delay(now)
        self._agenda.advance(now)
        self._custody.look_elsewhere(now, self._settings.peers_checked_every)
        looked_at, started = 0, 0
        while True:
            await self._custody.catch_up()
            claims, evaluated = self._choose(self._clock.now())
            if evaluated and not looked_at:
                self._tell_poll_started(now)
            looked_at += evaluated
            if not claims and not self._custody.unsaved:
                break
            started += await self._write(claims)
        if looked_at:
            self._tell_poll_completed(now, looked_at, started)

    def _choose(self, now: datetime) -> tuple[list[Claim], int]:
        """The next tasks to start, as many as fit into one write and under the limit."""
        claims: list[Claim] = []
        looked_at = 0
        room = self._room()
        while len(claims) < room and (task := self._agenda.take()) is not None:
            looked_at += 1
            start = _decide(task, now)
            if start is not None:
                claims.append(Claim(task, start))
            elif task.state.running:
                self._custody.watch(task, now)
        return claims, looked_at

    def _room(self) -> int:
        if self._is_stopping:
            return 0
        limit = self._settings.max_concurrent_runs
        batch = self._settings.claim_batch
        return batch if limit is None else min(batch, limit - len(self.runs))

    async def _write(self, claims: Sequence[Claim]) -> int:
        """Claim and settle in one write, start what was claimed; says how many were started."""
        now = self._clock.now()
        names = {claim.task.state.name for claim in claims}  # a claim carries the last result along
        settled = [task for name, task in self._custody.unsaved.items() if name not in names]
        ends = [task.state for task in settled]
        states = [
            # A clock that is set back meanwhile must not make the occurrence unanswered again.
            begin_attempt(
                task.state, max(now, start.scheduled_at), self._identifier, start.reason.value
            )
            for task, start in claims
        ]
        tasks = [claim.task for claim in claims] + settled
        try:
            written = await self._ledger.save(tasks, states + ends)
        except BaseException:
            self._custody.doubt(tasks)  # it may or may not have taken effect
            raise
        self._note_saved(settled, ends, written[len(claims) :])
        return self._start(claims, states, written)

    def _note_saved(
        self, settled: Sequence[Task], states: Sequence[TaskState], written: Sequence[bool]
    ) -> None:
        for task, state, is_written in zip(settled, states, written, strict=True):
            if not is_written:
                self._custody.doubt([task])
            elif task.state is state:  # otherwise it has changed since, and must be written again
                self._custody.unsaved.pop(state.name, None)

    def _start(
        self, claims: Sequence[Claim], states: Sequence[TaskState], written: Sequence[bool]
    ) -> int:
        started = 0
        for (task, start), state, is_written in zip(claims, states, written, strict=False):
            if not is_written:
                self._custody.doubt([task])
                continue
            self._custody.unsaved.pop(state.name, None)
            if self._is_stopping:
                self._take_back(task)
            else:
                task.is_interrupted = task.is_requested = False
                self.runs.begin(task, start, state)
                started += 1
        return started

    def _take_back(self, task: Task) -> None:
        """Stop came between the claim and the start: undo the claim as if it had not been made."""
        self._custody.unsaved[task.state.name] = task
        self.wake()

    def _take_result(self, run: Run) -> None:
        """A run has ended: what follows from it is known at once, and written in the next turn."""
        task, now = run.task, self._clock.now()
        name = task.state.name
        duration = (now - run.started_at) / MILLISECOND
        if run.error is None:
            task.state = record_success(task.state, now)
            self._journal.emit(TaskRunCompleted(task_name=name, duration=duration))
        else:
            task.state = record_failure(task.state, now)
            self._journal.emit(
                TaskRunFailed(
                    task_name=name,
                    duration=duration,
                    error=describe_error(run.error),
                    next_retry_at=task.state.retry_due_at or now,
                )
            )
        self._custody.unsaved[name] = task
        if run.error is not None or _is_overtaken(task):
            self._agenda.reconsider(task)
        self.wake()

    async def _write_the_last(self) -> None:
        """Nothing runs any more: bring the last results home, or say that it could not be done."""
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
            while self._custody.unsaved:
                await self._custody.catch_up()
                await self._write(())

    def _tell_delay(self, now: datetime) -> None:
        """Say so when the host slept, its clock was set, or the event loop was blocked."""
        due_at, self._rested_until = self._rested_until, None
        if due_at is not None and now - due_at > NOTEWORTHY_DELAY:
            self._journal.emit(PollDelayed(by=(now - due_at) / MILLISECOND, now=now))
        if self._agenda.looked_at is not None and now < self._agenda.looked_at:
            by = (now - self._agenda.looked_at) / MILLISECOND
            self._journal.emit(ClockMovedBack(by=by, now=now))

    def _tell_poll_started(self, now: datetime) -> None:
        if self._journal.wants(PollStarted):
            self._journal.emit(
                PollStarted(poll_time=now, scheduled_task_count=len(self._agenda.tasks))
            )

    def _tell_poll_completed(self, poll_at: datetime, looked_at: int, started: int) -> None:
        if self._journal.wants(PollCompleted):
            self._journal.emit(
                PollCompleted(
                    poll_time=poll_at,
                    tasks_evaluated=looked_at,
                    tasks_executed=started,
                    duration=(self._clock.now() - poll_at) / MILLISECOND,
                )
            )


class Outage:
    """A store that does not answer: asked again after growing pauses, reported once."""

    def __init__(self, journal: EventEmitter) -> None:
        self.until: datetime | None = None
        self._journal = journal
        self._pause = FIRST_PAUSE

    def lasts_at(self, now: datetime) -> bool:
        """Whether it is too early to try again; a clock set back does not prolong the pause."""
        return self.until is not None and self.until - self._pause <= now < self.until

    def left_at(self, now: datetime) -> timedelta:
        """How long to wait before the next try; never longer than the pause."""
        return timedelta() if self.until is None else min(self.until - now, self._pause)

    def begin(self, error: Exception, now: datetime) -> None:
        if self.until is None:
            self._journal.emit(StoreFailed(error=describe_error(error)))
        else:
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self.until = now + self._pause

    def end(self) -> None:
        if self.until is not None:
            self.until = None
            self._pause = FIRST_PAUSE
            self._journal.emit(StoreRecovered())


def _decide(task: Task, now: datetime) -> Start | None:
    state = task.state
    if task.is_requested and (not state.running or task.is_interrupted):
        return Start(StartReason.REQUESTED, now, preempts=state.pending_retry_until)
    last_due_at = task.schedule.last_due_at
    return decide_start(state, last_due_at, now, is_interrupted=task.is_interrupted)


def _is_overtaken(task: Task) -> bool:
    """Whether an occurrence, or a request, came while the task was running."""
    last_due_at, attempt_at = task.schedule.last_due_at, task.state.last_attempt_at
    is_missed = attempt_at is None or (last_due_at is not None and last_due_at > attempt_at)
    return is_missed or task.is_requested
