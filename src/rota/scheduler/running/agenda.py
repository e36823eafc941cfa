"""Which tasks to look at, and when to look again.

Tasks that share an expression share its next occurrence, so a million tasks on a thousand
expressions cost a thousand calculations, and nothing at all between two occurrences.
"""

import heapq
from collections import deque
from collections.abc import Iterable
from datetime import datetime, tzinfo
from itertools import count

from rota.errors import CronCalculationError
from rota.scheduler.tasks.registration import Callback
from rota.scheduler.tasks.state import TaskState
from rota.triggers.cron import Cron
from rota.triggers.zone import Fold


class Schedule:
    """One expression, the tasks on it, and the occurrences on either side of now."""

    __slots__ = ("cron", "last_due_at", "next_due_at", "tasks")

    def __init__(self, cron: Cron) -> None:
        self.cron = cron
        self.tasks: dict[str, Task] = {}
        self.last_due_at: datetime | None = None
        self.next_due_at: datetime | None = None

    def look(self, now: datetime, zone: tzinfo, fold: Fold) -> None:
        try:
            self.last_due_at = self.cron.previous_at(now, zone, fold=fold)
        except CronCalculationError:
            self.last_due_at = None
        try:
            self.next_due_at = self.cron.next_after(now, zone, fold=fold)
        except CronCalculationError:
            self.next_due_at = None


class Task:
    """A registered task at work: its stored state, the version it is stored at, and its callback.

    ``is_held``: a run of it is under way here. ``is_queued``: it waits to be looked at.
    ``is_interrupted``: it is claimed, but its runner is dead. ``is_requested``: by an operator.
    """

    __slots__ = (
        "callback",
        "is_held",
        "is_interrupted",
        "is_queued",
        "is_requested",
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

    def become(self, other: "Task") -> None:
        """Be what the other is, but for the run that is under way."""
        self.state = other.state
        self.version = other.version
        self.callback = other.callback
        self.schedule = other.schedule
        self.is_interrupted = other.is_interrupted


class Agenda:
    """The tasks of one scheduler in the order in which they want attention."""

    def __init__(self, zone: tzinfo, fold: Fold) -> None:
        self.tasks: dict[str, Task] = {}
        self._zone = zone
        self._fold = fold
        self._schedules: dict[str, Schedule] = {}  # by text: same meaning is not same text
        self._upcoming: list[tuple[datetime, int, Schedule]] = []
        self._retries: list[tuple[datetime, int, Task]] = []
        self._queue: deque[Task] = deque()
        self._order = count()  # breaks ties between equal instants, first come first
        self.looked_at: datetime | None = None

    def schedule_for(self, cron: Cron, now: datetime) -> Schedule:
        schedule = self._schedules.get(cron.text)
        if schedule is None:
            schedule = self._schedules[cron.text] = Schedule(cron)
            self._plan(schedule, now)
        return schedule

    def add(self, task: Task) -> None:
        """Take a task in, or back in after a change, and look at it soon."""
        self.tasks[task.state.name] = task
        task.schedule.tasks[task.state.name] = task
        self.reconsider(task)

    def remove(self, name: str) -> None:
        task = self.tasks.pop(name, None)
        if task is not None:
            self._detach(task)

    def move(self, task: Task, schedule: Schedule) -> None:
        """Put a task on another expression."""
        self._detach(task)
        task.schedule = schedule
        schedule.tasks[task.state.name] = task

    def reconsider(self, task: Task) -> None:
        """Look at a task at the next opportunity, and at its retry when that is due."""
        if not task.is_queued:
            task.is_queued = True
            self._queue.append(task)
        retry_at = task.state.retry_due_at
        if retry_at is not None:
            heapq.heappush(self._retries, (retry_at, next(self._order), task))

    def advance(self, now: datetime) -> None:
        """Queue every task that an occurrence or a retry up to ``now`` concerns."""
        if self.looked_at is not None and now < self.looked_at:
            self._replan(now)
        self.looked_at = now
        while self._upcoming and self._upcoming[0][0] <= now:
            schedule = heapq.heappop(self._upcoming)[2]
            if self._schedules.get(schedule.cron.text) is schedule:
                self._enqueue(schedule.tasks.values())
                self._plan(schedule, now)
        while self._retries and self._retries[0][0] <= now:
            self._enqueue((heapq.heappop(self._retries)[2],))

    def take(self) -> Task | None:
        """The next task to look at that is neither held nor gone; None when there is none."""
        while self._queue:
            task = self._queue.popleft()
            task.is_queued = False
            if not task.is_held and self.tasks.get(task.state.name) is task:
                return task
        return None

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    @property
    def next_look_at(self) -> datetime | None:
        """The earliest occurrence or retry ahead."""
        heads = [heap[0][0] for heap in (self._upcoming, self._retries) if heap]
        return min(heads, default=None)

    def _enqueue(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if not task.is_queued:
                task.is_queued = True
                self._queue.append(task)

    def _plan(self, schedule: Schedule, now: datetime) -> None:
        schedule.look(now, self._zone, self._fold)
        if schedule.next_due_at is not None:
            heapq.heappush(self._upcoming, (schedule.next_due_at, next(self._order), schedule))

    def _replan(self, now: datetime) -> None:
        """The clock was set back: what counted as past may be ahead again."""
        self._upcoming.clear()
        for schedule in self._schedules.values():
            self._plan(schedule, now)

    def _detach(self, task: Task) -> None:
        schedule = task.schedule
        schedule.tasks.pop(task.state.name, None)
        if not schedule.tasks:
            self._schedules.pop(schedule.cron.text, None)
