"""A scheduler reduced to its theory: second by second, pulse by pulse, and always right.

It shares no idea with the judge but the words of the theory: pulses are latched flags here, raised
by asking at every minute whether it matches, where the judge searches for occurrences when asked.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from tests.unit.verification.trace_writer import TraceWriter, a_task
from tests.verification.trace import Entry, TaskFacts

from rota.triggers.cron import Cron, parse_cron

EXPRESSIONS = ("* * * * *", "0,7,20,45 * * * *", "30 * * * *", "3 10-12 * * *", "5-9 11 * * 1")
SECOND = timedelta(seconds=1)


@dataclass
class ModelTask:
    facts: TaskFacts
    cron: Cron
    came_at: datetime
    is_due: bool = False
    is_orphan: bool = False
    retry_at: datetime | None = None
    ends_at: datetime | None = None
    started_at: datetime | None = None

    def is_owed(self, now: datetime) -> bool:
        has_retry = self.retry_at is not None and self.retry_at <= now
        return self.ends_at is None and (self.is_due or self.is_orphan or has_retry)


@dataclass
class Model:
    """Plays one random story and writes its trace."""

    random: Random
    writer: TraceWriter = field(default_factory=TraceWriter)
    stored: dict[str, ModelTask] = field(default_factory=dict)
    is_active: bool = False
    stop_call: int | None = None

    def play(self, seconds: int) -> list[Entry]:
        for _ in range(seconds):
            self._second()
            self.writer.now += SECOND
        self.writer.observe()
        return self.writer.entries

    def _second(self) -> None:
        now = self.writer.now
        if now.second == 0:
            for task in self.stored.values():
                task.is_due |= task.cron.matches(now, UTC)
        self._end_runs(now)
        self._act()
        self._start_runs(now)

    def _end_runs(self, now: datetime) -> None:
        for name, task in self.stored.items():
            if task.ends_at == now:
                task.ends_at = None
                if self.random.random() < 0.4:
                    self.writer.fail(name)
                    task.retry_at = now + task.facts.retry_delay
                else:
                    self.writer.succeed(name)
        if self.stop_call is not None and not self._is_running():
            self.writer.return_stop(self.stop_call)
            self.stop_call = None

    def _act(self) -> None:
        chance = self.random.random()
        if not self.is_active and self.stop_call is None and chance < 0.01:
            self._initialize()
        elif self.is_active and chance < 0.001:
            self.stop_call = self.writer.call_stop()
            self.is_active = False
            self._end_runs(self.writer.now)
        elif chance > 0.9995:
            self._crash()

    def _initialize(self) -> None:
        now = self.writer.now
        facts = [self._pick(name) for name in "abcd" if self.random.random() < 0.8]
        self.writer.initialize(*facts)
        self.is_active = True
        before, self.stored = self.stored, {}
        for fact in facts:
            task = before.get(fact.name) or ModelTask(fact, parse_cron(fact.expression), now)
            if fact.name not in before:
                task.is_due = task.cron.matches(now, UTC)
            elif task.facts.expression != fact.expression:
                task.cron = parse_cron(fact.expression)
                task.is_due = self._was_missed(task)
            task.facts = fact
            self.stored[fact.name] = task

    def _was_missed(self, task: ModelTask) -> bool:
        minute = self.writer.now.replace(second=0)
        first = task.started_at
        if first is None:
            first = task.came_at.replace(second=0) - SECOND
        while minute > first:
            if task.cron.matches(minute, UTC):
                return True
            minute -= timedelta(minutes=1)
        return False

    def _pick(self, name: str) -> TaskFacts:
        delay = timedelta(seconds=self.random.choice((0, 1, 20, 60, 600)))
        return a_task(name, self.random.choice(EXPRESSIONS), delay)

    def _crash(self) -> None:
        self.writer.crash()
        self.is_active, self.stop_call = False, None
        for task in self.stored.values():
            task.is_orphan |= task.ends_at is not None
            task.ends_at = None

    def _start_runs(self, now: datetime) -> None:
        for name, task in self.stored.items():
            if self.is_active and task.is_owed(now):
                self.writer.start(name)
                task.is_due = task.is_orphan = False
                task.retry_at = None
                task.started_at = now
                task.ends_at = now + timedelta(seconds=self.random.choice((1, 1, 5, 40, 90, 400)))

    def _is_running(self) -> bool:
        return any(task.ends_at is not None for task in self.stored.values())


def play(seed: int, seconds: int = 2 * 3600) -> list[Entry]:
    return Model(Random(seed)).play(seconds)
