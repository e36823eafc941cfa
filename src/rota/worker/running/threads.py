"""Handlers that are no coroutines, each in a thread."""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

_numbers = count(1)


class _Call(NamedTuple):
    work: Callable[[], Any]
    loop: AbstractEventLoop
    future: "Future[Any]"


class Threads:
    """Threads that are kept for the next call. There are as many as calls at once, at most.

    They are daemons: one that never comes back must not keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: list[_Lane] = []
        self._is_closed = False

    def call(self, work: Callable[[Any], Any], argument: Any) -> "Future[Any]":
        """Do the work in a thread, with the caller's context variables; cancelling changes nothing.

        Whatever it raises, an exit from the program too, is the future's.
        """
        loop = asyncio.get_running_loop()
        lane = self._idle.pop() if self._idle else _Lane()
        future: Future[Any] = loop.create_future()
        future.add_done_callback(lambda done: self._take_back(lane, done))
        context = copy_context()
        lane.calls.put(_Call(lambda: context.run(work, argument), loop, future))
        return future

    def close(self) -> None:
        """Let the threads end as soon as they are done."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().calls.put(None)

    def _take_back(self, lane: "_Lane", done: "Future[Any]") -> None:
        done.exception()  # who waited for it may be gone, and that is no oversight
        if self._is_closed:
            lane.calls.put(None)
        else:
            self._idle.append(lane)


class _Lane:
    """One thread."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        name = f"rota-handler-{next(_numbers)}"
        Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (call := self.calls.get()) is not None:
            _carry_out(call)


def _carry_out(call: _Call) -> None:
    result, error = None, None
    try:
        result = call.work()
    except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
        error = raised
    with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        call.loop.call_soon_threadsafe(_resolve, call.future, result, error)


def _resolve(future: "Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a future cannot raise it
        error = RuntimeError(f"StopIteration: {error}")
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
