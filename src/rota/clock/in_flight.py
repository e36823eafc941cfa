"""Work that goes on outside the event loop, counted, so that virtual time can wait for it.

A loop whose tasks all wait looks the same whether nothing will ever happen or a thread is about to
answer. ``with in_flight():`` around the waiting tells the two apart. In production it is a counter
that nobody reads.
"""

import asyncio
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable

# Keyed by loop, and only while work is in flight: each loop's thread touches its own key alone, so
# no lock is needed, and a loop that is done is not kept alive.
_counts: dict[AbstractEventLoop, int] = {}
_waiters: dict[AbstractEventLoop, list[Callable[[], object]]] = {}


class in_flight:  # noqa: N801 - used as a statement, ``with in_flight():``, like a function
    """Mark an ``await`` on a thread, a process or a socket: time stands still until it is over.

    Enter and leave it in a task of the loop, around the ``await``. Do not wrap a wait that may
    never end, such as listening for the next message: virtual time would wait with it.
    """

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop = get_running_loop()

    def __enter__(self) -> None:
        loop = self._loop
        _counts[loop] = _counts.get(loop, 0) + 1

    def __exit__(self, *_: object) -> None:
        loop = self._loop
        left = _counts[loop] - 1
        if left:
            _counts[loop] = left
        else:
            del _counts[loop]
            if loop in _waiters:
                _notify(loop)


def in_flight_count(loop: AbstractEventLoop) -> int:
    """How many pieces of work the tasks of this loop wait for outside it."""
    return _counts.get(loop, 0)


def when_landed(loop: AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call back, once, in a turn of the loop after its count has next come down to zero."""
    _waiters.setdefault(loop, []).append(callback)


async def all_landed(loop: AbstractEventLoop) -> None:
    """Wait, in real time, until nothing is in flight; at once when nothing is.

    New work may have started by the time the caller runs again: look at the count once more.
    """
    if not in_flight_count(loop):
        return
    landed = asyncio.Event()
    when_landed(loop, landed.set)
    await landed.wait()


def _notify(loop: AbstractEventLoop) -> None:
    callbacks = _waiters.pop(loop)
    if loop.is_closed():  # a coroutine closed by the garbage collector, long after its loop
        return
    for callback in callbacks:
        loop.call_soon(callback)
