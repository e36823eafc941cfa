"""Work that goes on outside the event loop, counted, so that virtual time can wait for it.

A loop whose tasks all wait looks the same whether nothing will ever happen or a thread is about to
answer. ``with in_flight():`` around the waiting tells the two apart. In production it is a counter
that nobody reads.
"""

import asyncio
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable


class Flights:
    """The work one loop waits for: a counter that is entered and left, and who waits for zero.

    Only the loop's own thread touches it, so it needs no lock.
    """

    __slots__ = ("_loop", "_waiters", "count")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[Callable[[], object]] = []
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.count -= 1
        if not self.count and self._waiters:
            self._notify()

    def when_landed(self, callback: Callable[[], object]) -> None:
        """Call back, once, in a turn of the loop after the count has next come down to zero."""
        self._waiters.append(callback)

    async def landed(self) -> None:
        """Wait, in real time, until nothing is in flight; at once when nothing is.

        New work may have started by the time the caller runs again: look at the count once more.
        """
        if self.count:
            landed = asyncio.Event()
            self.when_landed(landed.set)
            await landed.wait()

    def _notify(self) -> None:
        callbacks, self._waiters = self._waiters, []
        if self._loop.is_closed():  # a coroutine closed by the garbage collector, after its loop
            return
        for callback in callbacks:
            self._loop.call_soon(callback)


_flights: dict[AbstractEventLoop, Flights] = {}


def in_flight() -> Flights:
    """Mark an ``await`` on a thread, a process or a socket, with a ``with`` around it.

    Virtual time stands still until it is over. Enter and leave it in a task of the loop. Do not
    wrap a wait that may never end, such as listening for the next message: time would wait too.
    """
    loop = get_running_loop()
    try:
        return _flights[loop]
    except KeyError:
        return flights_of(loop)


def flights_of(loop: AbstractEventLoop) -> Flights:
    """What is in flight for this loop. Closed loops are forgotten whenever a new one is seen."""
    if loop not in _flights:
        for known in list(_flights):
            if known.is_closed():
                _flights.pop(known, None)
        _flights[loop] = Flights(loop)
    return _flights[loop]
