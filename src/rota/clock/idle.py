"""Knows whether an event loop has work left, inside the loop or outside it."""

import asyncio
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


class Flights:
    """Counts the work in flight that one loop waits for.

    Only the loop's own thread uses it, so it needs no lock.
    """

    __slots__ = ("_loop", "_waiters", "count")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[Callable[[], object]] = []
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.land()

    def depart(self) -> None:
        """Count work that another callback lands."""
        self.count += 1

    def land(self) -> None:
        """Count it no longer."""
        self.count -= 1
        if not self.count and self._waiters:
            self._notify()

    def when_landed(self, callback: Callable[[], object]) -> None:
        """Call back once, in a turn of the loop after the count has next reached zero."""
        self._waiters.append(callback)

    async def landed(self) -> None:
        """Wait, in real time, until nothing is in flight.

        New work may have started by the time the caller runs again: check the count once more.
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


async def call_in_thread(work: Callable[[], Value]) -> Value:
    """What ``work`` returns: for work that would keep the event loop busy for too long."""
    with in_flight():
        return await asyncio.to_thread(work)


def flights_of(loop: AbstractEventLoop) -> Flights:
    """The work in flight for this loop. Closed loops are forgotten when a new one is seen."""
    if loop not in _flights:
        for known in list(_flights):
            if known.is_closed():
                _flights.pop(known, None)
        _flights[loop] = Flights(loop)
    return _flights[loop]


def is_current(task: "asyncio.Task[Any] | None") -> bool:
    """Whether this task runs now. A GeneratorExit in one that does not is for the interpreter.

    It closes coroutines that will never go on, from anywhere.
    """
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:  # no event loop runs
        return False


QUIET_TURNS = 32
"""How long every task must have waited before a loop without a ready queue counts as idle."""


@coroutine
def turn() -> Generator[None, None, None]:
    """Let everything that is ready now run once."""
    yield


class IdleProbe:
    """Checks once a turn whether one loop is idle.

    For the standard library's loops the check is exact. Another loop counts as idle when all its
    tasks have waited for ``QUIET_TURNS`` turns: exact for tasks, while time may overtake a longer
    chain of bare callbacks.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = ready_queue(loop)
        self._quiet_turns = 0

    def is_idle(self) -> bool:
        """Call from a task or callback of the loop that did nothing else in this turn."""
        if self._ready is not None:
            return not self._ready
        if any(is_runnable(task) for task in self._other_tasks()):
            self._quiet_turns = 0
        else:
            self._quiet_turns += 1
        return self._quiet_turns > QUIET_TURNS

    def _other_tasks(self) -> set["asyncio.Task[Any]"]:
        return asyncio.all_tasks(self._loop) - {asyncio.current_task(self._loop)}


def ready_queue(loop: AbstractEventLoop) -> Any:
    """The callbacks the loop is about to run, or None when it does not expose them.

    No public interface tells an idle loop from a busy one, and guessing by yielding "often enough"
    makes tests flaky. The attribute has had this name and meaning since Python 3.4.
    """
    return getattr(loop, "_ready", None)


def is_runnable(task: "asyncio.Task[Any]") -> bool:
    """Whether the task will take a step without anything else happening first.

    A waiting task holds the future it waits for; there is no public way to see it.
    """
    waits_for = getattr(task, "_fut_waiter", None)
    return waits_for is None or waits_for.done()
