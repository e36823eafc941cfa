"""The store's connections to the server, the statements on them, and what they report."""

import asyncio
from asyncio import Semaphore, TimerHandle, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from socket import gaierror
from typing import Any, Protocol, Self, TypeVar

import asyncpg
from asyncpg import Connection, Record, exceptions
from asyncpg.pool import PoolConnectionProxy

from rota.clock.loop import in_flight
from rota.errors import (
    StoreDamagedError,
    StoreError,
    StoreUnavailableError,
)
from rota.stores.calls import Calls
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.dialling import connect, find_pooling, transaction_settings
from rota.stores.postgres.queries import QUERIES, placed

Result = TypeVar("Result")

TRY_COUNT = 5
"""How often work is tried that the server rolls back because of another transaction."""

ROLLED_BACK = (asyncpg.TransactionRollbackError, asyncpg.UniqueViolationError)
"""What the server reports then. Another transaction may also have taken a unique name first."""

DRIVER_ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""Everything that the driver raises; a TimeoutError is an OSError."""

LOST_CONNECTION: tuple[type[Exception], ...] = (
    OSError,
    exceptions.PostgresConnectionError,
    exceptions.AdminShutdownError,
    exceptions.CrashShutdownError,
    asyncpg.InterfaceError,
)
"""After one of these it is unknown whether the last statement took effect."""

_OTHERS_TOO = (asyncpg.ReadOnlySQLTransactionError, TimeoutError)
"""The server has become a replica, or is silent: no other connection to it will fare better."""

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.CannotConnectNowError, "the server is starting or stopping"),
    (exceptions.AdminShutdownError, "the server is stopping"),
    (exceptions.TooManyConnectionsError, "the server has no connection left"),
    (exceptions.InvalidAuthorizationSpecificationError, "the server refuses to let this user in"),
    (exceptions.InvalidCatalogNameError, "there is no such database"),
    (exceptions.InsufficientPrivilegeError, "this user may not do that"),
    (exceptions.ReadOnlySQLTransactionError, "the server only lets itself be read"),
    (exceptions.TargetServerAttributeNotMatched, "none of the servers accepts writes"),
    (exceptions.LockNotAvailableError, "another program has kept it locked for too long"),
    (exceptions.QueryCanceledError, "the server was told to stop, or has taken too long"),
    (exceptions.TransactionRollbackError, "others were writing to the same documents"),
    (exceptions.DiskFullError, "the server's disk is full"),
    (exceptions.InsufficientResourcesError, "the server lacks the means"),
    (TimeoutError, "the server did not answer in time"),
    (gaierror, "the name of the server is not known"),
    (ConnectionRefusedError, "no server listens at that address"),
    (FileNotFoundError, "no server listens at that address"),
    (Exception, "PostgreSQL refused"),
)
_LOST = "the connection to the server was lost"
_DAMAGE = (exceptions.DataCorruptedError, exceptions.IndexCorruptedError)

NOTHING_WRITTEN = "nothing was written"
UNKNOWN = "unknown"


@contextmanager
def translated(label: str, outcome: str | None = None) -> Iterator[None]:
    """Turn what the driver raises inside into a StoreError about the store at ``label``.

    ``outcome`` overrides what the error itself says about the call.
    """
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, label, outcome) from error


def translate(error: Exception, label: str, outcome: str | None = None) -> StoreError:
    """The StoreError that says what ``error`` means for the store at ``label``."""
    is_lost = isinstance(error, LOST_CONNECTION)
    reason = next(reason for kind, reason in _REASONS if isinstance(error, kind))
    if is_lost and reason == _REASONS[-1][1]:
        reason = _LOST
    outcome = outcome or (UNKNOWN if is_lost else NOTHING_WRITTEN)
    details = {"store": label, "reason": reason, "outcome": outcome}
    if isinstance(error, _DAMAGE):
        return StoreDamagedError(f"The store {label} is damaged ({error})", details)
    cause = f" ({error})" if str(error) else ""
    return StoreUnavailableError(f"The store {label} is not available: {reason}{cause}", details)


def is_about_values(error: Exception) -> bool:
    """Whether it may be about the values of one call, rather than about the server."""
    kinds = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, ValueError)
    return isinstance(error.__cause__, kinds)


class Statements(Protocol):
    """Where the statements of one call run."""

    schema: str
    is_callers: bool
    """The transaction is the caller's: a failure must leave it as it was."""

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """The rows of a statement, with columns by position."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Everything inside happens, or nothing."""
        ...


class Waiter(Protocol):
    """Waits for an answer of the server."""

    def give_up(self) -> None: ...


class Deadlines:
    """Makes waiters give up that wait too long for an answer.

    All share one timer, which is set again only when it ends: a timer for each statement takes a
    good part of the statement's own time, and hardly ever fires.
    """

    def __init__(self, answer_for: timedelta) -> None:
        self.seconds = answer_for.total_seconds()
        self._started: dict[Waiter, float] = {}
        """In the order in which they started to wait."""
        self._timer: TimerHandle | None = None

    def begin(self, waiter: Waiter) -> None:
        """The waiter expects an answer from now on."""
        loop = get_running_loop()
        self._started[waiter] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._check)

    def end(self, waiter: Waiter) -> None:
        """The waiter has its answer, or does not expect one any more."""
        self._started.pop(waiter, None)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        loop = get_running_loop()
        latest = loop.time() - self.seconds
        self._timer = None
        for waiter, started_at in list(self._started.items()):
            if started_at > latest:
                self._timer = loop.call_at(started_at + self.seconds, self._check)
                return
            del self._started[waiter]
            waiter.give_up()


class Session:
    """A connection of the store while one call uses it. Every statement has a deadline.

    A server that does not answer in time loses the connection. The driver itself would ask the
    server, through another connection, to cancel, and wait for that: in vain, where the network
    has gone silent.
    """

    is_callers = False

    def __init__(
        self,
        connection: "Connection[Record] | PoolConnectionProxy[Record]",
        settings: PostgresSettings,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Sessions of one event loop may share ``deadlines``."""
        self.schema = settings.schema
        self._settings = settings
        self._connection = connection
        self._deadlines = deadlines or Deadlines(settings.answer_for)
        self._is_late = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Record]:
        """The rows of a statement."""
        if self._settings.sets_locally and not self._connection.is_in_transaction():
            async with self.transaction():
                return await self.fetch(statement, *arguments)
        return await self._in_time(
            self._connection.fetch(placed(statement, self.schema), *arguments)
        )

    async def run_script(self, script: str) -> None:
        """Run any number of statements that take no arguments."""
        await self._in_time(self._connection.execute(placed(script, self.schema)))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Everything written inside is durable afterwards, or nothing is written."""
        await self.run_script(_beginning(self._settings))
        try:
            yield
            await self.run_script(QUERIES.commit)
        except BaseException:
            # If the connection is gone, the server rolls back by itself.
            with suppress(*DRIVER_ERRORS):
                await self.run_script(QUERIES.roll_back)
            raise

    @contextmanager
    def patient(self, answer_for: timedelta) -> Iterator[None]:
        """Wait that long for each answer inside the context."""
        usual, self._deadlines = self._deadlines, Deadlines(answer_for)
        try:
            yield
        finally:
            self._deadlines.close()
            self._deadlines = usual

    def give_up(self) -> None:
        """No answer came in time: drop the connection."""
        self._is_late = True
        self._connection.terminate()

    async def _in_time(self, answer: Awaitable[Result]) -> Result:
        self._deadlines.begin(self)
        try:
            return await answer
        except LOST_CONNECTION as error:
            if self._is_late:
                raise TimeoutError(f"no answer for {self._deadlines.seconds:g} s") from error
            raise
        except asyncpg.ReadOnlySQLTransactionError:
            # The server has become a replica; a new connection may find the new primary.
            self._connection.terminate()
            raise
        finally:
            self._deadlines.end(self)


@lru_cache(maxsize=8)
def _beginning(settings: PostgresSettings) -> str:
    """The start of a transaction, with the settings that its connection lacks."""
    if not settings.sets_locally:
        return str(QUERIES.begin)
    local = transaction_settings(settings).items()
    return "\n".join([QUERIES.begin, *(f"SET LOCAL {name} = '{value}';" for name, value in local)])


class Database:
    """Runs calls, each on a connection of its own; lost connections are replaced.

    The driver's own pool is not used: it starts three tasks for each call, which take longer than
    the call itself.
    """

    def __init__(
        self, settings: PostgresSettings, idle: "Sequence[Connection[Record]]" = ()
    ) -> None:
        self.settings = settings
        self._free = Semaphore(settings.connection_count)
        # The last one used comes first: it is the likeliest to have prepared the statement.
        self._idle: list[Connection[Record]] = [*idle]
        self.calls = Calls()
        self._deadlines = Deadlines(settings.answer_for)

    @classmethod
    async def open(cls, settings: PostgresSettings) -> Self:
        """The database, after one connection to see whether a pooler is in between."""
        with in_flight(), translated(settings.label, NOTHING_WRITTEN):
            settled, connection = await find_pooling(settings)
        return cls(settled, [connection])

    @property
    def label(self) -> str:
        """The name of the database in messages."""
        return self.settings.label

    async def run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Do ``work`` and return its result; cancelling stops only the waiting."""
        return await self.calls.run(lambda: self._run(work))

    def warm_up(self, work: Callable[[Session], Awaitable[object]], connection_count: int) -> None:
        """Do ``work`` soon on several connections, without waiting; failures are ignored.

        The first call of a connection takes a hundred times as long: it connects, the driver asks
        for the types of values, and the server plans the statements.
        """
        for _ in range(min(connection_count, self.settings.connection_count)):
            self.calls.start(lambda: self._try(work))

    async def run_repeatably(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """As ``run``, again if the server rolls the work back because of another transaction.

        Work that fails leaves nothing behind: it is one statement or one transaction.
        """
        for _ in range(TRY_COUNT - 1):
            try:
                return await self.run(work)
            except StoreError as error:
                if not isinstance(error.__cause__, ROLLED_BACK):
                    raise
        return await self.run(work)

    async def close(self) -> None:
        """Finish the running calls, then close the connections."""
        with in_flight():
            await self.calls.finish()
            self._deadlines.close()
            idle, self._idle = self._idle, []
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.connect_for.total_seconds()):
                    closing = (connection.close() for connection in idle)
                    await asyncio.gather(*closing, return_exceptions=True)
            for connection in idle:  # in case the server did not answer
                connection.terminate()

    async def _try(self, work: Callable[[Session], Awaitable[object]]) -> None:
        with suppress(StoreError):
            await self._run(work)

    async def _run(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        async with self._free:
            connection = await self._take_connection()
            try:
                return await work(Session(connection, self.settings, self._deadlines))
            except DRIVER_ERRORS as error:
                self._drop_idle_after(error)
                raise translate(error, self.label) from error
            except asyncio.CancelledError:  # the loop itself is ending
                connection.terminate()
                raise
            finally:
                self._put_back(connection)

    async def _take_connection(self) -> "Connection[Record]":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        with translated(self.label, NOTHING_WRITTEN):
            return await connect(self.settings)

    def _drop_idle_after(self, error: Exception) -> None:
        """Connect anew for the next calls, where other connections would fail like this one."""
        if isinstance(error, _OTHERS_TOO):
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.terminate()

    def _put_back(self, connection: "Connection[Record]") -> None:
        """Keep it for the next call; no call changes its connection's settings."""
        if connection.is_closed():
            return
        if connection.is_in_transaction():  # its COMMIT or ROLLBACK has failed
            connection.terminate()
        else:
            self._idle.append(connection)
