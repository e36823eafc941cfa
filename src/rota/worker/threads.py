"""Threads for handlers that are plain functions."""

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
    """Threads that are kept for the next call.

    There are never more than calls at once. They are daemons: a thread that never returns must not
    keep the process from ending.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._is_closed = False

    def call(self, work: Callable[[Any], Any], argument: Any) -> "Future[Any]":
        """Call ``work`` in a thread, with the caller's context variables.

        The future gets whatever it raises, also an exit from the program. Cancelling the future
        does not stop the thread.
        """
        loop = asyncio.get_running_loop()
        calls = self._idle.pop() if self._idle else _start_thread()
        future: Future[Any] = loop.create_future()
        future.add_done_callback(lambda done: self._take_back(calls, done))
        context = copy_context()
        calls.put(_Call(lambda: context.run(work, argument), loop, future))
        return future

    def close(self) -> None:
        """Let the threads end as soon as they are idle."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _take_back(self, calls: "SimpleQueue[_Call | None]", done: "Future[Any]") -> None:
        done.exception()  # marks it as retrieved: its waiter may be gone
        if self._is_closed:
            calls.put(None)
        else:
            self._idle.append(calls)


def _start_thread() -> "SimpleQueue[_Call | None]":
    """A thread that makes the calls put into the returned queue, until None."""
    calls: SimpleQueue[_Call | None] = SimpleQueue()
    name = f"rota-handler-{next(_numbers)}"
    Thread(target=_serve, args=(calls,), name=name, daemon=True).start()
    return calls


def _serve(calls: "SimpleQueue[_Call | None]") -> None:
    while (call := calls.get()) is not None:
        _carry_out(call)


def _carry_out(call: _Call) -> None:
    result, error = None, None
    try:
        result = call.work()
    except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
        error = raised
    with suppress(RuntimeError):  # the loop is closed
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
