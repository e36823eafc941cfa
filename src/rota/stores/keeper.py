"""A lease keeper for stores whose driver needs an event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

from rota.clock.protocol import to_utc
from rota.errors import StoreUnavailableError
from rota.stores.protocol import HeldLease

Result = TypeVar("Result")
Handle = TypeVar("Handle")
Handle_co = TypeVar("Handle_co", covariant=True)
Answers: TypeAlias = Coroutine[Any, Any, list[bool]]
Extend: TypeAlias = Callable[[Sequence[HeldLease], datetime], Answers]
ExtendOn: TypeAlias = Callable[[Handle, Sequence[HeldLease], datetime], Answers]


class LoopKeeper:
    """See ``LeaseKeeper``: extends leases on an event loop that runs only during calls.

    The loop has a thread of its own too, because the caller's may have a loop that runs.
    """

    def __init__(self, extend: Extend, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Both use connections that no other loop does."""
        self._extend = extend
        self._close = close
        self._opened: tuple[ThreadPoolExecutor, asyncio.Runner] | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        to_utc(now, "now")
        until = to_utc(until, "until")
        if self._opened is None:
            self._opened = ThreadPoolExecutor(1), asyncio.Runner()
        thread, runner = self._opened
        return thread.submit(lambda: runner.run(self._extend(held, until))).result()

    def close(self) -> None:
        if self._opened is not None:
            (thread, runner), self._opened = self._opened, None
            with thread:
                try:
                    thread.submit(lambda: runner.run(self._close())).result()
                finally:
                    thread.submit(runner.close).result()


class Database(Protocol[Handle_co]):
    """Runs work on connections of its own."""

    async def run(self, work: Callable[[Handle_co], Awaitable[Result]], /) -> Result: ...

    async def close(self) -> None: ...


def keeper_on(database: Database[Handle], extend: ExtendOn[Handle]) -> LoopKeeper:
    """A keeper on a database with one connection, which may be lost between two calls.

    The loop does not notice: it does not run then. So a call is made again, unless the server is
    silent.
    """

    async def extend_again(held: Sequence[HeldLease], until: datetime) -> list[bool]:
        try:
            return await database.run(lambda handle: extend(handle, held, until))
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise
        return await database.run(lambda handle: extend(handle, held, until))

    return LoopKeeper(extend_again, database.close)
