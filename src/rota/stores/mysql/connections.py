"""The store's connections to the server, the statements on them, and what they report."""

import asyncio
from asyncio import Semaphore, get_running_loop
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import asyncmy
from asyncmy import errors
from asyncmy.connection import Connection
from asyncmy.constants.FIELD_TYPE import VAR_STRING
from asyncmy.cursors import Cursor

from rota.clock.loop import in_flight
from rota.errors import (
    DamagedJobError,
    StoreError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.jobs import Job
from rota.stores.calls import Calls
from rota.stores.mysql.address import MysqlSettings
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import COLUMNS, Row, decode_job

Result = TypeVar("Result")

TRY_COUNT = 5
"""How often work is tried that the server rolls back because of another transaction."""

DUPLICATE = 1062
ROLLED_BACK = frozenset({1213, 1205, DUPLICATE})
"""A deadlock, a lock that others kept too long, a name that another transaction took first."""

DRIVER_ERRORS: tuple[type[Exception], ...] = (errors.MySQLError, OSError)
_LOST = frozenset({0, 1053, 1077, 1079, 1927, 2006, 2013, 2014, 2055})
"""After one of these it is unknown whether the last statement took effect."""

_REASONS = {
    1040: "the server has no connection left",
    1044: "this user may not do that",
    1045: "the server refuses to let this user in",
    1049: "there is no such database; create it with CREATE DATABASE",
    1114: "the server's disk is full",
    1142: "this user may not do that",
    1205: "another program has kept it locked for too long",
    1213: "others were writing to the same records",
    1290: "the server only lets itself be read",
    2003: "no server listens at that address",
}

MOST_BYTES_AT_ONCE = 4 << 20
"""A statement with many rows is divided: a server takes 16 MiB at once by default."""

_NO_NAME = "''"
"""What an empty list has in it: no name is empty."""

_NAMES_AT = [*map(COLUMNS.index, ("tenant", "queue", "kind", "lease_worker"))]
_KEY_AT, _OCCURRENCE_AT = COLUMNS.index("idempotency_key"), COLUMNS.index("occurrence")

IDLE_FOR = 30.0
"""Seconds after which an unused connection is closed; the server ends it after twice that time."""

_IDLE = {"idle_for": int(2 * IDLE_FOR)}


def code_of(error: BaseException | None) -> int:
    """The server's or the driver's number of an error; 0 for a connection that is closed."""
    code = error.args[0] if error is not None and error.args else 0
    return code if isinstance(code, int) else 0


def is_lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more."""
    return not isinstance(error, errors.MySQLError) or code_of(error) in _LOST


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Turn what the driver raises inside into a StoreError about the store at ``label``."""
    try:
        yield
    except DRIVER_ERRORS as error:
        usual = "the connection to the server was lost" if is_lost(error) else "the server refused"
        reason = _REASONS.get(code_of(error), usual)
        if isinstance(error, TimeoutError):
            reason = "the server did not answer in time"
        outcome = "unknown" if is_lost(error) else "nothing was written"
        cause = f" ({error})" if str(error) else ""
        raise StoreUnavailableError(
            f"The store {label} is not available: {reason}{cause}",
            {"store": label, "reason": reason, "outcome": outcome},
        ) from error


def is_about_values(error: Exception) -> bool:
    """Whether it is about the values of one call, rather than about the server."""
    return isinstance(error.__cause__, errors.DataError)


def escape(connection: Any, value: Any) -> str:
    """A value as the server reads it; a tuple as ``(a, b)``, a list as ``a, b`` without an end."""
    if isinstance(value, list | tuple):
        text = ",".join([escape(connection, each) for each in value])
        return f"({text})" if isinstance(value, tuple) else text or _NO_NAME
    return str(connection.escape(value))


def read_names(rows: Iterable[Row], description: Sequence[Sequence[Any]]) -> list[Row]:
    """The rows with names as text; a byte that is not UTF-8 becomes half a surrogate pair.

    The driver sends that as the same byte again.
    """
    places = [at for at, column in enumerate(description) if column[1] == VAR_STRING]
    return [_read_names(row, places) for row in rows] if places else list(rows)


def _read_names(row: Row, places: Iterable[int]) -> Row:
    values = list(row)
    for at in places:
        if isinstance(values[at], bytes):
            values[at] = values[at].decode(errors="surrogateescape")
    return tuple(values)


class _Cursor(Cursor):
    async def _show_warnings(self, conn: Connection) -> None:
        """The driver would ask for warnings, and log them, after each statement that has some."""


class Session:
    """A connection while one call uses it. Every statement has a deadline."""

    name = "mysql"
    queries = QUERIES

    def __init__(
        self, connection: Any, answer_for: float, most_bytes: int, *, is_callers: bool = False
    ) -> None:
        self._connection = connection
        self._answer_for = answer_for
        self._most_bytes = most_bytes
        self._is_callers = is_callers
        self.is_lost = False

    async def fetch(self, statement: str, **values: Any) -> list[Row]:
        """The rows of a statement; names are text."""
        return await self.run(self.fill(statement, **values))

    def fill(self, statement: str, **values: Any) -> str:
        """The statement with these values in it."""
        return statement % {at: escape(self._connection, each) for at, each in values.items()}

    async def change(self, statement: str, ids: Iterable[str], **values: Any) -> None:
        """Run a statement about ``ids``; they are sorted, so that locks are too."""
        if named := sorted(ids):
            await self.fetch(statement, ids=named, **values)

    def decode(self, row: Row, /) -> Job:
        """The job in ``job_columns``; DamagedJobError if they are not a job's."""
        try:
            "".join([row[at] or "" for at in _NAMES_AT]).encode()
        except UnicodeEncodeError as error:
            raise DamagedJobError(row[0], "a name is not UTF-8") from error
        if row[_KEY_AT] is None and row[_OCCURRENCE_AT] is None:
            return decode_job(row)
        values = list(row)
        try:
            for at in (_KEY_AT, _OCCURRENCE_AT):
                values[at] = values[at] and values[at].decode()
        except UnicodeDecodeError as error:
            raise DamagedJobError(row[0], "its key is not UTF-8") from error
        return decode_job(tuple(values))

    async def write(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement with ``:rows`` for these rows, in several parts if they are long."""
        part: list[str] = []
        size = 0
        for row in rows:
            text = escape(self._connection, row)
            if part and size + len(text) > MOST_BYTES_AT_ONCE:
                await self.run(statement.replace(":rows", ",".join(part)))
                part, size = [], 0
            part.append(text)
            size += len(text)
        if part:
            await self.run(statement.replace(":rows", ",".join(part)))

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Everything inside happens, or nothing. In a caller's transaction it is a savepoint."""
        if self._is_callers:
            return self._all_or_none(
                QUERIES.set_savepoint, QUERIES.release_savepoint, QUERIES.roll_back_to_savepoint
            )
        return self._all_or_none(QUERIES.begin, QUERIES.commit, QUERIES.roll_back)

    @asynccontextmanager
    async def _all_or_none(self, begin: str, end: str, undo: str) -> AsyncIterator[None]:
        await self.run(begin)
        try:
            yield
            await self.run(end)
        except BaseException:
            # If the connection is gone, the server rolls back by itself.
            with suppress(*DRIVER_ERRORS):
                await self.run(undo)
            raise

    async def run(self, sql: str) -> list[Row]:
        """The rows of a statement that is complete."""
        is_long = 4 * len(sql) > self._most_bytes  # mostly not: then it need not be encoded
        if is_long and len(sql.encode(errors="surrogateescape")) > self._most_bytes:
            raise StoreUnavailableError(
                f"A record is too large for the server, which takes {self._most_bytes} bytes at "
                "once: raise max_allowed_packet; nothing was written",
                {"reason": "max_allowed_packet is too small", "outcome": "nothing was written"},
            )
        try:
            async with (
                asyncio.timeout(self._answer_for),
                self._connection.cursor(_Cursor) as cursor,
            ):
                await cursor.execute(sql)
                if cursor.description is None:
                    return []
                return read_names(await cursor.fetchall(), cursor.description)
        except BaseException as error:
            self.is_lost = is_lost(error)
            raise


def statements_on(connection: Any, most_bytes: int) -> Session:
    """Statements on the caller's connection of asyncmy, in the transaction it has begun."""
    if not isinstance(connection, Connection):
        kind = type(connection).__name__
        raise UnsupportedConnectionError(f"a {kind} is not a connection of asyncmy")
    charset = connection.character_set_name()  # type: ignore[no-untyped-call] # the driver's
    if charset != "utf8mb4":
        raise UnsupportedConnectionError(
            f"its character set is {charset}; connect with charset='utf8mb4'"
        )
    if not connection.connected or not connection.get_transaction_status():
        raise UnsupportedConnectionError("it has no transaction under way")
    return Session(connection, 3600, most_bytes, is_callers=True)


class Database:
    """Runs calls, each on a connection of its own; lost connections are replaced."""

    def __init__(self, settings: MysqlSettings) -> None:
        self._settings = settings
        self._free = Semaphore(settings.connection_count)
        self._idle: list[tuple[Any, float]] = []
        self.calls = Calls()
        self.most_bytes = 1 << 20
        """How much the server takes at once: ``migrate`` reads it."""

    async def run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Do ``work``, again if the server rolls it back because of another transaction.

        Work that fails leaves nothing behind: it is one statement or one transaction.
        """
        for _ in range(TRY_COUNT - 1):
            try:
                return await self.run_once(work)
            except StoreError as error:
                if code_of(error.__cause__) not in ROLLED_BACK:
                    raise
        return await self.run_once(work)

    async def close(self) -> None:
        """Finish the running calls, then close the connections."""
        with in_flight():
            await self.calls.finish()
            idle, self._idle = self._idle, []
            patience = self._settings.connect_for.total_seconds()
            closing = (asyncio.wait_for(one.ensure_closed(), patience) for one, _ in idle)
            await asyncio.gather(*closing, return_exceptions=True)
            for connection, _ in idle:  # in case the server did not answer
                connection.close()

    async def run_once(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Do ``work``; cancelling stops only the waiting."""
        return await self.calls.run(lambda: self._run(work))

    async def _run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        with translated(self._settings.label):
            async with self._free, self._session() as session:
                return await work(session)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        connection = await self._take_connection()
        patience = self._settings.answer_for.total_seconds()
        session = Session(connection, patience, self.most_bytes)
        try:
            yield session
        finally:
            if session.is_lost or connection.get_transaction_status():
                connection.close()  # in a transaction: its COMMIT has failed
            else:
                self._idle.append((connection, get_running_loop().time()))

    async def _take_connection(self) -> Any:
        now = get_running_loop().time()
        while self._idle:
            connection, since = self._idle.pop()
            if connection.connected and now - since < IDLE_FOR:
                return connection
            connection.close()
        return await connect(self._settings)


async def connect(settings: MysqlSettings) -> Any:
    """A new connection as the store uses it; if it fails, nothing was written."""
    try:
        async with asyncio.timeout(settings.connect_for.total_seconds()):
            connection: Any = await asyncmy.connect(**settings.driver_arguments)
            for statement in (QUERIES.configure_session % _IDLE).removesuffix(";").split(";"):
                await connection.query(statement)
            return connection
    except (TimeoutError, errors.OperationalError) as error:
        code = code_of(error)
        raise errors.OperationalError(2003 if code in _LOST else code, str(error)) from error
