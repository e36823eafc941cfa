"""Programs with a database and a connection of their own, whatever the driver."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest

from rota import open_store
from rota.stores.opened import OpenStore
from rota.stores.postgres.address import read_address


class Caller:
    """A connection, how statements are run on it, and how it is cut off without a word."""

    def __init__(
        self,
        connection: Any,
        run: Callable[[str], Awaitable[list[Any]]],
        cut: Callable[[], Awaitable[None] | None],
    ) -> None:
        self.connection = connection
        self.run = run
        self._cut = cut

    async def die(self) -> None:
        cutting = self._cut()
        if cutting is not None:
            await cutting

    async def do_work(self) -> None:
        await self.run("INSERT INTO work VALUES (1)")

    async def count_work(self) -> int:
        return len(await self.run("SELECT * FROM work"))


Opener = Callable[[], AbstractAsyncContextManager[Caller]]


class Shop:
    """A store, and a program that keeps its work in the same database."""

    def __init__(self, store: OpenStore, open_caller: Opener, *, waits: bool) -> None:
        self.store = store
        self.open_caller = open_caller
        self.waits = waits
        """Whether a transaction can wait for another without holding up this process."""


@asynccontextmanager
async def by_apsw(path: str) -> AsyncIterator[Caller]:
    connection = apsw.Connection(path)

    async def run(text: str) -> list[Any]:
        return list(connection.execute(text))

    yield Caller(connection, run, connection.close)
    connection.close()


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)

    async def run(text: str) -> list[Any]:
        return list(await connection.fetch(text))

    yield Caller(connection, run, connection.terminate)
    connection.terminate()


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def run(text: str) -> list[Any]:
            cursor = await connection.execute(text.encode())
            return await cursor.fetchall() if cursor.description else []

        yield Caller(connection, run, connection.close)


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url, autocommit=True) as connection:

        async def run(text: str) -> list[Any]:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

        yield Caller(connection, run, connection.close)


OPENERS = {
    "apsw": by_apsw,
    "asyncpg": by_asyncpg,
    "psycopg": by_async_psycopg,
    "psycopg-blocking": by_psycopg,
}


@pytest.fixture(params=list(OPENERS))
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    opener = OPENERS[request.param]
    is_file = request.param == "apsw"
    path = str(tmp_path / "shop.db")
    url = f"sqlite:///{path}" if is_file else request.getfixturevalue("postgres_url")
    target = path if is_file else read_address(url).url
    async with await open_store(url) as store:
        async with opener(target) as caller:
            await caller.run("DROP TABLE IF EXISTS work")
            await caller.run("CREATE TABLE work (number int)")
        yield Shop(store, lambda: opener(target), waits=not is_file)


@pytest.fixture
async def caller(shop: Shop) -> AsyncIterator[Caller]:
    async with shop.open_caller() as caller:
        yield caller


@pytest.fixture
async def rival(shop: Shop) -> AsyncIterator[Caller]:
    """Another process at the same effect."""
    async with shop.open_caller() as caller:
        yield caller
