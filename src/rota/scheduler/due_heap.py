"""The tasks of one scheduler, ordered by when they need attention.

Tasks that share an expression share its next occurrence. A million tasks on a thousand expressions
cost a thousand calculations, and nothing between two occurrences.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from datetime import datetime, tzinfo
from itertools import count

from rota.scheduler.registration import Callback
from rota.scheduler.task import TaskPause, TaskState
from rota.triggers.cron import Cron, CronTrigger
from rota.triggers.zone import Fold


class Schedule:
    """One expression, its tasks, and the occurrences before and after now."""

    __slots__ = ("cron", "last_due_at", "next_due_at", "tasks")

    def __init__(self, cron: Cron) -> None:
        self.cron = cron
        self.tasks: dict[str, Task] = {}
        self.last_due_at: datetime | None = None
        self.next_due_at: datetime | None = None

    def update(self, now: datetime, zone: tzinfo, fold: Fold) -> None:
        trigger = CronTrigger(self.cron, zone, fold=fold)
        self.last_due_at, self.next_due_at = trigger.previous_at(now), trigger.next_after(now)


class Task:
    """A registered task in memory: its state, the version of its record, and its callback.

    ``is_held``: it runs in this instance. ``is_queued``: it waits in the heap's queue.
    ``is_interrupted``: it is claimed by a dead instance. ``is_requested``: an operator wants a run.
    ``pause`` is the last pause that still matters.
    """

    __slots__ = (
        "callback",
        "is_held",
        "is_interrupted",
        "is_queued",
        "is_requested",
        "pause",
        "schedule",
        "state",
        "version",
    )

    def __init__(
        self, state: TaskState, version: int, callback: Callback, schedule: Schedule
    ) -> None:
        self.state = state
        self.version = version
        self.callback = callback
        self.schedule = schedule
        self.is_held = False
        self.is_interrupted = False
        self.is_queued = False
        self.is_requested = False
        self.pause: TaskPause | None = None

    @property
    def name(self) -> str:
        return self.state.name

    def become(self, other: "Task") -> None:
        """Take everything from the other task except the current run."""
        self.state = other.state
        self.version = other.version
        self.callback = other.callback
        self.schedule = other.schedule
        self.is_interrupted = other.is_interrupted


class DueHeap:
    """The tasks, with heaps of upcoming occurrences and retries and a queue of tasks to check."""

    def __init__(self, zone: tzinfo, fold: Fold) -> None:
        self.tasks: dict[str, Task] = {}
        self._zone = zone
        self._fold = fold
        self._schedules: dict[str, Schedule] = {}  # by text: equal schedules may differ in text
        self._upcoming: list[tuple[datetime, int, Schedule]] = []
        self._retries: list[tuple[datetime, int, Task]] = []
        self._queue: deque[Task] = deque()
        self._order = count()  # equal instants keep the order of insertion
        self.advanced_to: datetime | None = None

    def schedule_for(self, cron: Cron, now: datetime) -> Schedule:
        schedule = self._schedules.get(cron.text)
        if schedule is None:
            schedule = self._schedules[cron.text] = Schedule(cron)
            self._plan(schedule, now)
        return schedule

    def add(self, task: Task) -> None:
        """Add a task, or one that changed, and queue it."""
        name = task.state.name
        self.tasks[name] = task
        task.schedule.tasks[name] = task
        self.reconsider(task)

    def remove(self, name: str) -> None:
        task = self.tasks.pop(name, None)
        if task is not None:
            self._detach(task)

    def move(self, task: Task, schedule: Schedule) -> None:
        """Put a task on another expression."""
        self._detach(task)
        task.schedule = schedule
        schedule.tasks[task.name] = task

    def reconsider(self, task: Task) -> None:
        """Queue a task now, and again when its retry is due."""
        self._enqueue((task,))
        retry_at = task.state.retry_due_at
        if retry_at is not None:
            heapq.heappush(self._retries, (retry_at, next(self._order), task))

    def advance(self, now: datetime) -> None:
        """Queue every task with an occurrence or a retry up to ``now``."""
        if self.advanced_to is not None and now < self.advanced_to:
            self._replan(now)
        self.advanced_to = now
        while self._upcoming and self._upcoming[0][0] <= now:
            schedule = heapq.heappop(self._upcoming)[2]
            if self._schedules.get(schedule.cron.text) is schedule:
                self._enqueue(schedule.tasks.values())
                self._plan(schedule, now)
        while self._retries and self._retries[0][0] <= now:
            self._enqueue((heapq.heappop(self._retries)[2],))

    def take(self) -> Task | None:
        """The next queued task that is neither held nor removed."""
        while self._queue:
            task = self._queue.popleft()
            task.is_queued = False
            if not task.is_held and self.tasks.get(task.name) is task:
                return task
        return None

    @property
    def next_due_at(self) -> datetime | None:
        """The earliest occurrence or retry ahead."""
        heads = [heap[0][0] for heap in (self._upcoming, self._retries) if heap]
        return min(heads, default=None)

    def _enqueue(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if not task.is_queued:
                task.is_queued = True
                self._queue.append(task)

    def _plan(self, schedule: Schedule, now: datetime) -> None:
        schedule.update(now, self._zone, self._fold)
        if schedule.next_due_at is not None:
            heapq.heappush(self._upcoming, (schedule.next_due_at, next(self._order), schedule))

    def _replan(self, now: datetime) -> None:
        """The clock was set back: past occurrences may be ahead again."""
        self._upcoming.clear()
        for schedule in self._schedules.values():
            self._plan(schedule, now)

    def _detach(self, task: Task) -> None:
        schedule = task.schedule
        schedule.tasks.pop(task.name, None)
        if not schedule.tasks:
            self._schedules.pop(schedule.cron.text, None)
