"""Connections of asyncmy, the statements on them, and what they report."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import asyncmy
from asyncmy import errors
from asyncmy.connection import Connection
from asyncmy.constants.FIELD_TYPE import VAR_STRING
from asyncmy.cursors import Cursor

from rota.errors import (
    DamagedJobError,
    StoreError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.jobs import Job
from rota.stores.mysql.address import MysqlSettings
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import COLUMNS, Row, decode_job
from rota.stores.sql.server import Database, ServerSession

DUPLICATE = 1062
_ROLLED_BACK = frozenset({1213, 1205, DUPLICATE})
"""A deadlock, a lock that others kept too long, a name that another transaction took first."""

_LOST = frozenset({0, 1053, 1077, 1079, 1927, 2006, 2013, 2014, 2055})
"""After one of these it is unknown whether the last statement took effect."""

_NO_SERVER = 2003
_REASONS = {
    1049: "there is no such database; create it with CREATE DATABASE",
    1205: "another program has kept it locked for too long",
    1213: "others were writing to the same records",
    _NO_SERVER: "no server listens at that address",
}
"""What the server's own message, which is shown too, does not say."""

MOST_BYTES_AT_ONCE = 4 << 20
"""A statement with many rows is divided: a server takes 16 MiB at once by default."""

CLOSED_WITHIN = 10.0
"""Seconds that a server may take for a goodbye."""

_NAMES_AT = [*map(COLUMNS.index, ("tenant", "queue", "kind", "lease_worker"))]
_KEYS = slice(COLUMNS.index("idempotency_key"), COLUMNS.index("occurrence") + 1)


def code_of(error: BaseException | None) -> int:
    """The server's or the driver's number of an error; 0 for a connection that is closed."""
    code = error.args[0] if error is not None and error.args else 0
    return code if isinstance(code, int) else 0


def is_lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more."""
    return not isinstance(error, errors.MySQLError) or code_of(error) in _LOST


def escape(connection: Any, value: Any) -> str:
    """A value as the server reads it; a tuple as ``(a, b)``, a list as ``a, b`` without an end.

    An empty list has an empty name in it, which no record has.
    """
    if isinstance(value, list | tuple):
        text = ",".join([escape(connection, each) for each in value])
        return f"({text})" if isinstance(value, tuple) else text or "''"
    return str(connection.escape(value))


def read_names(rows: Iterable[Row], description: Sequence[Sequence[Any]]) -> list[Row]:
    """The rows with names as text; a byte that is not UTF-8 becomes half a surrogate pair.

    The driver sends that as the same byte again.
    """
    names_at = [at for at, column in enumerate(description) if column[1] == VAR_STRING]
    return [_read_names(row, names_at) for row in rows] if names_at else list(rows)


def _read_names(row: Row, names_at: Iterable[int]) -> Row:
    values = list(row)
    for at in names_at:
        if isinstance(values[at], bytes):
            values[at] = values[at].decode(errors="surrogateescape")
    return tuple(values)


class _Cursor(Cursor):
    async def _show_warnings(self, conn: Connection) -> None:
        """The driver would ask for warnings, and log them, after each statement that has some."""


class Session(ServerSession):
    """The statements on a connection."""

    name = "mysql"
    queries = QUERIES
    driver_errors = (errors.MySQLError, OSError)

    def __init__(
        self, connection: Any, answer_for: float, most_bytes: int, *, is_callers: bool = False
    ) -> None:
        self._connection = connection
        self._answer_for = answer_for
        self._most_bytes = most_bytes
        self._is_lost = False
        self.is_callers = is_callers

    async def fetch(self, statement: str, **values: Any) -> list[Row]:
        return await self.run(self._fill(statement, values))

    async def fetch_each(
        self, statement: str, places: Sequence[Mapping[str, Any]], **values: Any
    ) -> list[Row]:
        part = f"({statement.removesuffix(';')})"
        parts = [self._fill(part, {**values, **place}) for place in places]
        return await self.run(" UNION ALL ".join(parts)) if parts else []

    def _fill(self, statement: str, values: Mapping[str, Any]) -> str:
        return statement % {at: escape(self._connection, each) for at, each in values.items()}

    async def write(self, statement: str, rows: Iterable[Row]) -> None:
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

    async def run(self, sql: str) -> list[Row]:
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
            self._is_lost = is_lost(error)
            raise

    def decode(self, row: Row, /) -> Job:
        try:
            "".join([row[at] or "" for at in _NAMES_AT]).encode()
            if row[_KEYS] != (None, None):
                keys = [each and each.decode() for each in row[_KEYS]]
                row = (*row[: _KEYS.start], *keys, *row[_KEYS.stop :])
        except UnicodeError as error:
            what = "its key" if isinstance(error, UnicodeDecodeError) else "a name"
            raise DamagedJobError(row[0], f"{what} is not UTF-8") from error
        return decode_job(row)

    @property
    def is_usable(self) -> bool:
        """In a transaction it is not: its COMMIT has failed."""
        connection = self._connection
        return connection.connected and not (self._is_lost or connection.get_transaction_status())

    async def close(self) -> None:
        with suppress(*self.driver_errors):
            async with asyncio.timeout(CLOSED_WITHIN):
                await self._connection.ensure_closed()
        self.abandon()  # in case the server did not answer

    def abandon(self) -> None:
        self._connection.close()


class MysqlDatabase(Database):
    """The connections to a database."""

    def __init__(self, settings: MysqlSettings, most_bytes: int = 1 << 20) -> None:
        super().__init__(settings.connection_count)
        self._settings = settings
        self.most_bytes = most_bytes
        """How much the server takes at once."""

    def reopened(self) -> "MysqlDatabase":
        return MysqlDatabase(replace(self._settings, connection_count=1), self.most_bytes)

    async def _connect(self) -> Session:
        settings = self._settings
        try:
            async with asyncio.timeout(settings.connect_for.total_seconds()):
                connection: Any = await asyncmy.connect(**settings.driver_arguments)
                for statement in QUERIES.configure_session.removesuffix(";").split(";"):
                    await connection.query(statement)
        except (TimeoutError, errors.OperationalError) as error:
            code = code_of(error)
            raise errors.OperationalError(
                _NO_SERVER if code in _LOST else code, str(error)
            ) from error
        return Session(connection, settings.answer_for.total_seconds(), self.most_bytes)

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except Session.driver_errors as error:
            label, lost = self._settings.label, is_lost(error)
            usual = "the connection to the server was lost" if lost else "the server refused"
            reason = _REASONS.get(code_of(error), usual)
            if isinstance(error, TimeoutError):
                reason = "the server did not answer in time"
            cause = f" ({error})" if str(error) else ""
            raise StoreUnavailableError(
                f"The store {label} is not available: {reason}{cause}",
                {
                    "store": label,
                    "reason": reason,
                    "outcome": "unknown" if lost else "nothing was written",
                },
            ) from error

    def is_rolled_back(self, error: StoreError) -> bool:
        return code_of(error.__cause__) in _ROLLED_BACK

    def is_about_values(self, error: Exception) -> bool:
        return isinstance(error.__cause__, errors.DataError)

    def join(self, connection: Any) -> Session:
        """On a connection of asyncmy."""
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
        return Session(connection, 3600, self.most_bytes, is_callers=True)
