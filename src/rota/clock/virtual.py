"""Virtual time: it moves on request, or by itself when every task waits."""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from rota.clock.loop import IdleProbe, describe_tasks, flights_of, turn
from rota.clock.protocol import as_duration, later, to_utc
from rota.errors import BusyLoopError, ClockUseError, DeadlockError, InvalidInputError

_SLACK = 64

# Ordered by the first two; the last says whether the wait is for elapsed time.
_Timer = tuple[datetime, int, "Future[None]", bool]


class Timers:
    """A heap of futures. A cancelled one is never returned, and is soon removed."""

    def __init__(self) -> None:
        self._heap: list[_Timer] = []
        self._numbers = count()
        self._waiting_count = 0

    def __len__(self) -> int:
        return self._waiting_count

    def add(self, loop: AbstractEventLoop, deadline: datetime, *, elapsed: bool) -> "Future[None]":
        """A future that ``wake`` resolves. A caller that cancels it calls ``forget`` once."""
        future: Future[None] = loop.create_future()
        heappush(self._heap, (deadline, next(self._numbers), future, elapsed))
        self._waiting_count += 1
        return future

    def forget(self) -> None:
        """A future was cancelled. Cancelled entries are removed when they outnumber the others."""
        self._waiting_count -= 1
        if len(self._heap) > 2 * self._waiting_count + _SLACK:
            self._heap = [timer for timer in self._heap if not timer[2].done()]
            heapify(self._heap)

    def next_at(self) -> datetime | None:
        """The earliest deadline that is still waited for."""
        heap = self._heap
        while heap and heap[0][2].done():
            heappop(heap)
        return heap[0][0] if heap else None

    def wake(self, now: datetime) -> None:
        """Resolve everything that is due, in order."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            future = heappop(heap)[2]
            if not future.done():
                self._waiting_count -= 1
                future.set_result(None)

    def set_back(self, by: timedelta) -> None:
        """The time was set back: waits for elapsed time keep their remaining duration."""
        self._heap = [
            (deadline - by if elapsed else deadline, number, future, elapsed)
            for deadline, number, future, elapsed in self._heap
        ]
        heapify(self._heap)


class Conditions:
    """Futures that wait for a condition, in the order in which they were set."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, loop: AbstractEventLoop, holds: Callable[[], bool]) -> "Future[None]":
        """A future that ``wake`` resolves; it may be cancelled."""
        future: Future[None] = loop.create_future()
        self._waiting.append((holds, future))
        return future

    def wake(self) -> bool:
        """Resolve the futures whose condition holds; whether there was one."""
        if not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        for holds, future in waiting:
            if future.done():
                continue
            try:
                is_over = holds()
            except Exception as error:  # noqa: BLE001 - it is raised where the condition is awaited
                future.set_exception(error)
                continue
            if is_over:
                future.set_result(None)
            else:
                self._waiting.append((holds, future))
        return any(future.done() and not future.cancelled() for _, future in waiting)


T = TypeVar("T")

TURN_LIMIT = 1_000_000
"""After this many turns at one instant, a loop that does not become idle is an error."""

ROUND_LIMIT = 100_000
"""After this many checks at one instant, conditions that keep becoming true are an error."""

_clocks: "WeakKeyDictionary[AbstractEventLoop, ref[VirtualClock]]" = WeakKeyDictionary()


class VirtualClock:
    """A ``Clock`` whose time is driven by a test.

    Time starts at ``start`` and moves only in ``advance``, ``advance_to``, ``jump_to`` and ``run``.
    With ``auto_jump`` it also flows by itself, from timer to timer, whenever every task waits. One
    event loop has one such clock, and one task at a time drives it; anything else raises
    ``ClockUseError``. ``now()`` may be read from anywhere.
    """

    def __init__(self, start: datetime, *, auto_jump: bool = False) -> None:
        self._now = to_utc(start, "start")
        self._auto_jump = auto_jump
        self._timers = Timers()
        self._conditions = Conditions()
        self._loop: AbstractEventLoop | None = None
        self._is_current = False
        self._driver: asyncio.Task[Any] | None = None
        self._flow: IdleProbe | None = None

    def __repr__(self) -> str:
        return f"<VirtualClock {self._now.isoformat()}, {len(self._timers)} waiting>"

    def now(self) -> datetime:
        return self._now

    @property
    def next_timer_at(self) -> datetime | None:
        """The next instant at which a wait ends, or None without waits."""
        return self._timers.next_at()

    @property
    def sleeper_count(self) -> int:
        """The number of pending waits; for asserting that none was left behind."""
        return len(self._timers)

    async def sleep(self, duration: timedelta) -> None:
        """Wait until this much time has passed.

        A jump forward counts as time passed; a jump backward leaves as much to wait for as before.
        """
        await self._wait(later(self._now, as_duration(duration)), elapsed=True)

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until ``now()`` shows the instant or later, across any jump back."""
        await self._wait(to_utc(instant), elapsed=False)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds. It is checked whenever time is about to move.

        A loop that would poll waits like this instead: virtual time need not stop for it, and what
        happens in this process is noticed at the instant at which it happens. The condition is
        quick and changes nothing; what it raises is raised here.
        """
        loop = self._enter_loop()
        if holds():
            await turn()
            return
        await self._conditions.add(loop, holds)

    async def advance(self, duration: timedelta) -> None:
        """Let this much time flow, as ``advance_to``."""
        if as_duration(duration) < timedelta(0):
            raise InvalidInputError(
                f"duration must not be negative: {duration}; jump_to() sets a clock back",
                {"field": "duration"},
            )
        await self.advance_to(later(self._now, duration))

    async def advance_to(self, instant: datetime) -> None:
        """Let time flow to the instant.

        Every timer on the way fires at its own instant, timers of one instant in the order they
        were set, and what they wake runs until it waits again before time moves on; timers set
        meanwhile fire too. On return, everything due has happened.
        """
        target = to_utc(instant)
        if target < self._now:
            raise InvalidInputError(
                f"instant must not be in the past: {target.isoformat()} is before "
                f"{self._now.isoformat()}; jump_to() sets a clock back",
                {"field": "instant"},
            )
        with self._driving("advance") as loop:
            await self._settle(loop)
            while (due := self._timers.next_at()) is not None and due <= target:
                self._move_to(due)
                await self._settle(loop)
            self._now = target

    async def jump_to(self, instant: datetime) -> None:
        """Show another time at once, as a host that slept or whose clock was set.

        Forward, everything overdue fires afterwards, at the new time, in order of deadline.
        Backward, a wait until an instant waits for it to be shown again, and a wait for a duration
        keeps its remaining duration.
        """
        target = to_utc(instant)
        with self._driving("jump_to") as loop:
            await self._settle(loop)
            if target < self._now:
                self._timers.set_back(self._now - target)
            self._move_to(target)
            await self._settle(loop)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Wait for the awaitable, letting time flow from timer to timer whenever all tasks wait.

        Returns its result or raises its exception. When nothing can move any more, raises
        ``DeadlockError`` with the line each task waits at, and cancels the awaitable.
        """
        task = asyncio.ensure_future(awaitable)
        try:
            with self._driving("run") as loop:
                await self._run_to_the_end(task, loop)
        finally:
            task.cancel()
        return task.result()

    async def _run_to_the_end(self, task: "asyncio.Future[T]", loop: AbstractEventLoop) -> None:
        try:
            await self._flow_until(task, loop)
        except BaseException:
            task.cancel()
            with suppress(DeadlockError):
                await self._flow_until(task, loop)
                _ = task.cancelled() or task.exception()  # the first error is the one to raise
            raise

    async def _flow_until(self, task: "asyncio.Future[T]", loop: AbstractEventLoop) -> None:
        await self._settle(loop)
        while not task.done():
            due = self._timers.next_at()
            if due is None:
                raise DeadlockError(self._now, describe_tasks(loop))
            self._move_to(due)
            await self._settle(loop)

    async def _wait(self, deadline: datetime, *, elapsed: bool) -> None:
        loop = self._enter_loop()
        if deadline <= self._now:
            await turn()
            return
        wake_up = self._timers.add(loop, deadline, elapsed=elapsed)
        self._start_flow(loop)
        try:
            await wake_up
        except asyncio.CancelledError:
            if wake_up.cancelled():  # otherwise it had fired before its task was cancelled
                self._timers.forget()
            raise

    def _move_to(self, instant: datetime) -> None:
        self._now = instant
        self._timers.wake(instant)

    async def _settle(self, loop: AbstractEventLoop) -> None:
        """Let everything run that can run now, and what waits for conditions that hold now."""
        for _ in range(ROUND_LIMIT):
            await self._come_to_rest(loop)
            if not self._conditions.wake():
                return
        raise BusyLoopError(self._now, ROUND_LIMIT, describe_tasks(loop))

    async def _come_to_rest(self, loop: AbstractEventLoop) -> None:
        """Let everything run that can run now, and wait for work in flight."""
        probe, flights = IdleProbe(loop), flights_of(loop)
        turn_count = 0
        while turn_count < TURN_LIMIT:
            await turn()
            if flights.count:
                await flights.landed()
                turn_count = 0
            elif probe.is_idle():
                return
            turn_count += 1
        raise BusyLoopError(self._now, turn_count, describe_tasks(loop))

    @contextmanager
    def _driving(self, verb: str) -> Iterator[AbstractEventLoop]:
        """One driver at a time: two would each wait for the other to become idle."""
        loop = self._enter_loop()
        if self._driver is not None:
            raise ClockUseError(
                f"{verb}() was called while {self._driver.get_name()} is moving the time: "
                "a clock has one driver; everyone else sleeps"
            )
        self._driver = asyncio.current_task()
        try:
            yield loop
        finally:
            self._driver = None
            self._start_flow(loop)

    def _start_flow(self, loop: AbstractEventLoop) -> None:
        """In auto-jump mode, make time move."""
        if self._auto_jump and self._flow is None and self._timers:
            self._flow = IdleProbe(loop)
            loop.call_soon(self._flow_on, loop, self._flow)

    def _flow_on(self, loop: AbstractEventLoop, probe: IdleProbe) -> None:
        """One turn of the flow.

        It uses callbacks, not a task, which a check for leftover tasks would find.
        """
        due = self._timers.next_at()
        if due is None or self._driver is not None:
            self._flow = None
        elif (flights := flights_of(loop)).count:
            flights.when_landed(lambda: self._flow_on(loop, probe))
        else:
            if probe.is_idle() and not self._conditions.wake():
                self._move_to(due)
            loop.call_soon(self._flow_on, loop, probe)

    def _enter_loop(self) -> AbstractEventLoop:
        """The running loop, if it is this clock's."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not self._is_current:
            self._bind(loop)
        return loop

    def _bind(self, loop: AbstractEventLoop) -> None:
        if self._loop is not None and loop is not self._loop:
            raise ClockUseError(
                "this VirtualClock belongs to another event loop, the one it was first used in: "
                "make one clock for each loop"
            )
        known = _clocks.get(loop)
        other = known() if known is not None else None
        if other is not None and other is not self:
            other._give_way()  # noqa: SLF001 - the same class
        self._loop, self._is_current = loop, True
        _clocks[loop] = ref(self)

    def _give_way(self) -> None:
        """Release the loop to another clock, unless a wait on this one is pending."""
        if self._driver is not None or self._timers:
            raise ClockUseError(
                f"this event loop already has a VirtualClock in use, {self!r}: "
                "two clocks cannot both wait for the same loop to rest"
            )
        self._is_current = False
