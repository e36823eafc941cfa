"""What the tasks of a story do when they run: end, fail in many ways, or hang."""

from asyncio import CancelledError, Event
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from zlib import crc32

from tests.verification.simulation.story import Story, TaskNature

from rota.clock.protocol import Clock

MOST_FAILURES_IN_A_ROW = 4


class Nuisance(BaseException):
    """What a callback should not raise, but may."""


FAILURES: tuple[type[BaseException], ...] = (
    ValueError,
    RuntimeError,
    TimeoutError,
    CancelledError,
    SystemExit,
    Nuisance,
)


class Callbacks:
    """Makes the callbacks of one story. How a run goes follows from seed, name and number."""

    def __init__(self, story: Story, clock: Clock) -> None:
        self._story = story
        self._clock = clock
        self._released = Event()
        self._runs: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def release(self) -> None:
        """Let whatever hangs end, now and until the next release."""
        self._released.set()
        self._released = Event()

    def make(self, name: str) -> Callable[[], Awaitable[None]]:
        nature = self._story.natures.get(name, TaskNature((timedelta(),)))

        async def run() -> None:
            self._runs[name] += 1
            random = self._draw(name)
            if random.random() < nature.hanging_share:
                await self._released.wait()
            await self._last(random.choice(nature.durations))
            self._maybe_fail(random, name, nature)

        return run

    def _draw(self, name: str) -> Random:
        text = f"{self._story.seed}/{name}/{self._runs[name]}"
        return Random(crc32(text.encode()))

    async def _last(self, duration: timedelta) -> None:
        if duration:
            await self._clock.sleep(duration)

    def _maybe_fail(self, random: Random, name: str, nature: TaskNature) -> None:
        """Fail, but not for ever: a short retry delay must not keep a story from ending."""
        if self._failures[name] < MOST_FAILURES_IN_A_ROW and random.random() < nature.failure_share:
            self._failures[name] += 1
            raise random.choice(FAILURES)
        self._failures[name] = 0
