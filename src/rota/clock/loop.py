"""Watches an event loop: whether it has work left, where its tasks wait, and what blocks it."""

import asyncio
import selectors
import sys
from asyncio import AbstractEventLoop, base_events, get_running_loop
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from linecache import getline
from pathlib import Path
from threading import Event, Lock, Thread, get_ident
from traceback import walk_stack
from types import FrameType, coroutine
from typing import Any, Self, TypeVar

from rota.clock.protocol import as_duration
from rota.clock.system import monotonic
from rota.errors import ClockUseError, InvalidInputError

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


_NOT_THE_READERS = (str(Path(selectors.__file__).parent), str(Path(__file__).parent), "<frozen")


def describe_tasks(loop: AbstractEventLoop) -> tuple[str, ...]:
    """One line for each other task of the loop: its name and the line it waits at."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    in_order = sorted(tasks, key=lambda task: (len(task.get_name()), task.get_name()))
    return tuple(f"{task.get_name()} at {_place(_frames(task.get_coro()))}" for task in in_order)


def describe_stack(innermost: FrameType | None) -> str:
    """The line a thread executes, found from its innermost frame."""
    return _place([frame for frame, _ in walk_stack(innermost)][::-1] if innermost else [])


def _place(frames: Sequence[FrameType]) -> str:
    """The innermost line outside the standard library and this package."""
    own = [frame for frame in frames if not _is_library(frame.f_code.co_filename)]
    return _describe((own or frames)[-1]) if frames else "an unknown line"


def _is_library(path: str) -> bool:
    return path.startswith(_NOT_THE_READERS) and "site-packages" not in path


def _describe(frame: FrameType) -> str:
    path, line, name = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
    text = getline(path, line).strip()
    return f"{path}:{line} in {name}" + (f": {text}" if text else "")


def _frames(awaited: object) -> list[FrameType]:
    """The frames of a suspended coroutine, outermost first, through everything it awaits."""
    frames = []
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if isinstance(frame, FrameType):
            frames.append(frame)
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return frames


def _first(thing: object, *names: str) -> object:
    return next((found for name in names if (found := getattr(thing, name, None))), None)


_LOOKS_PER_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Stall:
    """An event loop that is blocked, or (``is_over``) was blocked for a while.

    ``task_name`` is None when a bare callback blocked the loop. ``where`` is the line it was seen
    at. ``blocked_for`` may be too short by half the limit.
    """

    task_name: str | None
    where: str
    blocked_for: timedelta
    is_over: bool = False


class LoopWatch:
    """Reports each stall of the running loop twice: when it passes the limit, and when it ends.

    It watches while at least one ``with`` block (or ``start``) is open, and for a moment longer.
    One thread checks the loop twice per ``limit`` and interrupts it only while it is busy.
    ``on_stall`` is called from that thread and must not raise.
    """

    def __init__(
        self, on_stall: Callable[[Stall], None], *, limit: timedelta = timedelta(seconds=1)
    ) -> None:
        if as_duration(limit, "limit") <= timedelta(0):
            raise InvalidInputError(f"limit must be positive, not {limit}", {"field": "limit"})
        self._on_stall = on_stall
        self._limit = limit.total_seconds()
        self._interval = self._limit / _LOOKS_PER_LIMIT
        self._lock = Lock()
        self._user_count = 0
        self._lookout: _Lookout | None = None

    def start(self) -> Self:
        """Watch the running loop until ``stop`` has been called as often as this."""
        loop = asyncio.get_running_loop()
        with self._lock:
            is_watched = self._lookout is not None and self._lookout.loop is loop
            if self._user_count and not is_watched:
                raise ClockUseError("this LoopWatch is watching another event loop")
            self._user_count += 1
            if not is_watched:
                lookout = self._lookout = _Lookout(loop, get_ident())
                Thread(
                    target=self._watch, args=(lookout,), name="rota-loop-watch", daemon=True
                ).start()
        return self

    def stop(self, *_: object) -> None:
        """Undo one ``start``."""
        with self._lock:
            if not self._user_count:
                raise ClockUseError("stop() was called more often than start()")
            self._user_count -= 1

    __enter__, __exit__ = start, stop

    def _is_wanted(self, lookout: "_Lookout") -> bool:
        """Whether the thread should go on. A new start may find it still running."""
        with self._lock:
            if self._lookout is lookout and not self._user_count:
                self._lookout = None
            return self._lookout is lookout

    def _watch(self, lookout: "_Lookout") -> None:
        """The thread."""
        pause = Event()
        while self._is_wanted(lookout):
            pause.wait(self._interval)
            if not _is_at_rest(lookout.frame()) and not self._time_one_turn(lookout):
                return

    def _time_one_turn(self, lookout: "_Lookout") -> bool:
        """Ask the loop to turn once and report it if it is too slow. False when it was closed."""
        asked_at, turned = monotonic(), Event()
        try:
            lookout.loop.call_soon_threadsafe(turned.set)
        except RuntimeError:  # closed
            return False
        if not turned.wait(self._limit) and self._is_wanted(lookout):
            self._follow(lookout, asked_at, turned)
        return True

    def _follow(self, lookout: "_Lookout", since: float, turned: Event) -> None:
        """Report the stall now, and again when it is over."""
        task = asyncio.current_task(lookout.loop)
        stall = Stall(
            task_name=task.get_name() if task is not None else None,
            where=describe_stack(lookout.frame()),
            blocked_for=timedelta(seconds=monotonic() - since),
        )
        self._on_stall(stall)
        while not turned.wait(self._interval) and self._is_wanted(lookout):
            pass
        self._on_stall(
            replace(stall, blocked_for=timedelta(seconds=monotonic() - since), is_over=True)
        )


@dataclass(frozen=True, eq=False)
class _Lookout:
    """A loop that is watched, and its thread."""

    loop: AbstractEventLoop
    thread_id: int

    def frame(self) -> FrameType | None:
        """The current frame of the loop's thread.

        There is no public way to see another thread's stack.
        """
        return sys._current_frames().get(self.thread_id)  # noqa: SLF001 - see above


def _is_at_rest(frame: FrameType | None) -> bool:
    """Whether a standard library loop waits for events. For other loops this is unknown."""
    if frame is None or frame.f_back is None:
        return False
    is_select = frame.f_code.co_filename == selectors.__file__
    return is_select and frame.f_back.f_code.co_filename == base_events.__file__
