"""New connections: to one server or the first of several that will do, and through poolers.

A pooler in transaction mode sends each transaction over another connection of the server. So a
setting, a LISTEN or a prepared statement of one transaction is gone in the next. The store then
sends each statement with its text, and begins each transaction with its settings, unless the owner
of the server has made them for the store's user.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from secrets import token_hex
from typing import Any, TypeVar

import asyncpg
from asyncpg import Connection, Record, exceptions
from asyncpg.prepared_stmt import PreparedStatement

from rota.stores.postgres.address import Pooling, PostgresSettings
from rota.stores.postgres.queries import QUERIES

Result = TypeVar("Result")

_NEXT_SERVER = (
    OSError,
    exceptions.CannotConnectNowError,
    exceptions.TargetServerAttributeNotMatched,
)
"""After one of these, another server may do; a TimeoutError is an OSError."""

_APPLICATION = {"application_name": "rota"}
"""Poolers pass it on."""

PLANNING = {
    # Rows are looked up one by one through an index, in the order in which they are named or
    # wanted. A plan that reads the whole table, or sorts, would lock rows in another order and
    # take longer the more rows there are; and it would be kept from the day when the table was
    # empty, or its statistics were out of date.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "jit": "off",
}
"""Through a pooler these are set for each transaction, or by the owner for the store's user."""


class UnpreparedConnection(Connection):
    """Sends every statement with its text, in one message with its values.

    The driver alone would first ask the server for the types of the values, each time. Those of a
    statement never change, so they are asked for once.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known: dict[str, PreparedStatement[Record]] = {}

    async def fetch(self, query: str, *args: Any) -> list[Record]:  # type: ignore[override] # fewer
        """The rows of a statement."""
        statement = self._known.get(query)
        if statement is None:
            statement = self._known[query] = await self.prepare(query, name="")
        return await statement.fetch(*args)


async def find_pooling(settings: PostgresSettings) -> "tuple[PostgresSettings, Connection[Record]]":
    """The settings with what is in between, and a first connection by them."""
    if settings.pooling is Pooling.UNKNOWN:
        direct = replace(settings, pooling=Pooling.NONE)
        own = await _connect_to_own_session(direct)
        if own is not None:
            return direct, own
        settings = replace(settings, pooling=Pooling.TRANSACTION)
    connection = await connect(settings)
    if settings.pooling is not Pooling.TRANSACTION:
        return settings, connection
    lacking = await _asked(connection, find_lacking(connection), settings)
    settings = replace(settings, sets_locally=bool(lacking))
    if not await _asked(connection, _is_tracked(connection), settings):
        return settings, connection
    connection.terminate()
    tracked = replace(settings, pooling=Pooling.TRACKED)
    return tracked, await connect(tracked)


async def is_own_session(connection: "Connection[Record]") -> bool:
    """Whether the process that answers is the one that greeted: poolers greet by themselves."""
    ((process_id,),) = await connection.fetch(QUERIES.read_process_id)
    return bool(process_id == connection.get_server_pid())


async def find_lacking(connection: "Connection[Record]") -> list[str]:
    """The settings for plans that the server has otherwise on this connection."""
    wanted = ([*PLANNING], [*PLANNING.values()])
    return [name for (name,) in await connection.fetch(QUERIES.find_differing_settings, *wanted)]


async def connect(settings: PostgresSettings) -> "Connection[Record]":
    """A new connection as the store uses it; of several servers, to the first that will do.

    Each gets an equal part of the time: one that is silent does not use up that of the others.
    """
    seconds = settings.connect_for.total_seconds()
    if not settings.places:
        return await _connect(settings, seconds)
    last = len(settings.places) - 1
    for number, (host, port) in enumerate(settings.places):
        try:
            return await _connect(settings, seconds / (last + 1), host=host, port=port)
        except _NEXT_SERVER:
            if number == last:
                raise
    raise AssertionError("the loop returns or raises")


async def _connect(
    settings: PostgresSettings, seconds: float, **place: Any
) -> "Connection[Record]":
    options: dict[str, Any] = {"server_settings": session_settings(settings)}
    if settings.pooling is Pooling.TRANSACTION:
        options |= {"connection_class": UnpreparedConnection, "statement_cache_size": 0}
    connection: Connection[Record] = await asyncpg.connect(
        settings.url, timeout=seconds, **options, **place
    )
    return connection


async def _connect_to_own_session(settings: PostgresSettings) -> "Connection[Record] | None":
    """A connection; None where a pooler refuses its settings, or drops them."""
    try:
        connection = await connect(settings)
    except exceptions.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
        return None
    if await _asked(connection, is_own_session(connection), settings):
        return connection
    connection.terminate()
    return None


async def _asked(
    connection: "Connection[Record]", question: Any, settings: PostgresSettings
) -> Any:
    """The answer; without one in time, or with an error, the connection is dropped."""
    try:
        async with asyncio.timeout(settings.connect_for.total_seconds()):
            return await question
    except BaseException:
        connection.terminate()
        raise


async def _is_tracked(connection: "Connection[Record]") -> bool:
    """Whether the pooler gives prepared statements names of its own, to send them again."""
    name = f"rota_{token_hex(8)}"
    async with connection.transaction():
        statement = await connection.prepare(QUERIES.ping, name=name)
        named = await connection.fetch(QUERIES.find_prepared, name)
        del statement
        await connection.fetch(QUERIES.read_clock)  # before it, the driver closes the statement
    return not named


def session_settings(settings: PostgresSettings) -> dict[str, str]:
    """How the server treats the connections. Its owner decides whether commits are durable."""
    if settings.pooling.is_pooled:
        return _APPLICATION
    return {
        **_APPLICATION,
        **transaction_settings(settings),
        "default_transaction_isolation": "read committed",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }


def transaction_settings(settings: PostgresSettings) -> dict[str, str]:
    """Those that can also be made for one transaction."""
    answer_ms = settings.answer_for // timedelta(milliseconds=1)
    return {
        # The server gives up before the deadline, so that the outcome is known; and it ends the
        # transactions of peers that are gone.
        "statement_timeout": f"{answer_ms * 3 // 4}",
        "idle_in_transaction_session_timeout": f"{3 * answer_ms}",
        **PLANNING,
    }
