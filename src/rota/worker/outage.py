"""A store that does not answer is waited for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import TypeVar

from rota.clock.protocol import Clock
from rota.clock.timeout import timeout_after
from rota.errors import StoreClosedError, StoreError
from rota.events import EventEmitter, StoreFailed, StoreRecovered

FIRST_PAUSE = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=10)

_DOUBLING_LIMIT = 20

Answer = TypeVar("Answer")


class Outage:
    """Whether the store answers; told when that changes.

    It lasts until everybody whom the store failed has been answered, so that a store which fails
    in one respect only is not reported again and again.
    """

    def __init__(self, journal: EventEmitter) -> None:
        self._journal = journal
        self._waiting: set[object] = set()

    def begin(self, waiting: object, error: BaseException) -> None:
        if not self._waiting:
            self._journal.tell(StoreFailed(error=f"{type(error).__name__}: {error}"))
        self._waiting.add(waiting)

    def end(self, waiting: object) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            if not self._waiting:
                self._journal.tell(StoreRecovered())


class Patience:
    """How one loop waits for the store: longer each time, and never in step with others."""

    def __init__(self, outage: Outage, clock: Clock, random: Random) -> None:
        self._outage = outage
        self._clock = clock
        self._random = random
        self._failure_count = 0
        self._hurried = asyncio.Event()

    def hurry(self) -> None:
        """There is not much time left: ask again now, and from now on after the shortest pauses."""
        self._hurried.set()

    async def ask(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """What the call answers, once the store does. StoreClosedError is not waited out."""
        while True:
            try:
                answer = await call()
            except StoreClosedError:
                raise
            except StoreError as error:
                await self.wait(error)
            else:
                self.note_answer()
                return answer

    async def wait(self, error: StoreError) -> None:
        """The store did not answer: let some time pass before it is asked again."""
        self._outage.begin(self, error)
        self._failure_count += 1
        if self._hurried.is_set():
            await self._clock.sleep(FIRST_PAUSE)
            return
        pause = choose_pause(self._failure_count, self._random.random())
        with suppress(TimeoutError):
            async with timeout_after(self._clock, pause):
                await self._hurried.wait()

    def note_answer(self) -> None:
        self._failure_count = 0
        self._outage.end(self)


def choose_pause(failure_count: int, chance: float) -> timedelta:
    """Twice as long after each failure, up to a limit; between half of that and all of it."""
    doublings = min(failure_count - 1, _DOUBLING_LIMIT)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE) * (0.5 + chance / 2)
