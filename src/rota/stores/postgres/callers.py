"""Statements on a connection of the caller, in the transaction that the caller has begun."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from rota.clock.loop import in_flight
from rota.errors import UnsupportedConnectionError
from rota.stores.postgres.queries import QUERIES, placed

_Fetch = Callable[..., Awaitable[list[Any]]]


class CallersStatements:
    """Runs statements in the caller's transaction; a failure leaves it as it was."""

    is_callers = True

    def __init__(self, fetch: _Fetch, schema: str) -> None:
        self.schema = schema
        self._fetch = fetch

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a statement."""
        with in_flight():
            return await self._fetch(placed(statement, self.schema), *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: everything inside happens, or nothing."""
        await self.fetch(QUERIES.set_savepoint)
        try:
            yield
        except BaseException:
            await self.fetch(QUERIES.roll_back_to_savepoint)
            await self.fetch(QUERIES.release_savepoint)
            raise
        await self.fetch(QUERIES.release_savepoint)


def statements_on(connection: Any, schema: str) -> CallersStatements:
    """Statements on the caller's connection, of asyncpg or psycopg 3 (either kind).

    psycopg need not be installed: a caller that has one of its connections has loaded it. Raises
    UnsupportedConnectionError for other connections, and without an open transaction.
    """
    psycopg: Any = sys.modules.get("psycopg")
    if isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        fetch, is_open = _fetch_by_asyncpg(connection), connection.is_in_transaction()
    elif psycopg is not None and isinstance(
        connection, psycopg.AsyncConnection | psycopg.Connection
    ):
        is_async = isinstance(connection, psycopg.AsyncConnection)
        fetch = (_fetch_by_async_psycopg if is_async else _fetch_by_psycopg)(connection, psycopg)
        is_open = _is_open_in_psycopg(connection, psycopg.pq.TransactionStatus)
    else:
        kind = type(connection).__name__
        raise UnsupportedConnectionError(f"a {kind} is not a connection of asyncpg or psycopg 3")
    if not is_open:
        raise UnsupportedConnectionError("it has no transaction under way")
    return CallersStatements(fetch, schema)


def _is_open_in_psycopg(connection: Any, statuses: Any) -> bool:
    """Whether a statement is part of a transaction: without autocommit the first one begins it."""
    if connection.closed:
        raise UnsupportedConnectionError("it is closed")
    status = connection.info.transaction_status
    if status == statuses.INERROR:
        raise UnsupportedConnectionError("its transaction has failed; roll it back first")
    return bool(status == statuses.INTRANS or not connection.autocommit)


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
    def fetch_in_thread(statement: str, arguments: tuple[Any, ...]) -> list[Any]:
        with psycopg.RawCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement, arguments)
            return _in_utc(cursor.fetchall()) if cursor.description else []

    async def fetch(statement: str, *arguments: Any) -> list[Any]:
        return await asyncio.to_thread(fetch_in_thread, statement, arguments)

    return fetch


def _in_utc(rows: list[tuple[Any, ...]]) -> list[Any]:
    """The driver returns instants in the time zone of the caller's session."""
    return [
        tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)
        for row in rows
    ]
