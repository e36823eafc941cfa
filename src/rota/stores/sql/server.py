"""Connections to an SQL database on a server, and the calls on them."""

import asyncio
from abc import ABC, abstractmethod
from asyncio import Semaphore, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    suppress,
)
from typing import Any, Protocol, TypeVar

from rota.clock.loop import in_flight
from rota.errors import StoreError
from rota.stores.calls import Calls
from rota.stores.rows import Row
from rota.stores.sql.session import Session

Result = TypeVar("Result")

TRY_COUNT = 5
"""How often work is tried that the server rolls back because of another transaction."""

IDLE_FOR = 30.0
"""Seconds after which an unused connection is closed."""


class ServerSession(Session, Protocol):
    """A connection to a server. Every statement has a deadline."""

    driver_errors: tuple[type[Exception], ...]
    is_callers: bool = False
    """Whether the connection, and the transaction on it, are the caller's own."""

    @abstractmethod
    async def run(self, sql: str) -> list[Row]:
        """The rows of a statement that is complete."""

    @abstractmethod
    async def fetch(self, statement: str, **values: Any) -> list[Row]:
        """The rows of a statement."""

    @abstractmethod
    async def fetch_each(
        self, statement: str, places: Sequence[Mapping[str, Any]], **values: Any
    ) -> list[Row]:
        """The rows of a statement for each of these places, in one question."""

    @property
    @abstractmethod
    def is_usable(self) -> bool:
        """Whether another call may use the connection."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    def abandon(self) -> None:
        """Disconnect at once; the server rolls back what is under way."""

    async def change(self, statement: str, ids: Iterable[str], **values: Any) -> None:
        """Run a statement about ``ids``; they are sorted, so that locks are too."""
        if named := sorted(ids):
            await self.fetch(statement, ids=named, **values)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Everything inside happens, or nothing. In a caller's transaction it is a savepoint."""
        parts = self.queries.savepoint if self.is_callers else self.queries.transaction
        return self._all_or_none(*map(str.strip, parts.split(";")[:3]))

    @asynccontextmanager
    async def _all_or_none(self, begin: str, end: str, undo: str) -> AsyncIterator[None]:
        await self.run(begin)
        try:
            yield
            await self.run(end)
        except BaseException:
            # If the connection is gone, the server rolls back by itself.
            with suppress(*self.driver_errors):
                await self.run(undo)
            raise


class Database(ABC):
    """Runs calls, each on a connection of its own; lost connections are replaced."""

    def __init__(self, connection_count: int) -> None:
        self._free = Semaphore(connection_count)
        self._idle: list[tuple[ServerSession, float]] = []
        self.calls = Calls()

    @abstractmethod
    async def _connect(self) -> ServerSession:
        """A new connection; if it fails, nothing was written."""

    @abstractmethod
    def translated(self) -> AbstractContextManager[None]:
        """Turns what the driver raises inside into errors about this store."""

    @abstractmethod
    def is_rolled_back(self, error: StoreError) -> bool:
        """Whether the work may succeed if it is done again."""

    @abstractmethod
    def is_about_values(self, error: Exception) -> bool:
        """Whether it is about the values of one call, rather than about the server."""

    @abstractmethod
    def join(self, connection: Any) -> ServerSession:
        """Statements on the caller's own connection, in the transaction it has begun."""

    @abstractmethod
    def reopened(self) -> "Database":
        """The same database, with one connection, for another event loop."""

    async def run(self, work: Callable[[ServerSession], Awaitable[Result]]) -> Result:
        """Do ``work``, again if the server rolls it back because of another transaction.

        Work that fails leaves nothing behind: it is one statement or one transaction.
        """
        for _ in range(TRY_COUNT - 1):
            try:
                return await self.run_once(work)
            except StoreError as error:
                if not self.is_rolled_back(error):
                    raise
        return await self.run_once(work)

    async def run_once(self, work: Callable[[ServerSession], Awaitable[Result]]) -> Result:
        """Do ``work``; cancelling stops only the waiting."""
        return await self.calls.run(lambda: self._run(work))

    async def close(self) -> None:
        """Finish the running calls, then close the connections."""
        with in_flight():
            await self.calls.finish()
            idle, self._idle = self._idle, []
            await asyncio.gather(*(session.close() for session, _ in idle))

    async def _run(self, work: Callable[[ServerSession], Awaitable[Result]]) -> Result:
        with self.translated():
            async with self._free, self._session() as session:
                return await work(session)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[ServerSession]:
        session = await self._take_session()
        try:
            yield session
        finally:
            if session.is_usable:
                self._idle.append((session, get_running_loop().time()))
            else:
                session.abandon()

    async def _take_session(self) -> ServerSession:
        now = get_running_loop().time()
        while self._idle:
            session, since = self._idle.pop()
            if session.is_usable and now - since < IDLE_FOR:
                return session
            session.abandon()
        return await self._connect()
