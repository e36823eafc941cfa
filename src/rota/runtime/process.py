"""Runs the parts of one process and owns its signals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Protocol

from rota.fleet.signals import call_on_signals


class Part(Protocol):
    """Runs until it is stopped, and then ends by itself."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    async def run(self) -> None:
        """Work until ``stop``. Raises what goes wrong."""
        ...

    def stop(self) -> None:
        """First call: start nothing more, and finish. Second call: end now."""
        ...


class StopRequest:
    """The first call of ``stop`` sets ``asked``, the second ``hurried``."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def stop(self) -> None:
        (self.hurried if self.asked.is_set() else self.asked).set()


Say = Callable[[str], object]


class RuntimeEnd(StrEnum):
    """How the process ended."""

    DRAINED = "drained"
    """Work in progress was finished, within the grace period of the worker."""
    AT_ONCE = "at once"
    """It was stopped twice: running jobs were released."""


class Runtime:
    """Runs parts in stages until it is stopped. A stage stops when the stage before it has ended.

    The web server is the last stage, so it still answers while the worker drains. When a part
    fails, the others drain, and then the failure is raised.
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
        self._end: RuntimeEnd | None = None
        self._failure: BaseException | None = None

    async def run_until_signalled(self) -> RuntimeEnd:
        """``run``, stopped by the first SIGINT or SIGTERM and hurried by the second."""
        with call_on_signals(self.stop):
            return await self.run()

    async def run(self) -> RuntimeEnd:
        """Run every part until ``stop``."""
        running = [[self._start(part) for part in stage] for stage in self._stages]
        try:
            await self._called.wait()
            for parts, tasks in zip(self._stages, running, strict=True):
                _stop(parts)
                await asyncio.wait(tasks)
        finally:
            await cancel([task for tasks in running for task in tasks])
        if self._failure is not None:
            raise self._failure
        return self._end or RuntimeEnd.DRAINED

    def stop(self) -> None:
        """First call: finish what runs. Second call: end now."""
        if self._end is None:
            self._say("Stopping: running jobs finish first. Repeat to stop at once.")
            self._drain()
            return
        if self._end is RuntimeEnd.DRAINED:
            self._say("Stopping at once: running jobs are released.")
        self._end = RuntimeEnd.AT_ONCE
        for stage in self._stages:
            _stop(stage)
            _stop(stage)

    def _drain(self) -> None:
        self._end = RuntimeEnd.DRAINED
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


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run the work in a task while the context lasts, and wait for its end."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await cancel([task])


def _stop(parts: Sequence[Part]) -> None:
    for part in parts:
        part.stop()


async def cancel(tasks: Collection["asyncio.Future[Any]"]) -> None:
    """Cancel what has not ended, and wait for its end."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
