"""Pending wake-ups, ordered by deadline and then by registration."""

from asyncio import AbstractEventLoop, Future
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count

_SLACK = 64

# Ordered by the first two; the last says whether it is elapsed time that is waited for.
_Timer = tuple[datetime, int, "Future[None]", bool]


class Timers:
    """A heap of futures. One that was cancelled is never seen again, and soon not kept either."""

    def __init__(self) -> None:
        self._heap: list[_Timer] = []
        self._numbers = count()
        self._waiting_count = 0

    def __len__(self) -> int:
        return self._waiting_count

    def add(self, loop: AbstractEventLoop, deadline: datetime, *, elapsed: bool) -> "Future[None]":
        """A future that ``wake`` resolves. Whoever sees it cancelled calls ``forget``, once."""
        future: Future[None] = loop.create_future()
        heappush(self._heap, (deadline, next(self._numbers), future, elapsed))
        self._waiting_count += 1
        return future

    def forget(self) -> None:
        """A future was cancelled. Its place is freed when such places outnumber the others."""
        self._waiting_count -= 1
        if len(self._heap) > 2 * self._waiting_count + _SLACK:
            self._heap = [timer for timer in self._heap if not timer[2].done()]
            heapify(self._heap)

    def next_at(self) -> datetime | None:
        """The earliest deadline anyone still waits for."""
        heap = self._heap
        while heap and heap[0][2].done():
            heappop(heap)
        return heap[0][0] if heap else None

    def wake(self, now: datetime) -> None:
        """Resolve all that is due, in order."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            future = heappop(heap)[2]
            if not future.done():
                self._waiting_count -= 1
                future.set_result(None)

    def set_back(self, by: timedelta) -> None:
        """The time shown was set back: who waits for elapsed time has as much left as before."""
        self._heap = [
            (deadline - by if elapsed else deadline, number, future, elapsed)
            for deadline, number, future, elapsed in self._heap
        ]
        heapify(self._heap)
