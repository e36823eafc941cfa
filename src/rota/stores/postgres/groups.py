"""Writes of several callers, carried out together.

A commit costs the same round trip and wait for the disk with one write or a thousand.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import asyncpg

from rota.errors import StoreError
from rota.stores.postgres.connections import Database, translate

GROUP_COUNT = 4
"""How many groups are written at a time: one that waits for another program's lock does not hold
up the others."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class _Call(NamedTuple, Generic[Item, Answer]):
    item: Item
    size: int
    answer: "Future[Answer]"


class Groups(Generic[Item, Answer]):
    """Writes the items of any number of callers; none fails because of another.

    ``write`` gets the items of a group and returns an answer for each. Calls of one moment are a
    group, and so are those that come while all groups are busy. A group is of at most the size
    ``most``, or of one call.
    """

    def __init__(
        self,
        database: Database,
        write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        most: int,
    ) -> None:
        self._database = database
        self._write = write
        self._most = most
        self._waiting: deque[_Call[Item, Answer]] = deque()
        self._busy_count = 0

    async def run(self, item: Item, size: int = 1) -> Answer:
        """The answer of ``write`` for this item; cancelling stops only the waiting."""
        answer: Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(item, size, answer))
        if self._busy_count < GROUP_COUNT:
            self._busy_count += 1
            self._database.start(self._serve())
        return await answer

    async def _serve(self) -> None:
        try:
            while self._waiting:
                group = self._take_group()
                for call, outcome in zip(group, await self._write_group(group), strict=True):
                    _answer(call, outcome)
        finally:
            self._busy_count -= 1

    def _take_group(self) -> "list[_Call[Item, Answer]]":
        group = [self._waiting.popleft()]
        size = group[0].size
        while self._waiting and size < self._most:
            group.append(self._waiting.popleft())
            size += group[-1].size
        return group

    async def _write_group(
        self, group: "Sequence[_Call[Item, Answer]]"
    ) -> Sequence[Answer | Exception]:
        """One outcome for each call."""
        try:
            return await self._write([call.item for call in group])
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            if len(group) > 1 and _may_be_of_one(error):
                return [outcome for call in group for outcome in await self._write_group([call])]
            return [self._copy(error) for _ in group]

    def _copy(self, error: Exception) -> Exception:
        """The same error for another caller: with one object their tracebacks would mix."""
        cause = error.__cause__
        if not isinstance(error, StoreError) or not isinstance(cause, Exception):
            return error
        copy = translate(cause, self._database.label, error.details["outcome"])
        copy.__cause__ = cause
        return copy


def _may_be_of_one(error: Exception) -> bool:
    """Whether it may be about the values of one call, rather than about the server."""
    about_values = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, ValueError)
    return not isinstance(error, StoreError) or isinstance(error.__cause__, about_values)


def _answer(call: "_Call[Item, Answer]", outcome: Answer | Exception) -> None:
    if call.answer.done():  # its caller was cancelled; the write holds all the same
        return
    if isinstance(outcome, Exception):
        call.answer.set_exception(outcome)
    else:
        call.answer.set_result(outcome)
