"""Draws stories: the same seed, the same story."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from tests.verification.simulation.schedules import ZONES, draw_expression, draw_start
from tests.verification.simulation.story import (
    CallInitialize,
    CallStop,
    Crash,
    CrashAtCall,
    Deed,
    Jump,
    Release,
    Step,
    StoreNature,
    Story,
    TaskNature,
)
from tests.verification.trace.actions import TaskFacts

NAMES = ("a", "b", "c", "d", "e")
RETRY_DELAYS = tuple(
    timedelta(milliseconds=count)
    for count in (0, 5, 250, 1_000, 20_000, 60_000, 90_000, 600_000, 3 * 3_600_000)
)
BAD_DELAY = timedelta(milliseconds=-1)
BAD_EXPRESSIONS = ("*/5 * * * *", "60 * * * *", "* * * *", "0 0 31 2 *", "@daily")

_SPANS = (
    timedelta(minutes=4),
    timedelta(minutes=20),
    timedelta(minutes=40),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(days=2),
)
_NO_TIME = timedelta()
_SQLITE_SHARE = 0.01


def draw_story(seed: int) -> Story:
    """The story of this seed."""
    random = Random(seed)
    zone = random.choice(tuple(ZONES))
    span = random.choice(_SPANS)
    start = draw_start(random, zone, span)
    script = _Script(random, zone, start, span)
    return Story(
        seed=seed,
        edition=random.choice(("declarative", "declarative", "polling")),
        zone=zone,
        start=start,
        store="sqlite" if random.random() < _SQLITE_SHARE else "memory",
        natures={name: _draw_nature(random, span) for name in NAMES},
        store_nature=_draw_store_nature(random),
        steps=tuple(script.draw()),
    )


def _draw_nature(random: Random, span: timedelta) -> TaskNature:
    lengths = (_NO_TIME, timedelta(milliseconds=1), timedelta(seconds=1), timedelta(seconds=45))
    long = (timedelta(minutes=1), timedelta(minutes=3), span / 3)
    return TaskNature(
        durations=tuple(random.choices((*lengths, *long), k=random.randint(1, 3))),
        failure_share=random.choice((0, 0, 0.3, 0.7, 1)),
        hanging_share=random.choice((0, 0, 0, 0.1)),
    )


def _draw_store_nature(random: Random) -> StoreNature:
    return StoreNature(
        turns=random.choice((0, 0, 1, 3)),
        fault_share=random.choice((0, 0, 0, 0.02, 0.1, 0.3)),
        longest_delay=random.choice(
            (_NO_TIME, _NO_TIME, timedelta(milliseconds=20), timedelta(minutes=1, seconds=30))
        ),
    )


@dataclass(slots=True)
class _Script:
    """The steps of one story, drawn one after the other."""

    random: Random
    zone: str
    start: datetime
    span: timedelta
    tasks: tuple[TaskFacts, ...] = ()

    def draw(self) -> Iterator[Step]:
        count = self.random.randint(2, 9)
        yield self._step(self._initialize(), soon=True)
        for _ in range(count):
            for deed in self._draw_deeds():
                yield self._step(deed, soon=False)
        yield Step(self.span / count, 0, Release())

    def _step(self, deed: Deed, *, soon: bool) -> Step:
        """Half of the deeds follow at once, so that calls meet each other half-way."""
        if soon or self.random.random() < 0.35:
            return Step(_NO_TIME, self.random.randint(0, 12), deed)
        return Step(self.random.random() * self.span / 4, 0, deed)

    def _draw_deeds(self) -> tuple[Deed, ...]:
        plans: dict[Callable[[], tuple[Deed, ...]], int] = {
            lambda: (CallStop(), self._initialize()): 3,
            lambda: (self._initialize(),): 2,
            lambda: (self._initialize(), CallStop(), self._initialize()): 1,
            lambda: (Crash(), self._initialize()): 2,
            lambda: (self._draw_crash(), self._initialize(), self._initialize()): 2,
            lambda: (Jump(self._draw_jump()),): 2,
            lambda: (CallStop(), Release(), self._initialize()): 2,
            lambda: (Release(),): 1,
        }
        return self.random.choices(tuple(plans), tuple(plans.values()))[0]()

    def _draw_crash(self) -> CrashAtCall:
        return CrashAtCall(self.random.randint(1, 12), self.random.random() < 0.5)

    def _draw_jump(self) -> timedelta:
        length = self.random.choice(
            (timedelta(seconds=2), self.span / 10, self.span, 8 * self.span)
        )
        return length * self.random.random() * self.random.choice((1, 1, -1))

    def _initialize(self) -> CallInitialize:
        if not self.tasks or self.random.random() < 0.5:
            self.tasks = self._redraw()
        given = self.tasks
        if self.random.random() < 0.04:
            given = (*given, self._draw_bad_task(given))
        return CallInitialize(given, on_new_scheduler=self.random.random() < 0.5)

    def _redraw(self) -> tuple[TaskFacts, ...]:
        """Tasks that are kept, changed, removed or new."""
        known = {task.name: task for task in self.tasks}
        chosen = [name for name in NAMES if self.random.random() < 0.6]
        return tuple(self._redraw_task(name, known.get(name)) for name in chosen)

    def _redraw_task(self, name: str, known: TaskFacts | None) -> TaskFacts:
        if known is not None and self.random.random() < 0.5:
            return known
        expression = draw_expression(self.random, self.zone, self.start, self.span)
        delay = self.random.choice(RETRY_DELAYS)
        if known is None or self.random.random() < 0.3:
            return TaskFacts(name, expression, delay)
        if self.random.random() < 0.5:
            return TaskFacts(name, expression, known.retry_delay)
        return TaskFacts(name, known.expression, delay)

    def _draw_bad_task(self, given: tuple[TaskFacts, ...]) -> TaskFacts:
        match self.random.randrange(4):
            case 0:
                return TaskFacts("", "* * * * *", _NO_TIME)
            case 1:
                return TaskFacts("z", "* * * * *", BAD_DELAY)
            case 2 if given:
                return given[0]
        return TaskFacts("z", self.random.choice(BAD_EXPRESSIONS), _NO_TIME)
