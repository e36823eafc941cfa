"""Polls a table of the user's own on PostgreSQL.

Needs the extra ``rota[postgres]``. Only the column with the time that a row sleeps until is
written. The names in the table are quoted, and checked against what the table has.
"""

import re
from asyncio import Lock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypedDict, Unpack

from msgspec import UNSET

from rota.clock.loop import in_flight
from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError, MissingExtraError, StoreError, StoreUnavailableError
from rota.poller.protocol import JobUpdate, PolledJob
from rota.stores.statements import Statements

try:
    import asyncpg
    from asyncpg import exceptions
    from asyncpg.pool import Pool, PoolConnectionProxy
except ModuleNotFoundError as error:
    raise MissingExtraError("Tables of PostgreSQL", "asyncpg", "postgres") from error

_STATEMENTS = Statements("rota.poller", "sql_table.sql")
_LOST_CONNECTION: tuple[type[Exception], ...] = (
    OSError,
    exceptions.PostgresConnectionError,
    exceptions.OperatorInterventionError,
    exceptions.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)

LONGEST_NAME = 63
"""In bytes. PostgreSQL cuts longer names off without an error."""

_DEFAULTS = {
    "id_column": "id",
    "sleep_until_column": "sleep_until",
    "interval_column": "interval",
    "repeat_until_column": "repeat_until",
    "auto_remove_column": "auto_remove",
}
_REQUIRED = ("id_column", "sleep_until_column")
_UNZONED, _ZONED = 1114, 1184
_WANTED_TYPES = {
    "sleep_until_column": "timestamptz, or timestamp in UTC",
    "interval_column": "text",
    "repeat_until_column": "timestamptz, or timestamp in UTC",
    "auto_remove_column": "boolean",
}
_CATEGORIES = {"interval_column": "S", "auto_remove_column": "B"}
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_PLACEHOLDER = re.compile(r"\$(\d+)")


class ColumnNames(TypedDict, total=False):
    """The names of the columns, exactly as the table has them.

    The defaults are ``id``, ``sleep_until``, ``interval``, ``repeat_until`` and ``auto_remove``.
    The table may lack the last three; None says that it does.
    """

    id_column: str
    sleep_until_column: str
    interval_column: str | None
    repeat_until_column: str | None
    auto_remove_column: str | None


class TableColumns(NamedTuple):
    """The columns of a table that a poller uses; None for those that it does not have."""

    id: str
    sleep_until: str
    interval: str | None
    repeat_until: str | None
    auto_remove: str | None
    is_zoned: bool
    """Whether ``sleep_until`` is a timestamptz. Otherwise it is in UTC."""

    def as_stored(self, instant: datetime | None) -> datetime | None:
        return instant if instant is None or self.is_zoned else instant.replace(tzinfo=None)

    def require_auto_remove(self) -> str:
        if self.auto_remove is None:
            raise _refusal("auto_remove_column", None, "is not set: name the column to write")
        return self.auto_remove


class SqlTableStore:
    """The rows of a table: a ``PollableStore``.

    ``connection`` is a pool of asyncpg, or a connection that nothing else uses. ``table`` is a
    name, or ``schema.name``. ``condition`` is SQL that rows must also meet, with ``$1``, ``$2`` in
    place of ``parameters``. The table and its columns are checked at the first use.
    """

    def __init__(
        self,
        connection: Any,
        table: str,
        condition: str | None = None,
        parameters: Sequence[Any] = (),
        **columns: Unpack[ColumnNames],
    ) -> None:
        self._connection = _read_connection(connection)
        self._turn = nullcontext() if isinstance(connection, Pool) else Lock()
        self._table = table
        self._quoted = quote_table(table)
        self._condition = read_condition(condition, parameters)
        self._parameters = tuple(parameters)
        self._wanted = read_columns(columns)
        self._columns: TableColumns | None = None

    @property
    def label(self) -> str:
        """What is polled, for people."""
        return f"table {self._table}"

    async def create_index(self) -> str:
        """Create the index for ``lock_next`` unless it exists; returns its name.

        The table cannot be written to until the index is ready.
        """
        columns = await self._find_columns()
        name = name_index(self._table, columns.sleep_until)
        await self._fetch(self._fill(_STATEMENTS.create_index, columns, index=quote(name)))
        return name

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        """Lock the next row; see the protocol.

        One statement with ``FOR UPDATE SKIP LOCKED``, which returns the row as it was before.
        """
        columns, count = await self._find_columns(), len(self._parameters)
        statement = self._fill(
            _STATEMENTS.lock_next,
            columns,
            condition=self._condition,
            now=f"${count + 1}",
            until=f"${count + 2}",
        )
        instants = [
            columns.as_stored(to_utc(now, "now")),
            columns.as_stored(to_utc(lock_until, "lock_until")),
        ]
        rows = await self._fetch(statement, *self._parameters, *instants)
        return _read_row(rows[0], columns) if rows else None

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:  # noqa: ARG002 - required by the protocol
        """Write the update and end the lock; see the protocol."""
        columns = await self._find_columns()
        changes: list[str] = []
        values: list[Any] = [job.id, job.lock]
        if update.sleep_until is not UNSET:
            values.append(columns.as_stored(update.sleep_until))
            changes.append(f"{quote(columns.sleep_until)} = ${len(values)}")
        if update.auto_remove is not UNSET:
            values.append(update.auto_remove)
            changes.append(f"{quote(columns.require_auto_remove())} = ${len(values)}")
        statement = _STATEMENTS.update_row if changes else _STATEMENTS.find_held_row
        filled = self._fill(statement, columns, changes=", ".join(changes))
        return bool(await self._fetch(filled, *values))

    async def remove(self, job: PolledJob) -> bool:
        """Remove the row; see the protocol."""
        statement = self._fill(_STATEMENTS.remove_row, await self._find_columns())
        return bool(await self._fetch(statement, job.id, job.lock))

    async def _find_columns(self) -> TableColumns:
        """The checked columns. InvalidInputError names the option, its value and the remedy."""
        if self._columns is None:
            rows = await self._fetch(_STATEMENTS.describe_table, self._quoted)
            self._columns = choose_columns(self._table, self._wanted, rows)
        return self._columns

    def _fill(self, statement: str, columns: TableColumns, **others: str) -> str:
        return statement.format(
            table=self._quoted,
            id=quote(columns.id),
            sleep_until=quote(columns.sleep_until),
            **others,
        )

    async def _fetch(self, statement: str, *arguments: Any) -> list[Any]:
        with self._translated(), in_flight():
            async with self._turn:
                self._refuse_open_transaction()
                return list(await self._connection.fetch(statement, *arguments))

    def _refuse_open_transaction(self) -> None:
        connection = self._connection
        if isinstance(connection, Pool) or connection.is_closed():
            return
        if connection.is_in_transaction():
            reason = "is in a transaction, so others would not see its locks: give it its own one"
            raise InvalidInputError(f"connection {reason}", {"field": "connection"})

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the driver's exceptions into StoreErrors about the table."""
        try:
            yield
        except _LOST_CONNECTION as error:
            raise StoreUnavailableError(
                f"The table {self._table} is not available: {error!r}"[:500],
                {"store": self._table, "outcome": "unknown"},
            ) from error
        except (asyncpg.PostgresError, OverflowError) as error:
            raise StoreError(
                f"The table {self._table} refuses: {error}"[:500], {"store": self._table}
            ) from error


def _read_connection(connection: object) -> Any:
    if isinstance(connection, Pool | asyncpg.Connection | PoolConnectionProxy):
        return connection
    reason = f"must be a pool or a connection of asyncpg, got a {type(connection).__name__}"
    raise InvalidInputError(
        f"connection {reason}: await asyncpg.create_pool(...) makes a pool",
        {"field": "connection", "reason": reason},
    )


def _read_row(row: Any, columns: TableColumns) -> PolledJob:
    lock, *_ = row.values()
    payload = dict(list(row.items())[1:])
    auto_remove = columns.auto_remove is not None and bool(payload[columns.auto_remove])
    return PolledJob(
        id=payload[columns.id],
        sleep_until=_as_instant(payload[columns.sleep_until]),
        interval=None if columns.interval is None else payload[columns.interval],
        repeat_until=None
        if columns.repeat_until is None
        else _as_instant(payload[columns.repeat_until]),
        auto_remove=auto_remove,
        payload=payload,
        lock=lock,
    )


def _as_instant(value: datetime | None) -> datetime | None:
    """An instant; without a zone it is in UTC."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def quote(name: str) -> str:
    """The name as an identifier in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quote_table(table: object) -> str:
    """``name`` or ``schema.name``, quoted."""
    parts: list[object] = [*table.split(".")] if isinstance(table, str) else [table]
    if len(parts) > 2:
        raise _refusal("table", table, "must be a name, or schema.name")
    return ".".join(quote(_read_name("table", part)) for part in parts)


def name_index(table: str, column: str) -> str:
    """A name for the index, short enough for the server."""
    whole = f"rota_{table.rpartition('.')[2]}_{column}"
    return whole.encode()[:LONGEST_NAME].decode(errors="ignore")


def read_columns(given: Mapping[str, Any]) -> dict[str, str | None]:
    """The names that were given, checked."""
    for option, name in given.items():
        if option not in _DEFAULTS:
            raise TypeError(f"SqlTableStore() has no option {option!r}")
        if name is not None or option in _REQUIRED:
            _read_name(option, name)
    return dict(given)


def read_condition(condition: object, parameters: object) -> str:
    """The condition in parentheses; TRUE without one. Each ``$n`` must have its value."""
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise _refusal("condition", condition, 'must be SQL, such as "status = $1"')
    if not isinstance(parameters, Sequence) or isinstance(parameters, str | bytes):
        raise _refusal("parameters", parameters, "must be a list of the condition's values")
    numbers = {int(it) for it in _PLACEHOLDER.findall(_LITERAL.sub("", condition or ""))}
    if numbers != set(range(1, len(parameters) + 1)):
        expected = max(numbers, default=0)
        reason = f"must have one value for each of $1 to ${expected}, got {len(parameters)}"
        raise _refusal("parameters", parameters, reason if numbers else "need a condition with $1")
    # The line break ends a comment in the text.
    return "TRUE" if condition is None else f"({condition}\n)"


def choose_columns(
    table: str, given: Mapping[str, str | None], rows: Sequence[Mapping[str, Any]]
) -> TableColumns:
    """The columns to use. ``rows`` describe those that the table has.

    A column that was named must exist. Without a name, a default that does not exist is not used.
    """
    found = {row["name"]: row for row in rows}
    if not found:
        reason = "does not exist in this database: create it, or name its schema, as in shop.orders"
        raise _refusal("table", table, reason)
    chosen = {option: _choose(option, given, found) for option in _DEFAULTS}
    named = [name for name in chosen.values() if name is not None]
    for option, name in chosen.items():
        if named.count(name or "") > 1:
            raise _refusal(option, name, "is used for another option too: name another column")
        if name is not None:
            _check_type(option, name, found[name])
    sleep_until = chosen["sleep_until_column"] or ""  # _choose requires it, and the id
    return TableColumns(
        id=chosen["id_column"] or "",
        sleep_until=sleep_until,
        interval=chosen["interval_column"],
        repeat_until=chosen["repeat_until_column"],
        auto_remove=chosen["auto_remove_column"],
        is_zoned=found[sleep_until]["base"] == _ZONED,
    )


def _choose(option: str, given: Mapping[str, str | None], found: Mapping[str, Any]) -> str | None:
    name = given.get(option, _DEFAULTS[option])
    if name is None or name in found:
        return name
    if option not in given and option not in _REQUIRED:
        return None
    remedy = f"is not a column of the table: name one of {', '.join(found)}"
    raise _refusal(option, name, remedy if option in _REQUIRED else f"{remedy}, or None")


def _check_type(option: str, name: str, column: Mapping[str, Any]) -> None:
    if option == "id_column":
        if not column["is_unique"]:
            reason = "must be unique: name the primary key, or add a unique index on it alone"
            raise _refusal(option, name, reason)
        return
    category = _CATEGORIES.get(option)
    fits = (
        column["base"] in {_UNZONED, _ZONED} if category is None else column["category"] == category
    )
    if not fits:
        reason = f"must be of the type {_WANTED_TYPES[option]}, and is {column['type']}"
        raise _refusal(option, name, f"{reason}: name another column, or change its type")
    if option == "sleep_until_column" and column["is_required"]:
        reason = "must allow NULL, which means done"
        raise _refusal(option, name, f"{reason}: ALTER COLUMN {quote(name)} DROP NOT NULL")


def _read_name(option: str, name: object) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise _refusal(option, name, f"must be the name of a {option.rpartition('_')[2]}")
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise _refusal(option, name, f"must have at most {LONGEST_NAME} bytes")
    return name


def _refusal(field: str, value: object, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{field} {value!r:.80} {reason}", {"field": field, "value": value, "reason": reason}
    )
