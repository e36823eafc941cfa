"""The one thread that writes, and what waits for it.

Calls that arrive while it is busy are carried out together in one transaction, because a
transaction costs the same wait for the disk whether it holds one write or a thousand. A call that
arrives at a quiet moment is carried out at once.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Self

import apsw

from rota.stores.lane import Lane, open_lane
from rota.stores.naming import checked
from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite.connection import SqliteSettings, open_writer, transaction
from rota.stores.sqlite.translation import translate, translated
from rota.stores.sqlite.writes import apply_all, apply_each

MOST_WRITES_TOGETHER = 20_000
"""After this many writes a shared transaction ends, so that other processes get their turn."""

Versions = list[int | None]


class _Call(NamedTuple):
    writes: Sequence[DocumentWrite]
    answer: "Future[Versions]"
    loop: AbstractEventLoop


class Writer:
    """Carries out writes in the thread of its lane, as many as are waiting in one step."""

    def __init__(self, connection: apsw.Connection, lane: Lane, path: Path) -> None:
        self._connection = connection
        self._lane = lane
        self._path = path
        self._waiting: deque[_Call] = deque()
        self._is_called = False

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """A writer on the file, which is made ready if need be and refused if damaged."""
        lane, connection = await open_lane("rota-sqlite-writer", lambda: open_writer(settings))
        return cls(connection, lane, settings.path)

    async def close(self) -> None:
        """Carry out what has been handed over, then let the file go."""
        await self._lane.run(self._connection.close)
        self._lane.end()

    async def write_each(self, writes: Sequence[DocumentWrite]) -> Versions:
        """Apply those writes that are current, together with those of other callers."""
        loop = asyncio.get_running_loop()
        answer: Future[Versions] = loop.create_future()
        self._waiting.append(_Call(writes, answer, loop))
        if not self._is_called:
            self._is_called = True
            self._lane.start(self._serve_waiting)
        return await answer

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none, in a transaction of their own."""
        await self._lane.run(lambda: self._write_all(writes))

    def _write_all(self, writes: Iterable[DocumentWrite]) -> None:
        with translated(self._path), transaction(self._connection):
            apply_all(self._connection, checked(writes))

    def _serve_waiting(self) -> None:
        # In this order: a call that comes after the first line asks for a turn of its own, one
        # that came before it is counted in the second.
        self._is_called = False
        left_count = len(self._waiting)
        while left_count:
            group = self._take_group(left_count)
            left_count -= len(group)
            _answer(group, self._carry_out(group))

    def _take_group(self, most: int) -> list[_Call]:
        group = [self._waiting.popleft()]
        write_count = len(group[0].writes)
        while len(group) < most and write_count < MOST_WRITES_TOGETHER:
            group.append(self._waiting.popleft())
            write_count += len(group[-1].writes)
        return group

    def _carry_out(self, group: Sequence[_Call]) -> list[Versions | Exception]:
        """One outcome for each call. No call fails because of another."""
        try:
            # As one stream: SQLite is handed all the writes of a group without a pause.
            with transaction(self._connection):
                versions = apply_each(self._connection, _writes_of(group))
        except apsw.BusyError as error:
            # Nothing has begun, and trying one by one would only wait as often.
            return [self._failure(error) for _ in group]
        except Exception as error:  # noqa: BLE001 - the callers wait elsewhere and must be told
            if len(group) == 1:
                return [self._failure(error)]
            return [outcome for call in group for outcome in self._carry_out([call])]
        answers = iter(versions)
        return [list(islice(answers, len(call.writes))) for call in group]

    def _failure(self, error: Exception) -> Exception:
        if not isinstance(error, apsw.Error):
            return error
        failure = translate(error, self._path)
        failure.__cause__ = error
        return failure


def _writes_of(group: Sequence[_Call]) -> Iterator[DocumentWrite]:
    return chain.from_iterable(call.writes for call in group)


def _answer(group: Sequence[_Call], outcomes: Sequence[Versions | Exception]) -> None:
    """Wake each loop once, however many of its calls are answered."""
    answers: dict[AbstractEventLoop, list[tuple[Future[Versions], Versions | Exception]]] = {}
    for call, outcome in zip(group, outcomes, strict=True):
        answers.setdefault(call.loop, []).append((call.answer, outcome))
    for loop, settled in answers.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits for the answer any more
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Iterable[tuple["Future[Versions]", Versions | Exception]]) -> None:
    for answer, outcome in settled:
        if answer.done():  # its caller was cancelled; the write holds all the same
            continue
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
