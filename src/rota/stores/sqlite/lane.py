"""A thread of one's own: work handed to it is done in order, outside the event loop."""

import asyncio
from asyncio import Future
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from rota.clock.idle import in_flight

Result = TypeVar("Result")


class Lane:
    """One thread. What it has been handed is carried out, whether or not anyone still waits."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in the thread and give its result; cancelling stops only the waiting."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Callable[[], Result]) -> "Future[Result]":
        """Hand over ``work``. Virtual time stands still until it is done."""
        outside = ExitStack()
        outside.enter_context(in_flight())
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        future.add_done_callback(lambda _: outside.close())
        return future

    def end(self) -> None:
        """Let the thread go once it is done with what it has been handed."""
        self._executor.shutdown(wait=False)


async def open_lane(name: str, work: Callable[[], Result]) -> tuple[Lane, Result]:
    """A lane and the result of the first work done in it; no thread is left when that fails."""
    lane = Lane(name)
    try:
        return lane, await lane.run(work)
    except BaseException:
        lane.end()
        raise
