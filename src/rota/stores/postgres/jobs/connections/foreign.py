"""The caller's own connection, in the middle of a transaction of theirs.

Connections of asyncpg and of psycopg 3 are known, the latter in both colours. Nothing here needs
psycopg to be installed: whoever hands in such a connection has loaded it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from rota.clock.idle import in_flight
from rota.errors import RotaError, UnsupportedConnectionError
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.queries import placed

_Fetch = Callable[..., Awaitable[list[Any]]]


class ForeignStatements:
    """Carries out statements in the caller's transaction; what fails leaves it as it was."""

    is_foreign = True

    def __init__(self, fetch: _Fetch, schema: str) -> None:
        self._fetch = fetch
        self._schema = schema

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows that a statement gives."""
        with in_flight():
            return await self._fetch(placed(statement, self._schema), *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: all that is done inside is done, or none of it."""
        await self.fetch(QUERIES.set_savepoint)
        try:
            yield
        except BaseException:
            await self.fetch(QUERIES.roll_back_to_savepoint)
            await self.fetch(QUERIES.release_savepoint)
            raise
        await self.fetch(QUERIES.release_savepoint)


def statements_on(connection: Any, schema: str) -> ForeignStatements:
    """The way to carry out statements on it; UnsupportedConnectionError when there is none."""
    if isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        if not connection.is_in_transaction():
            raise _without_transaction()
        return ForeignStatements(_fetch_by_asyncpg(connection), schema)
    psycopg: Any = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.AsyncConnection):
        _check_psycopg(connection, psycopg)
        return ForeignStatements(_fetch_by_async_psycopg(connection, psycopg), schema)
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        _check_psycopg(connection, psycopg)
        return ForeignStatements(_fetch_by_psycopg(connection, psycopg), schema)
    raise UnsupportedConnectionError(
        f"a {type(connection).__name__} is no connection of asyncpg or psycopg 3"
    )


def _fetch_by_asyncpg(connection: Any) -> _Fetch:
    async def fetch(statement: str, *arguments: Any) -> list[Any]:
        if arguments:
            return list(await connection.fetch(statement, *arguments))
        await connection.execute(statement)
        return []

    return fetch


def _fetch_by_async_psycopg(connection: Any, psycopg: Any) -> _Fetch:
    async def fetch(statement: str, *arguments: Any) -> list[Any]:
        cursor = psycopg.AsyncRawCursor(connection, row_factory=psycopg.rows.tuple_row)
        async with cursor:
            await cursor.execute(statement, arguments)
            return _in_utc(await cursor.fetchall()) if cursor.description else []

    return fetch


def _fetch_by_psycopg(connection: Any, psycopg: Any) -> _Fetch:
    def fetch_at_once(statement: str, arguments: tuple[Any, ...]) -> list[Any]:
        with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement, arguments)
            return _in_utc(cursor.fetchall()) if cursor.description else []

    async def fetch(statement: str, *arguments: Any) -> list[Any]:
        return await asyncio.to_thread(fetch_at_once, statement, arguments)

    return fetch


def _in_utc(rows: list[tuple[Any, ...]]) -> list[Any]:
    """The driver gives instants in the zone of the caller's session."""
    return [
        tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)
        for row in rows
    ]


def _check_psycopg(connection: Any, psycopg: Any) -> None:
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
        raise _without_transaction()


def _without_transaction() -> RotaError:
    return UnsupportedConnectionError("it has no transaction under way")
