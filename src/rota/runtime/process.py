"""Runs the parts of one process and owns its signals."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from enum import StrEnum
from typing import Any, Protocol

from rota.fleet.signals import call_on_signals


class Part(Protocol):
    """Runs until it is told to stop, and then comes to its end by itself."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    async def run(self) -> None:
        """Work until ``stop``; whatever goes wrong is raised."""
        ...

    def stop(self) -> None:
        """The first time: begin nothing more, and finish. The second time: end now."""
        ...


class StopWish:
    """How often a part was told to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def stop(self) -> None:
        (self.hurried if self.asked.is_set() else self.asked).set()


Say = Callable[[str], object]


class HouseEnd(StrEnum):
    """How a house came to its end."""

    DRAINED = "drained"
    """What was under way was finished, as far as the grace of the worker allows."""
    AT_ONCE = "at once"
    """It was told twice: what was under way was handed back."""


class House:
    """Runs parts in stages until told to stop; a stage is stopped once the one before has ended.

    So those come last that let others ask, and whoever asks while the worker drains is still
    answered. When a part fails, the others drain, and then that failure is raised.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[Part]],
        say: Say,
        on_drain: Callable[[], object] = lambda: None,
    ) -> None:
        self._stages = [stage for stage in stages if stage]
        self._say = say
        self._on_drain = on_drain
        self._called = asyncio.Event()
        self._end: HouseEnd | None = None
        self._failure: BaseException | None = None

    async def run_until_signalled(self) -> HouseEnd:
        """``run``, stopped by the first SIGINT or SIGTERM and hurried by the second."""
        with call_on_signals(self.stop):
            return await self.run()

    async def run(self) -> HouseEnd:
        """Run every part until ``stop``, and say how it ended."""
        running = [[self._start(part) for part in stage] for stage in self._stages]
        try:
            await self._called.wait()
            for parts, tasks in zip(self._stages, running, strict=True):
                _stop(parts)
                await asyncio.wait(tasks)
        finally:
            await _cancel([task for tasks in running for task in tasks])
        if self._failure is not None:
            raise self._failure
        return self._end or HouseEnd.DRAINED

    def stop(self) -> None:
        """The first time take nothing on and finish, the second time end now."""
        if self._end is None:
            self._say("Stopping: what runs is finished first. Once more to stop at once.")
            self._drain()
            return
        if self._end is HouseEnd.DRAINED:
            self._say("Stopping at once: what runs is handed back.")
        self._end = HouseEnd.AT_ONCE
        for stage in self._stages:
            _stop(stage)
            _stop(stage)

    def _drain(self) -> None:
        self._end = HouseEnd.DRAINED
        self._on_drain()
        self._called.set()

    def _start(self, part: Part) -> "asyncio.Task[None]":
        task = asyncio.create_task(part.run(), name=f"rota {part.name}")
        task.add_done_callback(lambda done: self._note_end(part, done))
        return task

    def _note_end(self, part: Part, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self._say(f"The {part.name} has failed; the rest is stopped.")
        if self._end is None:
            self._drain()


def _stop(parts: Sequence[Part]) -> None:
    for part in parts:
        part.stop()


async def _cancel(tasks: Collection["asyncio.Task[Any]"]) -> None:
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
