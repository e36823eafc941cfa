"""Polls a table of the user's own on PostgreSQL.

Needs the extra ``rota[postgres]``. Only the column with the time that a row sleeps until is
written.
"""

from asyncio import Lock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from msgspec import UNSET

from rota.clock.idle import in_flight
from rota.errors import InvalidInputError, MissingExtraError, StoreError, StoreUnavailableError
from rota.poller.protocol import JobUpdate, PolledJob
from rota.poller.sql_names import (
    TableColumns,
    choose_columns,
    name_index,
    quote,
    quote_table,
    read_columns,
    read_condition,
)
from rota.stores.statements import Statements
from rota.triggers.zone import to_utc

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
