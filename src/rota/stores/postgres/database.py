"""The connections to one database, and the calls that are under way on them."""

import asyncio
from asyncio import Semaphore, Task
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self, TypeVar

import asyncpg
from asyncpg import Connection, Record

from rota.clock.idle import in_flight
from rota.errors import StoreError
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.schema import migrate
from rota.stores.postgres.session import Deadlines, Session
from rota.stores.postgres.translation import DRIVER_ERRORS, NOTHING_WRITTEN, translate

Result = TypeVar("Result")

TRY_COUNT = 5
"""How often work is tried that the server gives up in favour of another."""

GIVEN_UP = (asyncpg.TransactionRollbackError, asyncpg.UniqueViolationError)
"""What the server says then; also when somebody was quicker to take a name."""


class Database:
    """Carries out calls, each on a connection of its own; lost connections are made anew.

    A call that has begun is carried out, whether or not anyone still waits for it: a driver that is
    interrupted half-way leaves a connection in a state that nobody knows.

    The driver's own pool starts three tasks for each call, which take longer than the call itself.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._connect_for = settings.connect_for.total_seconds()
        self._free = Semaphore(settings.connection_count)
        # The last one used comes first: it is the likeliest to know the statement.
        self._idle: list[Connection[Record]] = []
        self._under_way: set[Task[Any]] = set()
        self._deadlines = Deadlines(settings.answer_for)

    @classmethod
    async def open(cls, settings: PostgresSettings) -> Self:
        """The database at an address, with the schema this program needs."""
        database = cls(settings)
        try:
            await database.run(lambda session: migrate(session, settings))
        except BaseException:
            await database.close()
            raise
        return database

    @property
    def label(self) -> str:
        """What the database is called in messages."""
        return self._settings.label

    async def run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Do ``work`` and give its result; cancelling stops only the waiting."""
        return await asyncio.shield(self._start(work))

    def acquaint(self, work: Callable[[Session], Awaitable[object]], connection_count: int) -> None:
        """Have so many connections do ``work`` soon, each once; nobody waits, or hears of failures.

        What a connection does for the first time takes it a hundred times as long: the server has
        to be connected to, the driver asks for the types of values, and plans are made.
        """
        for _ in range(min(connection_count, self._settings.connection_count)):
            self._start(work).add_done_callback(_forget_failure)

    async def run_repeatably(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """As ``run``; work that the server gives up in favour of another is done again.

        The work leaves nothing behind when it fails: it is a statement or a transaction.
        """
        for _ in range(TRY_COUNT - 1):
            try:
                return await self.run(work)
            except StoreError as error:
                if not isinstance(error.__cause__, GIVEN_UP):
                    raise
        return await self.run(work)

    async def close(self) -> None:
        """Complete what is under way, then let the connections go."""
        with in_flight():
            if self._under_way:
                await asyncio.wait(self._under_way)
            self._deadlines.close()
            idle, self._idle = self._idle, []
            with suppress(TimeoutError):
                async with asyncio.timeout(self._connect_for):
                    goodbyes = (connection.close() for connection in idle)
                    await asyncio.gather(*goodbyes, return_exceptions=True)
            for connection in idle:  # a server that does not say goodbye is left without one
                connection.terminate()

    def _start(self, work: Callable[[Session], Awaitable[Result]]) -> "Task[Result]":
        task = asyncio.create_task(self._carry_out(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _carry_out(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        with in_flight():
            async with self._free:
                connection = await self._take_connection()
                try:
                    return await work(Session(connection, self._settings, self._deadlines))
                except DRIVER_ERRORS as error:
                    raise translate(error, self.label) from error
                except asyncio.CancelledError:  # the loop itself comes to its end
                    connection.terminate()
                    raise
                finally:
                    self._put_back(connection)

    async def _take_connection(self) -> "Connection[Record]":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        try:
            connected: Connection[Record] = await asyncpg.connect(
                self._settings.url,
                timeout=self._connect_for,
                server_settings=session_settings(self._settings),
            )
        except DRIVER_ERRORS as error:
            raise translate(error, self.label, NOTHING_WRITTEN) from error
        return connected

    def _put_back(self, connection: "Connection[Record]") -> None:
        """Keep it for the next call; no call changes anything about its connection."""
        if connection.is_closed():
            return
        if connection.is_in_transaction():  # what was to end it has failed
            connection.terminate()
        else:
            self._idle.append(connection)


def _forget_failure(task: "Task[object]") -> None:
    if not task.cancelled():
        task.exception()


def session_settings(settings: PostgresSettings) -> dict[str, str]:
    """How the server treats the connections. Whether commits are durable is left to its owner."""
    answer_ms = settings.answer_for // timedelta(milliseconds=1)
    return {
        "application_name": "rota",
        "default_transaction_isolation": "read committed",
        # The server gives up before the deadline, so that the outcome is known; and it ends what
        # belongs to a peer that is gone.
        "statement_timeout": f"{answer_ms * 3 // 4}",
        "idle_in_transaction_session_timeout": f"{3 * answer_ms}",
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
        # Rows are always looked up one by one through an index, in the order they are named or
        # wanted. A plan that reads the whole table, or sorts what an index has in order, would lock
        # rows in another order, take longer the more of them there are, and be kept from the day
        # when the table was empty, or from when its statistics were out of date.
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_sort": "off",
        "enable_incremental_sort": "off",
        "jit": "off",
    }
