"""A PostgreSQL store, a network to break, and connections that reach into the database."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest
from tests.servers.proxy import Proxy
from tests.unit.stores.postgres.watched import Connection, Watched

from rota.stores.postgres.address import PostgresSettings, read_address
from rota.stores.postgres.dialling import connect
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite


@pytest.fixture
def postgres_settings(new_postgres_url: str) -> PostgresSettings:
    """Impatient, so that a test of a deadline is short."""
    return replace(read_address(new_postgres_url), connect_for=timedelta(seconds=5))


@pytest.fixture
async def store(postgres_settings: PostgresSettings) -> AsyncIterator[PostgresStore]:
    async with await PostgresStore.open(postgres_settings) as store:
        yield store


@pytest.fixture
async def elsewhere(
    postgres_settings: PostgresSettings, store: PostgresStore
) -> AsyncIterator[PostgresStore]:
    """A second store on the same database, as another process has it."""
    assert store is not None
    async with await PostgresStore.open(postgres_settings) as beside:
        yield beside


async def _hang_up(connection: Connection) -> None:
    """Close it, and return when the server has ended its transaction, if the server still can."""
    with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.close(timeout=5)
    connection.terminate()


@pytest.fixture
async def statements(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> AsyncIterator[Watched]:
    """Statements as the store runs them, whose pages are counted."""
    assert store is not None
    connection = await connect(postgres_settings)
    yield Watched(connection, postgres_settings.schema)
    await _hang_up(connection)


@pytest.fixture
async def reader(postgres_settings: PostgresSettings) -> AsyncIterator[Connection]:
    """A long report, which needs everything as it was at its beginning."""
    connection = await asyncpg.connect(postgres_settings.url)
    await connection.execute("SET application_name = 'a long report'")
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT count(*) FROM pg_class")
    yield connection
    await _hang_up(connection)


@pytest.fixture
async def other(postgres_settings: PostgresSettings) -> AsyncIterator[Connection]:
    """A connection of another program, which finds the store's tables by their bare names."""
    connection = await asyncpg.connect(
        postgres_settings.url, server_settings={"search_path": postgres_settings.schema}
    )
    yield connection
    await _hang_up(connection)


@pytest.fixture
async def proxy(postgres_settings: PostgresSettings) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_settings.url).open() as proxy:
        yield proxy


@pytest.fixture
def proxied_settings(postgres_settings: PostgresSettings, proxy: Proxy) -> PostgresSettings:
    """The way to the same store over a network that can be broken."""
    return replace(
        postgres_settings,
        url=proxy.url,
        answer_for=timedelta(seconds=2),
        connect_for=timedelta(seconds=2),
    )


@pytest.fixture
async def proxied(proxied_settings: PostgresSettings) -> AsyncIterator[PostgresStore]:
    async with await PostgresStore.open(proxied_settings) as store:
        yield store


@pytest.fixture
def new() -> Callable[..., DocumentWrite]:
    def make(key: str, body: bytes = b"new") -> DocumentWrite:
        return DocumentWrite("tasks", key, None, body)

    return make
