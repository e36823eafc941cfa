"""What the judge remembers while reading a trace, and the question of lateness (L1)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tests.verification.trace.actions import Entry, InitializeCalled, TaskFacts
from tests.verification.trace.editions import Allowance, Edition, Tolerance
from tests.verification.trace.judge.pulses import Pulses
from tests.verification.trace.judge.timeline import Flow, Timeline
from tests.verification.trace.judge.worlds import UNKNOWN, Worlds, owed_from
from tests.verification.trace.report import Axiom, Violation, show


@dataclass(slots=True)
class OpenInitialize:
    """An ``initialize`` that has not ended."""

    called: InitializeCalled
    position: int
    flow: Flow
    flaw: str | None
    is_refusable: bool
    """Something else was being initialized, active or stopping while this call was open."""
    tasks: dict[str, TaskFacts]
    shown_since: list[datetime] = field(default_factory=list)
    """What the clock showed where it was set back meanwhile."""
    deserted_at: Flow | None = None
    """When a stop returned that should have waited for it."""


@dataclass(slots=True)
class OpenStop:
    """A ``stop`` that has not returned; ``quiet_from`` is set once nothing holds it up."""

    position: int
    flow: Flow
    awaited_calls: frozenset[int]
    quiet_from: Flow | None = None


@dataclass(slots=True)
class Life:
    """One instance of the scheduler, as seen from outside."""

    tasks: dict[str, TaskFacts] = field(default_factory=dict)
    is_active: bool = False
    is_occupied: bool = False
    """An ``initialize`` has succeeded, and no stop returned since."""
    called_position: int = -1
    """Where the initialize was called whose list it has."""
    is_failing: bool = False
    """Its store failed while a new list was taken over: it stops by itself, unseen."""
    ended_by: Literal["crash", "stop"] | None = None
    initializes: dict[int, OpenInitialize] = field(default_factory=dict)
    stops: dict[int, OpenStop] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    cut_calls: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Run:
    instance: str
    position: int


@dataclass(slots=True)
class Task:
    """One name: its worlds, its run, and from when on a start of it could be late."""

    name: str
    worlds: Worlds = frozenset({UNKNOWN})
    run: Run | None = None
    free_from: Flow = timedelta()
    started_at: datetime | None = None
    started_by: str = ""
    ended_at: Flow | None = None
    ended_by: str = ""
    end_position: int = -1
    cut_in: str | None = None
    """The instance whose crash cut its last run off."""

    def was_running_since(self, position: int) -> bool:
        """Whether it runs, or a run of it ended after this position."""
        return self.run is not None or self.end_position > position


@dataclass(frozen=True, slots=True)
class Duty:
    """A start due since a moment; the allowance grows with the number of tasks."""

    axiom: Axiom
    since: Flow
    task_count: int
    words: str
    task: str | None = None


@dataclass(slots=True)
class Case:
    """The state of the theory at one position of one trace."""

    edition: Edition
    tolerance: Tolerance
    allowance: Allowance
    pulses: Pulses
    timeline: Timeline
    lives: dict[str, Life] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    failed_at_position: int = -1
    """Where the store failed last, or began to."""
    failing_until: Flow = timedelta()
    """When that failure was over."""

    def has_store_failed_since(self, position: int) -> bool:
        """Whether the store failed after this position, or was still about to."""
        return (
            self.failed_at_position > position or self.failing_until > self.timeline.flows[position]
        )

    def life(self, instance: str) -> Life:
        life = self.lives.get(instance)
        if life is None:
            life = self.lives[instance] = Life()
        return life

    def task(self, name: str) -> Task:
        task = self.tasks.get(name)
        if task is None:
            task = self.tasks[name] = Task(name)
        return task

    def holders(self, name: str) -> list[TaskFacts]:
        """The registrations of this name in every active instance."""
        return [
            life.tasks[name]
            for life in self.lives.values()
            if life.is_active and name in life.tasks
        ]

    def object(
        self, axiom: Axiom, position: int, entry: Entry, message: str, task: str | None = None
    ) -> None:
        self.violations.append(Violation(axiom, position, entry.at, task, message))

    def object_to_delay(self, duty: Duty, until: Flow) -> bool:
        """Object if what was owed had not happened in time by ``until``; says whether."""
        deadline = self.timeline.deadline(duty.since, self.allowance(duty.task_count))
        if until <= deadline:
            return False
        at = self.timeline.instant_at(deadline)
        since_at = self.timeline.instant_at(duty.since)
        message = f"{duty.words} since {show(since_at)}, and was late after {show(at)}"
        position = self.timeline.position_at(deadline)
        self.violations.append(Violation(duty.axiom, position, at, duty.task, message))
        return True

    def require_punctuality(self, names: Iterable[str], until: Flow) -> None:
        """L1 for these tasks, up to a moment at which their obligations end or change."""
        for name in names:
            self._require_punctual_start(self.task(name), until)

    def _require_punctual_start(self, task: Task, until: Flow) -> None:
        holders = self.holders(task.name)
        if task.run is not None or not holders or any(other != holders[0] for other in holders):
            return
        since = self._owed_from(task, until)
        if since is None:
            return
        count = max(len(life.tasks) for life in self.lives.values() if life.is_active)
        words = f"{task.name!r} ({holders[0].expression!r}) was owed a start"
        if self.object_to_delay(Duty("L1", since, count, words, task.name), until):
            task.free_from = until

    def _owed_from(self, task: Task, until: Flow) -> Flow | None:
        """From when on every world owed a start; None if some world did not by ``until``."""
        latest = task.free_from
        for since in self._owed_in_each_world(task):
            if since is None or since > until:
                return None
            latest = max(latest, since)
        return latest

    def _owed_in_each_world(self, task: Task) -> Iterator[Flow | None]:
        for world in task.worlds:
            instant = owed_from(world, self.pulses)
            yield None if instant is None else self.timeline.reached(instant, task.free_from)
