"""Calls to a server, which run to their end even if their callers stop waiting."""

import asyncio
from asyncio import Future, Task, get_running_loop
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rota.clock.idle import in_flight

Result = TypeVar("Result")


class Calls:
    """Runs each call in a task of its own: a driver that is interrupted loses its connection.

    Virtual time stands still until they are done.
    """

    def __init__(self) -> None:
        self._running: set[Task[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do ``work`` and return its result; cancelling stops only the waiting."""
        answer: Future[Result] = get_running_loop().create_future()
        task = self._start(_answer(work, answer))
        task.add_done_callback(lambda _: answer.cancel())  # perhaps cancelled before it began
        return await answer

    def start(self, work: Callable[[], Awaitable[Result]]) -> "Task[Result]":
        """Do ``work`` beside the caller."""
        return self._start(_carry_out(work))

    async def finish(self) -> None:
        """Wait until no call is running."""
        while self._running:
            await asyncio.wait(self._running)

    def _start(self, call: Coroutine[Any, Any, Result]) -> "Task[Result]":
        task = asyncio.create_task(call)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _carry_out(work: Callable[[], Awaitable[Result]]) -> Result:
    with in_flight():
        return await work()


async def _answer(work: Callable[[], Awaitable[Result]], answer: "Future[Result]") -> None:
    """Wakes the caller from the call itself: a shield takes one more turn of the loop."""
    with in_flight():
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001 - the caller's
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)
