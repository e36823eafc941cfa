"""Calls to a server: they run to their end even if their callers stop waiting, or go together."""

import asyncio
from asyncio import Future, Task, get_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any, Generic, NamedTuple, TypeVar

from rota.clock.loop import in_flight
from rota.errors import RotaError, StoreUnavailableError

GROUP_COUNT = 4
"""How many groups are written at a time: one that waits for another program's lock does not hold
up the others."""

Result = TypeVar("Result")
Item = TypeVar("Item")


class Calls:
    """Runs each call in a task of its own: a driver that is interrupted loses its connection.

    Virtual time stands still until they are done.
    """

    def __init__(self) -> None:
        self._running: set[Task[Any]] = set()

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do ``work`` and return its result; cancelling stops only the waiting."""
        if asyncio.current_task() in self._running:  # within a call that runs to its end anyway
            return await work()
        answer: Future[Result] = get_running_loop().create_future()

        def end(task: "Task[Any]") -> None:
            self._running.discard(task)
            answer.cancel()  # perhaps it was cancelled before it began

        task = asyncio.create_task(_answer(work, answer))
        self._running.add(task)
        task.add_done_callback(end)
        return await answer

    def start(self, work: Callable[[], Awaitable[Result]]) -> "Task[Result]":
        """Do ``work`` beside the caller."""
        task = asyncio.create_task(_carry_out(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def finish(self) -> None:
        """Wait until no call is running."""
        while self._running:
            await asyncio.wait(self._running)


async def _carry_out(work: Callable[[], Awaitable[Result]]) -> Result:
    with in_flight():
        return await work()


async def _answer(work: Callable[[], Awaitable[Result]], answer: "Future[Result]") -> None:
    """Wakes the caller from the call itself: a shield takes one more turn of the loop."""
    with in_flight():
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001 - the caller's
            _settle(answer, error)
        else:
            _settle(answer, result)


def _settle(answer: "Future[Result]", outcome: Result | Exception) -> None:
    if answer.done():  # its caller was cancelled; the call holds all the same
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    size: int
    answer: "Future[Result]"
    since: float


def is_about_none(_: Exception) -> bool:
    """A store that is not available is so for all items."""
    return False


class Groups(Generic[Item, Result]):
    """Writes the items of any number of callers together; none fails because of another.

    ``write`` gets the items of a group and returns an answer for each. A call costs a round trip
    and a wait for the disk, with one item or a thousand. Items of one moment are a group, and so
    are those that come while all groups are busy. A group has at most the size ``most``, or one
    item. If ``write`` fails, each item is written alone, unless the store is not available and
    ``is_about_one`` does not know better. Then items that have waited since before it was tried
    fail too: otherwise callers would wait the longer for a server, the more of them there are.
    """

    def __init__(
        self,
        calls: Calls,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        most: int,
        is_about_one: Callable[[Exception], bool] = is_about_none,
    ) -> None:
        self._calls = calls
        self._write = write
        self._most = most
        self._is_about_one = is_about_one
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._unanswered: set[Future[Result]] = set()
        self._busy_count = 0

    async def run(self, item: Item, size: int = 1) -> Result:
        """The answer of ``write`` for this item; cancelling stops only the waiting."""
        loop = get_running_loop()
        answer: Future[Result] = loop.create_future()
        self._waiting.append(_Waiting(item, size, answer, loop.time()))
        self._unanswered.add(answer)
        answer.add_done_callback(self._unanswered.discard)
        if self._busy_count < GROUP_COUNT:
            self._start()
        return await answer

    async def finish(self) -> None:
        """Wait until everything that was given by now is written."""
        if self._unanswered:
            await asyncio.wait(self._unanswered)

    def _start(self) -> None:
        self._busy_count += 1
        self._calls.start(self._serve).add_done_callback(self._end)

    def _end(self, serving: "Task[None]") -> None:
        self._busy_count -= 1
        if serving.cancelled():  # perhaps before it began: the loop itself is ending
            while self._waiting:
                self._waiting.popleft().answer.cancel()
        elif self._waiting:  # they came meanwhile, or it failed
            self._start()

    async def _serve(self) -> None:
        while self._waiting:
            await self._answer_group(self._take_group())

    async def _answer_group(self, group: "Sequence[_Waiting[Item, Result]]") -> None:
        try:
            for one, outcome in zip(group, await self._write_group(group), strict=True):
                _settle(one.answer, outcome)
        finally:
            for one in group:
                one.answer.cancel()  # without an outcome, its caller would wait for ever

    def _take_group(self) -> "list[_Waiting[Item, Result]]":
        group = [self._waiting.popleft()]
        size = group[0].size
        while self._waiting and size < self._most:
            group.append(self._waiting.popleft())
            size += group[-1].size
        return group

    async def _write_group(
        self, group: "Sequence[_Waiting[Item, Result]]"
    ) -> Sequence[Result | Exception]:
        """One outcome for each item."""
        began_at = get_running_loop().time()
        try:
            return await self._write([one.item for one in group])
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            if not self._is_worth_a_look(error):
                while self._waiting and self._waiting[0].since <= began_at:
                    _settle(self._waiting.popleft().answer, _copy(error))
            elif len(group) > 1:
                return [outcome for one in group for outcome in await self._write_group([one])]
            return [_copy(error) for _ in group]

    def _is_worth_a_look(self, error: Exception) -> bool:
        """Whether the error may be about one item only."""
        return not isinstance(error, StoreUnavailableError) or self._is_about_one(error)


def _copy(error: Exception) -> Exception:
    """The same error for another caller: with one object their tracebacks would mix."""
    if not isinstance(error, RotaError):
        return error
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied
