"""Callbacks at work: each in an asyncio task of its own, none in another's way."""

import asyncio
import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from rota.clock.timeout import timeout_after
from rota.events import TaskRetryPreempted, TaskRetryStarted, TaskRunStarted
from rota.scheduler.running.agenda import Task
from rota.scheduler.running.stalls import RUN_PREFIX, StallWatch
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.evaluate import Start, StartReason
from rota.scheduler.tasks.state import TaskState, reconfigure


class Run(NamedTuple):
    """A run that ended; ``error`` is whatever the callback raised."""

    task: Task
    started_at: datetime
    error: BaseException | None


class Runs:
    """Starts callbacks and reports how each ended to ``on_end``.

    Once ``is_stopping`` no callback is invoked any more; ``on_return`` is given the tasks whose
    runs had been decided, but not begun.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        on_end: Callable[[Run], None],
        on_return: Callable[[Task], None],
    ) -> None:
        self.is_stopping = False
        self._clock = surroundings.clock
        self._journal = surroundings.journal
        self._timeout: timedelta | None = surroundings.settings.run_timeout
        self._on_end = on_end
        self._on_return = on_return
        self._under_way: dict[asyncio.Task[None], Task] = {}
        self._stalls = StallWatch(surroundings)

    def __len__(self) -> int:
        return len(self._under_way)

    def contains(self, task: asyncio.Task[object] | None) -> bool:
        """Whether this asyncio task is one of the runs."""
        return task in self._under_way

    def held_tasks(self) -> dict[str, Task]:
        """The tasks that run now, by name; also those that are registered no more."""
        return {task.state.name: task for task in self._under_way.values()}

    def begin(self, task: Task, start: Start, claimed: TaskState) -> None:
        """Invoke the callback soon; the task is held until it has ended."""
        before, task.state = task.state, claimed
        task.is_held = True
        host = asyncio.current_task()
        run = asyncio.create_task(
            self._run_unless_stopping(task, start, before, host),
            name=RUN_PREFIX + task.state.name,
        )
        if not self._under_way:
            self._stalls.start()
        self._under_way[run] = task
        run.add_done_callback(self._forget)

    async def _run_unless_stopping(
        self, task: Task, start: Start, before: TaskState, host: asyncio.Task[Any] | None
    ) -> None:
        if not self.is_stopping:
            await self._run(task, start, host)
            return
        now = task.state
        task.state = reconfigure(before, now.cron_expression, now.retry_delay_ms)
        task.is_held = False
        self._forget(asyncio.current_task())
        self._on_return(task)

    async def _run(self, task: Task, start: Start, host: asyncio.Task[Any] | None) -> None:
        started_at = self._clock.now()
        # The claim was dated before it was written; what counts is when the callback is invoked.
        attempt_at = max(started_at, start.scheduled_at)
        task.state = msgspec.structs.replace(task.state, last_attempt_at=attempt_at)
        self._announce(task, start, started_at)
        error = await self._call(task, host)
        task.is_held = False
        # Whoever is told must not count this run any more, and callbacks of asyncio come later.
        self._forget(asyncio.current_task())
        self._on_end(Run(task, started_at, error))

    def _forget(self, run: asyncio.Task[Any] | None) -> None:
        if run is not None and self._under_way.pop(run, None) is not None and not self._under_way:
            self._stalls.stop()

    async def _call(self, task: Task, host: asyncio.Task[Any] | None) -> BaseException | None:
        """The one place where an exception of a callback becomes an outcome."""
        try:
            if self._timeout is None:
                await _invoke(task)
            else:
                async with timeout_after(self._clock, self._timeout):
                    await _invoke(task)
        except asyncio.CancelledError as error:
            if host is None or host.done() or host.cancelling():
                raise  # the scheduler is being killed: the run is interrupted, not failed
            return error
        except (GeneratorExit, KeyboardInterrupt):
            raise  # these speak to the interpreter, not of the task
        except BaseException as error:  # noqa: BLE001 - whatever a callback raises is a failure
            return error
        return None

    def _announce(self, task: Task, start: Start, started_at: datetime) -> None:
        tell, name = self._journal.emit, task.state.name
        is_retry = start.reason is StartReason.RETRY
        if start.preempts is not None:
            reason = f"superseded by the occurrence at {start.scheduled_at.isoformat()}"
            tell(TaskRetryPreempted(task_name=name, reason=reason))
        if is_retry:
            tell(TaskRetryStarted(task_name=name, retry_count=task.state.retry_count))
        tell(
            TaskRunStarted(
                task_name=name,
                scheduled_time=start.scheduled_at,
                actual_time=started_at,
                is_retry=is_retry,
            )
        )


async def _invoke(task: Task) -> None:
    outcome = task.callback()
    if inspect.isawaitable(outcome):
        await outcome
