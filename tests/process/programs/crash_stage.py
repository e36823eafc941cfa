"""Plays one life of a scheduler on a store, and kills it with kill -9 where it is told to.

``python -m tests.process.programs.crash_stage`` reads one life per line and plays each in a process
forked for it, so that a life costs milliseconds; the answer is how that process ended. Time inside
is virtual: the same writes come in the same order in every process.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
from tests.process.programs.history import History
from tests.process.programs.lives import play_all
from tests.verification.trace import TraceRecorder

from rota import Scheduler, SchedulerSettings, open_store
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach
from rota.testing import VirtualClock

SETTINGS = SchedulerSettings(peers_checked_every=timedelta(hours=1))
"""There are no peers, and heartbeats would only repeat the same write."""

TASKS = {"brief": "* * * * *", "long": "0,2,4,6,8 * * * *", "failing": "1,4,7 * * * *"}
RETRY_DELAY = timedelta(seconds=15)

Moment = Literal["before", "after"]


class FailPoint(msgspec.Struct, frozen=True):
    """Right before or right after the write with this number."""

    number: int
    moment: Moment


class Reached(msgspec.Struct, frozen=True):
    """A fail point that a life came past, or died at."""

    point: FailPoint
    verb: str
    at: datetime


class Life(msgspec.Struct, frozen=True):
    """From initialize to stop, unless it dies before."""

    store: str
    history: str
    points: str
    begins_at: datetime
    ends_at: datetime
    dies_at: FailPoint | None = None


class DoomedStore:
    """Passes calls on, notes every fail point, and kills the process at one of them."""

    def __init__(self, store: DocumentStore, life: Life, clock: VirtualClock) -> None:
        self.reach: Reach = store.reach
        self._store = store
        self._life = life
        self._clock = clock
        self._points = os.open(life.points, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._count = 0

    def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        return self._store.scan(collection)

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        return await self._store.read(collection, keys)

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        number = self._pass("write_each", "before")
        written = await self._store.write_each(writes)
        self._pass("write_each", "after", number)
        return written

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        number = self._pass("write_all", "before")
        await self._store.write_all(writes)
        self._pass("write_all", "after", number)

    async def close(self) -> None:
        await self._store.close()

    def _pass(self, verb: str, moment: Moment, number: int | None = None) -> int:
        if number is None:
            self._count += 1
            number = self._count
        point = FailPoint(number, moment)
        line = msgspec.json.encode(Reached(point, verb, self._clock.now()))
        os.write(self._points, line + b"\n")
        if point == self._life.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def make_callback(name: str, clock: VirtualClock) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        if name == "failing" and clock.now().second < RETRY_DELAY.seconds:
            raise RuntimeError("the first try of a minute")
        await clock.sleep(timedelta(seconds=80 if name == "long" else 5))

    return run


async def play(life: Life) -> None:
    clock = VirtualClock(life.begins_at)
    recorder = TraceRecorder(clock, sink=History(Path(life.history)).append)
    async with await open_store(life.store) as store:
        doomed = DoomedStore(store, life, clock)
        scheduler = Scheduler(doomed, clock=clock, zone=UTC, settings=SETTINGS)
        registrations = [
            (name, expression, make_callback(name, clock), RETRY_DELAY)
            for name, expression in TASKS.items()
        ]
        await recorder.initialize(scheduler, registrations)
        await clock.advance_to(life.ends_at)
        await clock.run(recorder.stop(scheduler))


if __name__ == "__main__":
    play_all(Life, play)
