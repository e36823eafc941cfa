"""The two threads of a store: one writes, and one reads beside it.

Calls that arrive while the writer's thread is busy are carried out together in one transaction,
because the wait for the disk is the same for one write as for a thousand. A call that arrives at a
quiet moment is carried out at once. The reader has a connection of its own: a long scan never holds
up a write.
"""

import atexit
from asyncio import AbstractEventLoop, Future, get_running_loop
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar
from weakref import WeakSet, finalize

import apsw

from rota.clock.loop import in_flight, turn
from rota.clock.system import monotonic
from rota.errors import RotaError, UnsupportedConnectionError
from rota.stores.opened import ClosableStore
from rota.stores.rows import Row
from rota.stores.sqlite.connection import (
    Patience,
    SqliteSettings,
    be_patient,
    open_reader,
    open_watch,
    open_writer,
    transaction,
)
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session
from rota.stores.sqlite.translation import translate, translated

MOST_WRITES_TOGETHER = 20_000
"""A shared transaction has at most this many writes, so that other processes get their turn."""

QUICK_SECONDS = 0.0005
"""While a write takes less, with the wait for the disk, it may keep the event loop waiting."""

LONG_LOG = 1_000
"""A write-ahead log of this many pages is folded into the file, as by default. A longer one saves
a commit 1 %, but until it has grown each commit takes half as long again."""

Result = TypeVar("Result")
Work: TypeAlias = Callable[[apsw.Connection], Result]
"""Reads and writes inside an open transaction.

It may be called again, in a transaction of its own, if the shared one could not be completed.
"""


class OneRow(NamedTuple, Generic[Result]):
    """Work that one statement does by itself, and its result if the statement writes the row."""

    statement: str
    row: Row
    result: Result


class Call(NamedTuple, Generic[Result]):
    """Work of a caller that waits in its event loop. Virtual time stands still until it is done."""

    work: Callable[..., Result]
    answer: "Future[Result]"
    loop: AbstractEventLoop
    write_count: int = 0
    notify: Callable[[Result], None] | None = None
    one_row: OneRow[Result] | None = None

    @classmethod
    def of(cls, work: Callable[..., Result], *options: Any) -> "Call[Result]":
        """Call it in the event loop, which waits from now on."""
        loop = get_running_loop()
        in_flight().depart()
        return cls(work, loop.create_future(), loop, *options)


class WorkThread:
    """One thread. It carries out all submitted work in order, even if no caller waits any more.

    An executor of the standard library wakes the event loop twice for each call, and takes twice
    the processor time.
    """

    def __init__(self, name: str) -> None:
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=_serve, args=(self._steps,), name=name, daemon=True)
        self._thread.start()
        self.submit: Callable[[Callable[[], None]], None] = self._steps.put
        """Carry out a step that raises nothing and answers its callers itself."""
        self._end = finalize(self, self._steps.put, None)
        self._end.atexit = False
        _threads.add(self)

    @classmethod
    async def open(cls, name: str, work: Callable[[], Result]) -> tuple[Self, Result]:
        """A thread and the result of its first work; no thread is left if that fails."""
        thread = cls(name)
        try:
            return thread, await thread.run(work)
        except BaseException:
            thread.end()
            raise

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of the work; cancelling stops only the waiting."""
        call = Call.of(work)
        self.submit(lambda: _answer([call], [_try(work)]))
        return await call.answer

    def end(self) -> None:
        """End the thread once it has done what was submitted."""
        self._end()

    def finish(self) -> None:
        """Wait until all that was submitted is done. In a forked child there is no such thread."""
        if self._end.alive and self._thread.is_alive():
            done = Event()
            self.submit(done.set)
            done.wait()
        else:
            self._thread.join()


_threads: WeakSet[WorkThread] = WeakSet()


@atexit.register
def _finish_work() -> None:
    """Carry out what was submitted. Exit handlers that run after this one may submit more."""
    for thread in list(_threads):
        thread.finish()


def _serve(steps: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (step := steps.get()) is not None:
        step()
        del step  # it refers to its callers


def _try(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - passed to the caller, which waits in another thread
        return error


class _Rows:
    """Writes single rows, each by a statement that is its own transaction."""

    def __init__(self, connection: apsw.Connection, patience: Patience) -> None:
        self._connection = connection
        self._cursor = connection.cursor()  # a new one for each row takes longer
        self._patience = patience
        self._recent_seconds = 2 * QUICK_SECONDS  # until the first writes have shown it

    @property
    def is_quick(self) -> bool:
        """Whether recent writes to this file, with the wait for the disk, were quick."""
        return self._recent_seconds < QUICK_SECONDS

    def write(self, statement: str, row: Row) -> bool:
        """False if the statement changes nothing."""
        begun = monotonic()
        self._cursor.execute(statement, row)
        taken = min(monotonic() - begun, 4 * QUICK_SECONDS)  # one very slow write says little
        self._recent_seconds += (taken - self._recent_seconds) / 8
        return self._connection.changes() == 1

    def write_at_once(self, statement: str, row: Row) -> bool:
        """As ``write``, without a wait for the locks of others; False if one is taken."""
        self._patience.is_over = True
        try:
            return self.write(statement, row)
        except apsw.BusyError:
            return False
        finally:
            self._patience.is_over = False


class _Log:
    """Folds the write-ahead log into the file when it is long.

    SQLite would do it inside the commit that makes the log long, and keep the event loop waiting.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._page_count = 0
        connection.set_wal_hook(self._note)

    def _note(self, _connection: apsw.Connection, _name: str, page_count: int) -> int:
        self._page_count = page_count
        return apsw.SQLITE_OK

    @property
    def is_long(self) -> bool:
        return self._page_count >= LONG_LOG

    def fold_if_long(self) -> None:
        """Nothing depends on it: if it fails, a later commit will try again."""
        if self.is_long:
            self._page_count = 0
            with suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


class Writer:
    """Carries out writes in its thread, all that are waiting in one transaction.

    A row that is the only write may be written in the caller's own thread.
    """

    def __init__(
        self, connection: apsw.Connection, thread: WorkThread, settings: SqliteSettings
    ) -> None:
        self._connection = connection
        self._rows = _Rows(connection, be_patient(connection, settings))
        self._log = _Log(connection)
        self._thread = thread
        self._path = settings.path
        self._waiting: deque[Call[Any]] = deque()
        self._call_count = 0
        self._is_called = False
        self._is_closed = False
        self._lock = Lock()

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """A writer on the file, which is created or migrated if needed, and refused if damaged."""
        thread, connection = await WorkThread.open(
            "rota-sqlite-writer", lambda: open_writer(settings)
        )
        return cls(connection, thread, settings)

    async def close(self) -> None:
        """Carry out what was submitted, then close the file."""
        await self._thread.run(self._close)
        self._thread.end()

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._connection.close()

    def write_here(self, statement: str, row: Row) -> bool:
        """Write a row by one statement in the caller's own thread, and block it.

        False if the statement changes nothing, the file is closed, or another thread writes: a
        call that joins the others in the writer's thread then shares their transaction.
        """
        if self._lock.locked():
            return False
        with self._lock:  # a signal after a call of acquire() would leave it locked for ever
            if self._is_closed:
                return False
            try:
                is_written = self._rows.write(statement, row)
            except apsw.Error as error:
                raise translate(error, self._path) from error
            self._log.fold_if_long()
            return is_written

    def run(
        self,
        work: Work[Result],
        write_count: int = 1,
        notify: Callable[[Result], None] | None = None,
        one_row: OneRow[Result] | None = None,
    ) -> "Future[Result]":
        """Do the work in a transaction, together with that of other callers.

        ``notify`` gets the result once it is durable, in the caller's event loop, even if the
        caller no longer waits. ``one_row`` does the same work or nothing. It is tried if no other
        caller waits: the statement is its own transaction, which takes four fifths of the processor
        time.
        """
        call = Call.of(work, write_count, notify, one_row)
        self._call_count += 1
        self._waiting.append(call)
        self._call_thread()
        return call.answer

    def run_alone(self, work: Work[Result]) -> "Future[Result]":
        """Do work that cannot be repeated, in a transaction of its own."""
        return self.run(work, MOST_WRITES_TOGETHER + 1)

    async def write_in_turn(self, statement: str, row: Row) -> bool:
        """As ``write_here``, in the event loop; False as well if the thread should do it.

        The loop is held up only by a write that is likely to be quick: recent ones were, no other
        process has the file locked, and no other call comes in this turn of the loop. Between two
        of these writes the loop does everything else that is ready.
        """
        if self._is_busy or not self._rows.is_quick:
            return False
        self._call_count = mine = self._call_count + 1
        await turn()
        if self._call_count != mine or self._is_busy:
            return False
        with self._lock:  # free: only a caller of ``write_here`` could have come in between
            try:
                if self._is_closed or not self._rows.write_at_once(statement, row):
                    return False
            except apsw.Error as error:
                raise translate(error, self._path) from error
        if self._log.is_long:
            self._call_thread()
        return True

    @property
    def _is_busy(self) -> bool:
        """Whether the thread is called or has calls to carry out, or any thread writes."""
        return self._is_called or bool(self._waiting) or self._lock.locked()

    def _call_thread(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._thread.submit(self._serve_waiting)

    def _serve_waiting(self) -> None:
        with self._lock:
            # In this order: a call after the first line starts a turn of its own, and a call before
            # it is counted by the second line.
            self._is_called = False
            left_count = len(self._waiting)
            self._log.fold_if_long()
        while left_count:
            with self._lock:
                self._log.fold_if_long()  # else it grows as long as calls are waiting
                group = self._take_group(left_count)
                outcomes = self._carry_out(group)
            left_count -= len(group)
            _answer(group, outcomes)
        if self._log.is_long:
            self._call_thread()

    def _take_group(self, most: int) -> list[Call[Any]]:
        group = [self._waiting.popleft()]
        write_count = group[0].write_count
        while len(group) < most:
            write_count += self._waiting[0].write_count
            if write_count > MOST_WRITES_TOGETHER:
                break
            group.append(self._waiting.popleft())
        return group

    def _carry_out(self, group: Sequence[Call[Any]]) -> list[Any]:
        """The result or the exception of each call. No call fails because of another."""
        one_row = group[0].one_row if len(group) == 1 else None
        try:
            if one_row is not None and self._rows.write(one_row.statement, one_row.row):
                return [one_row.result]
            with transaction(self._connection):
                return [self._do(call.work) for call in group]
        except apsw.BusyError as error:
            # Nothing has begun, and one by one each call would wait as long.
            return [self._failure(error) for _ in group]
        except BaseException as error:  # noqa: BLE001 - passed to the callers, which wait in another thread
            if len(group) == 1:
                return [self._failure(error)]
            return [outcome for call in group for outcome in self._carry_out([call])]

    def _do(self, work: Work[Any]) -> Any:
        before = self._connection.total_changes()
        try:
            return work(self._connection)
        except RotaError as refusal:
            # Refused before it wrote anything: the other calls are not affected.
            if self._connection.total_changes() == before:
                return refusal
            raise

    def _failure(self, error: BaseException) -> BaseException:
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
    """Reads all committed data, in its thread."""

    def __init__(self, connections: _Readers, thread: WorkThread, path: Path) -> None:
        self._connection, self._watch = connections
        self._thread = thread
        self._path = path

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """A reader of a file that a writer has opened."""
        thread, connections = await WorkThread.open(
            "rota-sqlite-reader", lambda: _Readers.open(settings)
        )
        return cls(connections, thread, settings.path)

    async def close(self) -> None:
        """Answer what was asked, then close the file."""
        await self._thread.run(self._close)
        self._thread.end()

    def _close(self) -> None:
        self._watch.close()
        self._connection.close()

    def read_version(self) -> int | None:
        """A number that changes after any commit; None if it cannot be read.

        It is read in the caller's thread: that takes two microseconds, waits for no lock and, while
        there are no commits, reads nothing from the disk.
        """
        try:
            ((version,),) = self._watch.execute(QUERIES.read_version)
        except apsw.Error:  # then a caller reads the file, and gets the error
            return None
        return int(version)

    async def run(self, work: Work[Result]) -> Result:
        """Do work that only reads. Each statement sees one moment."""
        return await self._thread.run(lambda: self._run(work))

    def _run(self, work: Work[Result]) -> Result:
        with translated(self._path):
            return work(self._connection)


class OpenFile(ClosableStore):
    """Both threads on one file: what the verbs of documents and jobs use."""

    def __init__(self, settings: SqliteSettings, writer: Writer, reader: Reader) -> None:
        super().__init__()
        self._settings = settings
        self._writer = writer
        self._reader = reader

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """The store at a path. A missing file is created, an existing one checked."""
        writer = await Writer.open(settings)
        try:
            return cls(settings, writer, await Reader.open(settings))
        except BaseException:
            await writer.close()
            raise

    async def _release(self) -> None:
        # The writer last: the last to close a file folds its log into it, and a reader cannot.
        await self._reader.close()
        await self._writer.close()

    def _open_reader(self) -> Reader:
        self._refuse_when_unusable()
        return self._reader

    def _open_writer(self) -> Writer:
        self._refuse_when_unusable()
        return self._writer

    @contextmanager
    def _joined(self, connection: object) -> Iterator[Session]:
        """The caller's own connection, in its open transaction; an error leaves that as it was."""
        self._refuse_when_unusable()
        path = self._settings.path
        joined = _check_connection(connection, path)
        with translated(path), joined:  # a savepoint
            yield Session(joined)


def _check_connection(connection: object, path: Path) -> apsw.Connection:
    """Refuse anything but a connection to the file with an open transaction."""
    if not isinstance(connection, apsw.Connection):
        raise UnsupportedConnectionError("it is not a connection of apsw")
    name = connection.filename
    if not name or not path.samefile(name):
        raise UnsupportedConnectionError(f"it is connected to another file than {path}")
    if not connection.in_transaction:
        raise UnsupportedConnectionError("no transaction is under way on it")
    return connection


def _answer(group: Sequence[Call[Any]], outcomes: Sequence[Any]) -> None:
    """Wake each loop once, however many of its calls are answered."""
    settled = list(zip(group, outcomes, strict=True))
    for loop in {call.loop for call in group}:
        try:
            loop.call_soon_threadsafe(_settle, loop, settled)
        except RuntimeError:  # the loop was closed: the answer is not needed any more
            continue


def _settle(loop: AbstractEventLoop, settled: Iterable[tuple[Call[Any], Any]]) -> None:
    flights = in_flight()
    for call, outcome in settled:
        if call.loop is not loop:
            continue
        flights.land()
        is_failure = isinstance(outcome, BaseException)
        if call.notify is not None and not is_failure:
            call.notify(outcome)
        if call.answer.done():  # its caller was cancelled; the write holds
            continue
        if is_failure:
            call.answer.set_exception(outcome)
        else:
            call.answer.set_result(outcome)
