"""The running callbacks, each in an asyncio task of its own."""

import asyncio
import inspect
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from rota.clock.loop import LoopWatch, Stall, is_current
from rota.clock.protocol import keeps_real_time
from rota.clock.system import timeout_after
from rota.events import TaskBlockedLoop, TaskRetryPreempted, TaskRetryStarted, TaskRunStarted
from rota.scheduler.due_heap import Task
from rota.scheduler.history import RunHistory
from rota.scheduler.policy import SchedulerContext
from rota.scheduler.task import Start, StartReason

RUN_PREFIX = "rota task "
"""The name of a run's asyncio task is this and the task's name."""

_MILLISECOND = timedelta(milliseconds=1)


class Run(NamedTuple):
    """A run that ended; ``error`` is the exception of the callback, if any."""

    task: Task
    start: Start
    started_at: datetime
    error: BaseException | None


class Runs:
    """The runs of one scheduler. While any is under way, blocked event loops are reported."""

    def __init__(self, context: SchedulerContext) -> None:
        self.is_stopping = False
        self.history = RunHistory(context.store, context.settings.kept_runs)
        self._context = context
        self._under_way: dict[asyncio.Task[None], Task] = {}
        limit = context.settings.stall_warning_after
        # A virtual clock cannot be held up.
        is_watched = limit is not None and keeps_real_time(context.clock)
        self._watch = LoopWatch(self._report, limit=limit) if limit and is_watched else None

    def __len__(self) -> int:
        return len(self._under_way)

    def contains(self, task: asyncio.Task[object] | None) -> bool:
        """Whether this asyncio task is one of the runs."""
        return task in self._under_way

    def held_tasks(self) -> dict[str, Task]:
        """The running tasks by name, including those that are no longer registered."""
        return {task.name: task for task in self._under_way.values()}

    def begin(self, task: Task, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in an asyncio task. The task is held until ``release``."""
        task.is_held = True
        run = asyncio.create_task(work, name=RUN_PREFIX + task.name)
        if self._watch is not None and not self._under_way:
            self._watch.start()
        self._under_way[run] = task
        run.add_done_callback(self._forget)

    def release(self, task: Task) -> None:
        """The current asyncio task no longer counts as a run of the task."""
        task.is_held = False
        self._forget(asyncio.current_task())

    async def call(self, task: Task, start: Start, host: asyncio.Task[Any] | None) -> Run:
        """Call the callback and release the task. ``host`` is the scheduler's own asyncio task."""
        started_at = self._context.clock.now()
        # The claim was dated before it was written; the start of the callback counts.
        attempt_at = max(started_at, start.scheduled_at)
        task.state = msgspec.structs.replace(task.state, last_attempt_at=attempt_at)
        self._emit_start(task, start, started_at)
        error = await self._find_error(task, host)
        self.release(task)
        return Run(task, start, started_at, error)

    async def _find_error(self, task: Task, host: asyncio.Task[Any] | None) -> BaseException | None:
        """Call the callback; its exception becomes a result here and nowhere else."""
        timeout, own = self._context.settings.run_timeout, asyncio.current_task()
        try:
            if timeout is None:
                await _invoke(task)
            else:
                async with timeout_after(self._context.clock, timeout):
                    await _invoke(task)
        except asyncio.CancelledError as error:
            if host is None or host.done() or host.cancelling():
                raise  # the scheduler is being killed: the run is interrupted, not failed
            return error
        except KeyboardInterrupt:
            raise  # it is for the interpreter, not for the task
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not is_current(own):
                raise
            return error
        return None

    def _emit_start(self, task: Task, start: Start, started_at: datetime) -> None:
        emit = self._context.events.emit
        is_retry = start.reason is StartReason.RETRY
        if start.preempts is not None:
            reason = f"superseded by the occurrence at {start.scheduled_at.isoformat()}"
            emit(TaskRetryPreempted(task_name=task.name, reason=reason))
        if is_retry:
            emit(TaskRetryStarted(task_name=task.name, retry_count=task.state.retry_count))
        if self._context.events.wants(TaskRunStarted):
            emit(
                TaskRunStarted(
                    task_name=task.name,
                    scheduled_time=start.scheduled_at,
                    actual_time=started_at,
                    is_retry=is_retry,
                )
            )

    def _forget(self, run: asyncio.Task[Any] | None) -> None:
        was_run = run is not None and self._under_way.pop(run, None) is not None
        if was_run and not self._under_way and self._watch is not None:
            self._watch.stop()

    def _report(self, stall: Stall) -> None:
        if stall.task_name is not None and stall.task_name.startswith(RUN_PREFIX):
            self._context.events.emit(
                TaskBlockedLoop(
                    task_name=stall.task_name.removeprefix(RUN_PREFIX),
                    duration=stall.blocked_for / _MILLISECOND,
                    location=stall.where,
                )
            )


async def _invoke(task: Task) -> None:
    outcome = task.callback()
    if inspect.isawaitable(outcome):
        await outcome
