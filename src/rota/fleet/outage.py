"""A store that is away: retried after growing pauses, reported once.

``Outage`` reports, ``Backoff`` chooses the pauses, and ``StoreRetry`` repeats a call until the
store answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TypeVar

from rota.clock.protocol import Clock
from rota.clock.system import timeout_after
from rota.errors import StoreClosedError, StoreError, describe_error
from rota.events import EventEmitter, StoreFailed, StoreRecovered

FIRST_PAUSE = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=10)

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Outage:
    """Emits ``StoreFailed`` when the store stops answering and ``StoreRecovered`` when it is back.

    It lasts until every caller that failed has been answered, so a store that fails for one caller
    only is not reported again and again.
    """

    _events: EventEmitter
    _failed: set[object] = field(default_factory=set)

    @property
    def is_on(self) -> bool:
        return bool(self._failed)

    def begin(self, caller: object, error: BaseException) -> None:
        """The store failed this caller."""
        if not self._failed:
            self._events.emit(StoreFailed(error=describe_error(error)))
        self._failed.add(caller)

    def end(self, caller: object) -> None:
        """The store answered this caller."""
        if caller in self._failed:
            self._failed.remove(caller)
            if not self._failed:
                self._events.emit(StoreRecovered())


@dataclass(slots=True, eq=False)
class Backoff:
    """Pauses between tries: each twice as long as the last one, up to ``longest``.

    With ``random`` a pause lasts between half of that and all of it, so that processes do not
    retry in step.
    """

    first: timedelta = FIRST_PAUSE
    longest: timedelta = LONGEST_PAUSE
    random: Random | None = None
    _next: timedelta | None = None

    def take(self) -> timedelta:
        """The pause after one more failure."""
        pause = self._next or self.first
        self._next = min(2 * pause, self.longest)
        return pause if self.random is None else pause * (0.5 + self.random.random() / 2)

    def reset(self) -> None:
        """A try succeeded: start again with the first pause."""
        self._next = None


@dataclass(slots=True, eq=False)
class StoreRetry:
    """Repeats the store calls of one loop until the store answers.

    Once the process is about to stop, which sets ``hurried``, it retries at once, and then after
    the shortest pause.
    """

    _outage: Outage
    _clock: Clock
    _random: Random | None = None
    first_pause: timedelta = FIRST_PAUSE
    hurried: asyncio.Event = field(default_factory=asyncio.Event)
    _backoff: Backoff | None = None
    """None while the store answers."""

    async def call(self, action: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer of ``action``, repeated while the store fails. StoreClosedError is raised."""
        while True:
            try:
                answer = await action()
            except StoreClosedError:
                raise
            except StoreError as error:
                await self.wait(error)
            else:
                self.note_answer()
                return answer

    async def wait(self, error: Exception) -> None:
        """The store did not answer: pause before the next try."""
        self._backoff = self._backoff or Backoff(self.first_pause, random=self._random)
        self._outage.begin(self, error)
        if self.hurried.is_set():
            await self._clock.sleep(self.first_pause)
            return
        with suppress(TimeoutError):
            async with timeout_after(self._clock, self._backoff.take()):
                await self.hurried.wait()

    def note_answer(self) -> None:
        """The store answered."""
        if self._backoff is not None:
            self._backoff = None
            self._outage.end(self)
