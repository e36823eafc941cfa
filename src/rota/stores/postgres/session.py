"""A connection while one call uses it: every statement has a deadline, and a transaction an end."""

from asyncio import TimerHandle, get_running_loop
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import asyncpg
from asyncpg import Connection, Record
from asyncpg.pool import PoolConnectionProxy

from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.translation import DRIVER_ERRORS, LOST_CONNECTION

Answer = TypeVar("Answer")


class Waiting(Protocol):
    """Somebody who waits for an answer."""

    def give_up(self) -> None: ...


class Deadlines:
    """Tells whoever has waited too long for an answer to give up.

    There is one timer for all, which is set again only when it runs out: one for each statement
    takes longer than a good part of the statement, and hardly ever comes to its end.
    """

    def __init__(self, answer_for: timedelta) -> None:
        self.seconds = answer_for.total_seconds()
        self._begun: dict[Waiting, float] = {}
        """In the order in which they began to wait."""
        self._timer: TimerHandle | None = None

    def begin(self, waiting: Waiting) -> None:
        """From now on an answer is waited for."""
        loop = get_running_loop()
        self._begun[waiting] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._look)

    def end(self, waiting: Waiting) -> None:
        """The answer has come, or will not be waited for any longer."""
        self._begun.pop(waiting, None)

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = get_running_loop()
        latest = loop.time() - self.seconds
        self._timer = None
        for waiting, begun_at in list(self._begun.items()):
            if begun_at > latest:
                self._timer = loop.call_at(begun_at + self.seconds, self._look)
                return
            del self._begun[waiting]
            waiting.give_up()


class Session:
    """Runs statements. A server that does not answer in time loses the connection.

    The driver would rather ask the server, through another connection, to give up, and wait for
    that. Where the network has gone silent both would wait in vain.
    """

    is_foreign = False

    def __init__(
        self,
        connection: "Connection[Record] | PoolConnectionProxy[Record]",
        settings: PostgresSettings,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Sessions of one event loop may share ``deadlines``."""
        self._connection = connection
        self._schema = settings.schema
        self._deadlines = deadlines or Deadlines(settings.answer_for)
        self._is_late = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Record]:
        """The rows that a statement gives."""
        return await self._in_time(
            self._connection.fetch(placed(statement, self._schema), *arguments)
        )

    async def run_script(self, script: str) -> None:
        """Run any number of statements that take no arguments."""
        await self._in_time(self._connection.execute(placed(script, self._schema)))

    async def stream(
        self, table: str, columns: Sequence[str], rows: Collection[tuple[Any, ...]]
    ) -> None:
        """Add rows to a table of the schema, in the quickest way there is."""
        if rows:
            copying = self._connection.copy_records_to_table(
                table, schema_name=self._schema, columns=columns, records=rows
            )
            await self._in_time(copying)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All that is written inside is durable afterwards, or none of it is written."""
        await self.run_script(QUERIES.begin_write)
        try:
            yield
            await self.run_script(QUERIES.commit)
        except BaseException:
            # Without its connection the server rolls back by itself.
            with suppress(*DRIVER_ERRORS):
                await self.run_script(QUERIES.roll_back)
            raise

    @contextmanager
    def patient(self, answer_for: timedelta) -> Iterator[None]:
        """Wait that long for each answer while the context lasts."""
        usual, self._deadlines = self._deadlines, Deadlines(answer_for)
        try:
            yield
        finally:
            self._deadlines.close()
            self._deadlines = usual

    def drop(self) -> None:
        """Give up the connection; the next caller gets a new one."""
        self._connection.terminate()

    async def _in_time(self, answer: Awaitable[Answer]) -> Answer:
        self._deadlines.begin(self)
        try:
            return await answer
        except LOST_CONNECTION as error:
            if self._is_late:
                raise TimeoutError(f"no answer for {self._deadlines.seconds:g} s") from error
            raise
        except asyncpg.ReadOnlySQLTransactionError:
            # The server has become a replica; a new connection may find the one that took over.
            self.drop()
            raise
        finally:
            self._deadlines.end(self)

    def give_up(self) -> None:
        """No answer came in time: do without the connection."""
        self._is_late = True
        self.drop()
