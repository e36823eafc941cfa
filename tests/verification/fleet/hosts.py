"""Hosts: their clocks drift and jump, they freeze, and they are killed."""

import asyncio
from asyncio import CancelledError, Task
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from rota.clock.corrected import CorrectedClock
from rota.clock.protocol import Clock
from rota.clock.virtual import VirtualClock

JUMP_NOTICED = timedelta(seconds=2)
"""How soon a wait until an instant notices that the clock was set."""

_NO_TIME = timedelta(0)

Value = TypeVar("Value")

current_host: ContextVar["Host | None"] = ContextVar("current_host", default=None)


class HostClock:
    """What one host shows: true time, too fast or too slow, and set by somebody now and then."""

    def __init__(self, time: VirtualClock, rate: float = 1.0, offset: timedelta = _NO_TIME) -> None:
        self._time = time
        self._rate = rate
        self._offset = offset
        self._start = time.now()

    def now(self) -> datetime:
        return self._start + self._offset + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        """Seconds since the host started; setting its clock does not change them."""
        return (self._time.now() - self._start).total_seconds() * self._rate

    def jump(self, by: timedelta) -> None:
        self._offset += by

    async def sleep(self, duration: timedelta) -> None:
        await self._time.sleep(duration / self._rate)

    async def sleep_until(self, instant: datetime) -> None:
        left = instant - self.now()
        if left <= _NO_TIME:
            await self._time.sleep(_NO_TIME)
        while left > _NO_TIME:
            await self._time.sleep(min(left / self._rate, JUMP_NOTICED))
            left = instant - self.now()


class SharedClock(HostClock):
    """The clock of a host with several processes. Nothing sets it, so one wait is enough."""

    async def sleep_until(self, instant: datetime) -> None:
        left = instant - self.now()
        await self._time.sleep(left / self._rate)


class Host:
    """One process with its clock. What it starts belongs to it, and dies with it."""

    def __init__(self, name: str, clock: HostClock, time: VirtualClock, random: Random) -> None:
        self.name = name
        self.clock = clock
        self.random = random
        self.is_alive = True
        self.stop: Callable[[], object] | None = None
        self.die: Callable[[], object] = self.kill
        self.doomed_in = 0
        self.is_served_last = False
        self._time = time
        self._frozen_until = time.now()
        self._tasks: dict[Task[Any], None] = {}

    def start(self, life: Coroutine[Any, Any, Value]) -> Task[Value]:
        """Let the process do this."""
        token = current_host.set(self)
        try:
            return asyncio.get_running_loop().create_task(life)
        finally:
            current_host.reset(token)

    def adopt(self, task: Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def kill(self) -> None:
        """Nothing of it goes on, gets through or is recorded any more."""
        self.is_alive = False
        for task in list(self._tasks):
            task.cancel()

    def doom(self, call_count: int, *, is_served: bool) -> None:
        """It dies in that call of the store from now, before or after it is carried out."""
        self.doomed_in, self.is_served_last = call_count, is_served

    def count_call(self) -> bool:
        """Whether this call of the store is its last."""
        self.doomed_in -= 1
        return self.doomed_in == 0

    def freeze(self, duration: timedelta) -> None:
        """Its process stands still that long, and knows nothing of it afterwards."""
        self._frozen_until = max(self._frozen_until, self._time.now() + duration)

    async def pass_gate(self) -> None:
        """Where the process goes on after a wait: not while it is frozen, and not when dead."""
        while self.is_alive and self._time.now() < self._frozen_until:
            await self._time.sleep_until(self._frozen_until)
        if not self.is_alive:
            raise CancelledError

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        await self._time.wait_until(holds)
        await self.pass_gate()

    @asynccontextmanager
    async def open_clock(self, read_store_clock: Any) -> AsyncIterator[Clock]:
        """The clock of the process: the host's, corrected by the store's where it has one."""
        gated = GatedClock(self)
        if await read_store_clock() is None:
            yield gated
            return
        corrected = CorrectedClock(
            gated, read_store_clock, elapsed=self.clock.elapsed, on_offset=lambda _: None
        )
        async with corrected as clock:
            yield clock


class GatedClock:
    """The host's clock for its process: a wait ends when the process is not frozen."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now(self) -> datetime:
        return self._host.clock.now()

    async def sleep(self, duration: timedelta) -> None:
        await self._host.clock.sleep(duration)
        await self._host.pass_gate()

    async def sleep_until(self, instant: datetime) -> None:
        await self._host.clock.sleep_until(instant)
        await self._host.pass_gate()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """A condition of the process itself: time need not stop to look at it."""
        await self._host.wait_until(holds)


def start_outside(life: Coroutine[Any, Any, Value]) -> Task[Value]:
    """Start something that belongs to no host, and dies with none."""
    token = current_host.set(None)
    try:
        return asyncio.get_running_loop().create_task(life)
    finally:
        current_host.reset(token)


def tag_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let every task belong to the host that started it."""

    def make(
        loop: asyncio.AbstractEventLoop, life: Coroutine[Any, Any, Any], **more: Any
    ) -> Task[Any]:
        task = Task(life, loop=loop, **more)
        host = current_host.get()
        if host is not None:
            host.adopt(task)
        return task

    loop.set_task_factory(make)  # type: ignore[arg-type]  # typeshed wants a Protocol with Future
