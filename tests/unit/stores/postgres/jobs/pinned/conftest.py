"""A connection whose pages are counted, and somebody who keeps the horizon where it is."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.unit.stores.postgres.jobs.pinned.watched import Connection, Watched

from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import session_settings
from rota.stores.postgres.store import PostgresStore


@pytest.fixture
async def statements(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> AsyncIterator[Watched]:
    """As those of the store, on a connection with its settings."""
    assert store is not None
    connection = await asyncpg.connect(
        postgres_settings.url, server_settings=session_settings(postgres_settings)
    )
    yield Watched(connection, postgres_settings.schema)
    connection.terminate()


@pytest.fixture
async def reader(postgres_settings: PostgresSettings) -> AsyncIterator[Connection]:
    """Somebody who reads for long, and needs everything as it was at the beginning."""
    connection = await asyncpg.connect(postgres_settings.url)
    await connection.execute("SET application_name = 'a long report'")
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT count(*) FROM pg_class")
    yield connection
    connection.terminate()
