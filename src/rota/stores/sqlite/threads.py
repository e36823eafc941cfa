"""The two threads of a store: one that writes, and one that reads beside it.

Calls that arrive while the writing thread is busy are carried out together in one transaction,
because a transaction costs the same wait for the disk whether it holds one write or a thousand. A
call that arrives at a quiet moment is carried out at once. Reading has a connection of its own: a
long scan never holds up a write.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import apsw

from rota.errors import RotaError, UnsupportedConnectionError
from rota.stores.opened import ClosableStore
from rota.stores.sqlite.connection import (
    SqliteSettings,
    open_reader,
    open_watch,
    open_writer,
    transaction,
)
from rota.stores.sqlite.lane import Lane, open_lane
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translate, translated

MOST_WRITES_TOGETHER = 20_000
"""After this many writes a shared transaction ends, so that other processes get their turn."""

Result = TypeVar("Result")
Work: TypeAlias = Callable[[apsw.Connection], Result]
"""Reads and writes inside a transaction that someone else has begun.

It may be called again, in a transaction of its own, when the one that it shared could not be
completed.
"""


class _Call(NamedTuple):
    work: Work[Any]
    write_count: int
    tell: Callable[[Any], None] | None
    answer: "Future[Any]"
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

    async def run(
        self,
        work: Work[Result],
        write_count: int = 1,
        tell: Callable[[Result], None] | None = None,
    ) -> Result:
        """Do the work in a transaction, together with that of other callers.

        ``tell`` is given the result once it is durable, in the caller's event loop, whether or not
        the caller still waits for it.
        """
        loop = asyncio.get_running_loop()
        answer: Future[Result] = loop.create_future()
        self._waiting.append(_Call(work, write_count, tell, answer, loop))
        if not self._is_called:
            self._is_called = True
            self._lane.start(self._serve_waiting)
        return await answer

    async def run_alone(self, work: Work[Result]) -> Result:
        """Do work that cannot be repeated, in a transaction of its own."""
        return await self._lane.run(lambda: self._run_alone(work))

    def _run_alone(self, work: Work[Result]) -> Result:
        with translated(self._path), transaction(self._connection):
            return work(self._connection)

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
        write_count = group[0].write_count
        while len(group) < most and write_count < MOST_WRITES_TOGETHER:
            group.append(self._waiting.popleft())
            write_count += group[-1].write_count
        return group

    def _carry_out(self, group: Sequence[_Call]) -> list[Any]:
        """The result or the exception of each call. No call fails because of another."""
        try:
            with transaction(self._connection):
                return [self._do(call.work) for call in group]
        except apsw.BusyError as error:
            # Nothing has begun, and trying one by one would only wait as often.
            return [self._failure(error) for _ in group]
        except Exception as error:  # noqa: BLE001 - the callers wait elsewhere and must be told
            if len(group) == 1:
                return [self._failure(error)]
            return [outcome for call in group for outcome in self._carry_out([call])]

    def _do(self, work: Work[Any]) -> Any:
        before = self._connection.total_changes()
        try:
            return work(self._connection)
        except RotaError as refusal:
            # Refused before anything was written: those before and after it are not concerned.
            if self._connection.total_changes() == before:
                return refusal
            raise

    def _failure(self, error: Exception) -> Exception:
        if not isinstance(error, apsw.Error):
            return error
        failure = translate(error, self._path)
        failure.__cause__ = error
        return failure


class _Readers(NamedTuple):
    reader: apsw.Connection
    watch: apsw.Connection

    @classmethod
    def open(cls, settings: SqliteSettings) -> Self:
        reader = open_reader(settings)
        try:
            return cls(reader, open_watch(settings))
        except BaseException:
            reader.close()
            raise


class Reader:
    """Reads what has been committed by anyone, in the thread of its lane."""

    def __init__(self, connections: _Readers, lane: Lane, path: Path) -> None:
        self._connection, self._watch = connections
        self._lane = lane
        self._path = path

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """A reader of a file that a writer has made ready."""
        lane, connections = await open_lane("rota-sqlite-reader", lambda: _Readers.open(settings))
        return cls(connections, lane, settings.path)

    async def close(self) -> None:
        """Answer what has been asked, then let the file go."""
        await self._lane.run(self._close)
        self._lane.end()

    def _close(self) -> None:
        self._watch.close()
        self._connection.close()

    def read_version(self) -> int | None:
        """A number that is another one once anybody has committed; None if it cannot be had.

        It is read at once, in the caller's thread: that takes two microseconds, waits for no lock
        and, while nobody commits, reads nothing from the disk.
        """
        try:
            ((version,),) = self._watch.execute(QUERIES.read_version)
        except apsw.Error:  # then the file is looked at, and whoever looks is told what is wrong
            return None
        return int(version)

    async def run(self, work: Work[Result]) -> Result:
        """Do work that only reads; each of its statements sees one moment."""
        return await self._lane.run(lambda: self._run(work))

    def _run(self, work: Work[Result]) -> Result:
        with translated(self._path):
            return work(self._connection)


class OpenFile(ClosableStore):
    """Both threads on one file: what the verbs for documents and those for jobs stand on."""

    def __init__(self, settings: SqliteSettings, writer: Writer, reader: Reader) -> None:
        """Put together what ``open`` has opened."""
        super().__init__()
        self._settings = settings
        self._writer = writer
        self._reader = reader

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """The store at a path; the file is made if there is none, and checked if there is."""
        writer = await Writer.open(settings)
        try:
            return cls(settings, writer, await Reader.open(settings))
        except BaseException:
            await writer.close()
            raise

    async def _release(self) -> None:
        # The writer last: whoever closes a file last folds its log into it, and a reader cannot.
        await self._reader.close()
        await self._writer.close()

    def _open_reader(self) -> Reader:
        self._refuse_when_unusable()
        return self._reader

    def _open_writer(self) -> Writer:
        self._refuse_when_unusable()
        return self._writer

    @contextmanager
    def _joined(self, connection: object) -> Iterator[apsw.Connection]:
        """The caller's own connection, in a transaction of theirs; what fails leaves it as it was.

        It is used in the caller's thread.
        """
        self._refuse_when_unusable()
        path = self._settings.path
        joined = _check_connection(connection, path)
        with translated(path), joined:  # a savepoint
            yield joined


def _check_connection(connection: object, path: Path) -> apsw.Connection:
    """Refuse what is no connection to the file with a transaction under way."""
    if not isinstance(connection, apsw.Connection):
        raise UnsupportedConnectionError("it is no connection of apsw")
    name = connection.filename
    if not name or not path.samefile(name):
        raise UnsupportedConnectionError(f"it is connected to another file than {path}")
    if not connection.in_transaction:
        raise UnsupportedConnectionError("no transaction is under way on it")
    return connection


def _answer(group: Sequence[_Call], outcomes: Sequence[Any]) -> None:
    """Wake each loop once, however many of its calls are answered."""
    answers: dict[AbstractEventLoop, list[tuple[_Call, Any]]] = {}
    for call, outcome in zip(group, outcomes, strict=True):
        answers.setdefault(call.loop, []).append((call, outcome))
    for loop, settled in answers.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits for the answer any more
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Iterable[tuple[_Call, Any]]) -> None:
    for call, outcome in settled:
        is_failure = isinstance(outcome, Exception)
        if call.tell is not None and not is_failure:
            call.tell(outcome)
        if call.answer.done():  # its caller was cancelled; the write holds all the same
            continue
        if is_failure:
            call.answer.set_exception(outcome)
        else:
            call.answer.set_result(outcome)
