"""The bridge: an event loop in a thread of its own, for callers that have none.

One bridge serves one app in one process. Its thread starts with the first call and is a daemon; it
is closed at exit. A forked child starts a bridge of its own.
"""

import asyncio
import atexit
import os
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Event, Lock, Thread, get_ident
from typing import Any, TypeVar
from weakref import WeakSet

from rota.errors import AppUseError

Value = TypeVar("Value")

CLOSE_SECONDS = 5.0
"""How long the end of a process waits for a bridge to close."""

_bridges: "WeakSet[Bridge]" = WeakSet()
_left_behind: list[object] = []
"""The loops of a parent process. They are kept: closing one here would disturb the parent."""


class Bridge:
    """Runs coroutines in its own thread, and lets other threads and loops wait for them.

    ``on_close`` is awaited in the bridge's loop before it ends.
    """

    def __init__(self, on_close: Callable[[], Awaitable[object]]) -> None:
        self._on_close = on_close
        self._lock = Lock()
        self._loop: AbstractEventLoop | None = None
        self._thread: Thread | None = None
        _bridges.add(self)

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The bridge's event loop, once a call has started it."""
        return self._loop

    @property
    def is_here(self) -> bool:
        """Whether the caller runs in the bridge's own thread."""
        return self._thread is not None and self._thread.ident == get_ident()

    def submit(self, work: Coroutine[Any, Any, Value]) -> "Future[Value]":
        """Start the coroutine in the bridge's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._start())

    def call(self, make_work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Run the coroutine and block until it has ended. Ctrl-C cancels it."""
        if self.is_here:
            raise AppUseError(
                "A _sync call inside the bridge's own event loop would wait for itself; "
                "await the call without _sync"
            )
        future = self.submit(make_work())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def wait(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run the coroutine, and wait in another event loop. Cancelling the wait cancels it."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """End the thread; the next call starts another. Without effect inside the bridge."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or self.is_here:
                return
            self._loop = self._thread = None
        closing = asyncio.run_coroutine_threadsafe(_finish(self._on_close), loop)
        with suppress(Exception):  # whatever fails here, the process ends
            closing.result(CLOSE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)

    def leave_behind(self) -> None:
        """Forget the parent's thread, which does not exist in this process."""
        _left_behind.append(self._loop)
        self._lock = Lock()
        self._loop = self._thread = None

    def _start(self) -> AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop, is_ready = asyncio.new_event_loop(), Event()
                self._thread = Thread(
                    target=_serve, args=(loop, is_ready), name="rota bridge", daemon=True
                )
                self._thread.start()
                is_ready.wait()
                self._loop = loop
            return self._loop


def _serve(loop: AbstractEventLoop, is_ready: Event) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(is_ready.set)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _finish(on_close: Callable[[], Awaitable[object]]) -> None:
    """Close what the app has open, then cancel what still runs."""
    await on_close()
    current = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not current]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CLOSE_SECONDS)


def _close_all() -> None:
    for bridge in tuple(_bridges):
        bridge.close()


def _after_fork() -> None:
    for bridge in tuple(_bridges):
        bridge.leave_behind()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
