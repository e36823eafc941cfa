"""Callers that write at the same time, carried out together.

A commit costs the same round trip and the same wait for the server's disk whether it holds one
write or a thousand. A call at a quiet moment goes at once; those that come while all lanes are busy
go together as soon as one is free.
"""

import asyncio
from asyncio import Future, Task
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import asyncpg

from rota.errors import StoreError
from rota.stores.postgres.database import Database
from rota.stores.postgres.documents.writes import MOST_AT_ONCE, Versions, write_each
from rota.stores.postgres.translation import translate
from rota.stores.protocol import DocumentWrite

LANE_COUNT = 4
"""So many groups are under way at a time: one that waits for another program's lock holds up none
of those that do not."""

TRY_COUNT = 5
"""How often a group is tried that the server gave up in favour of another."""


class _Call(NamedTuple):
    writes: Sequence[DocumentWrite]
    answer: "Future[Versions]"


class Writer:
    """Carries out ``write_each`` for any number of callers; none fails because of another."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Call] = deque()
        self._lanes: set[Task[None]] = set()

    async def write_each(self, writes: Sequence[DocumentWrite]) -> Versions:
        """Apply those writes that are current, together with those of other callers."""
        answer: Future[Versions] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(writes, answer))
        if len(self._lanes) < LANE_COUNT:
            lane = asyncio.create_task(self._serve())
            self._lanes.add(lane)
            lane.add_done_callback(self._lanes.discard)
        return await answer

    async def close(self) -> None:
        """Carry out what has been handed over."""
        if self._lanes:
            await asyncio.wait(self._lanes)

    async def _serve(self) -> None:
        while self._waiting:
            group = self._take_group()
            _answer(group, await self._carry_out(group))

    def _take_group(self) -> list[_Call]:
        group = [self._waiting.popleft()]
        write_count = len(group[0].writes)
        while self._waiting and write_count < MOST_AT_ONCE:
            group.append(self._waiting.popleft())
            write_count += len(group[-1].writes)
        return group

    async def _carry_out(self, group: Sequence[_Call]) -> list[Versions | Exception]:
        """One outcome for each call."""
        try:
            versions = iter(await self._write([write for call in group for write in call.writes]))
        except Exception as error:  # noqa: BLE001 - the callers wait elsewhere and must be told
            if len(group) > 1 and _may_be_of_one(error):
                return [outcome for call in group for outcome in await self._carry_out([call])]
            return [self._copy(error) for _ in group]
        return [list(islice(versions, len(call.writes))) for call in group]

    async def _write(self, writes: Sequence[DocumentWrite]) -> Versions:
        for _ in range(TRY_COUNT - 1):
            try:
                return await self._database.run(lambda session: write_each(session, writes))
            except StoreError as error:
                if not isinstance(error.__cause__, asyncpg.TransactionRollbackError):
                    raise
        return await self._database.run(lambda session: write_each(session, writes))

    def _copy(self, error: Exception) -> Exception:
        """The error once more: each caller raises its own, or their tracebacks would mix."""
        cause = error.__cause__
        if not isinstance(error, StoreError) or not isinstance(cause, Exception):
            return error
        copy = translate(cause, self._database.label, error.details["outcome"])
        copy.__cause__ = cause
        return copy


def _may_be_of_one(error: Exception) -> bool:
    """Whether it may be about what one call wanted to write, rather than about the server."""
    cause = error.__cause__
    about_values = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, ValueError)
    return not isinstance(error, StoreError) or isinstance(cause, about_values)


def _answer(group: Sequence[_Call], outcomes: Sequence[Versions | Exception]) -> None:
    for call, outcome in zip(group, outcomes, strict=True):
        if call.answer.done():  # its caller was cancelled; the write holds all the same
            continue
        if isinstance(outcome, Exception):
            call.answer.set_exception(outcome)
        else:
            call.answer.set_result(outcome)
