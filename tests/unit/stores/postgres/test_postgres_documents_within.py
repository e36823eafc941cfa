"""Documents in a transaction of the caller's own commit or vanish with it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from rota.errors import (
    InvalidInputError,
    StaleVersionError,
    StoreClosedError,
    UnsupportedConnectionError,
)
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import Document, DocumentWrite

New = Callable[..., DocumentWrite]
SOON = 10.0


@pytest.fixture(params=["asyncpg", "psycopg"])
async def own(
    request: pytest.FixtureRequest,
    postgres_settings: PostgresSettings,
    store: PostgresStore,
    other: Any,
) -> AsyncIterator[Any]:
    """A connection with a transaction under way."""
    assert store is not None
    if request.param == "asyncpg":
        await other.execute("BEGIN")
        yield other
        return
    async with await psycopg.AsyncConnection.connect(
        postgres_settings.url, autocommit=True
    ) as connection:
        await connection.execute("BEGIN")
        yield connection


async def test_documents_are_there_when_the_caller_commits(
    store: PostgresStore, own: Any, new: New
) -> None:
    body = bytes(range(256)) * 300
    await store.write_within(own, [new("a", body), new("b")])
    await store.write_within(own, [DocumentWrite("tasks", "b", 1, None)])
    assert await store.read("tasks", ["a", "b"]) == {}
    assert await store.read_within(own, "tasks", ["a", "b"]) == {"a": Document("a", 1, body)}
    await own.execute("COMMIT")
    assert await store.read("tasks", ["a", "b"]) == {"a": Document("a", 1, body)}


async def test_documents_vanish_with_the_callers_transaction(
    store: PostgresStore, own: Any, new: New
) -> None:
    await store.write_within(own, [new("a")])
    await own.execute("ROLLBACK")
    assert await store.read("tasks", ["a"]) == {}


async def test_all_are_written_or_none_and_the_transaction_goes_on(
    store: PostgresStore, own: Any, new: New
) -> None:
    await store.write_within(own, [new("a")])
    with pytest.raises(StaleVersionError) as stale:
        await store.write_within(own, [new("b"), DocumentWrite("tasks", "a", 7, b"")])
    assert (stale.value.key, stale.value.expected) == ("a", 7)
    await own.execute("COMMIT")
    assert set(await store.read("tasks", ["a", "b"])) == {"a"}


async def test_others_wait_for_the_end_of_the_transaction(
    store: PostgresStore, own: Any, new: New
) -> None:
    await store.write_within(own, [new("a")])
    beside = asyncio.ensure_future(store.write_each([new("a")]))
    assert (await asyncio.wait([beside], timeout=0.1))[1] == {beside}
    await own.execute("COMMIT")
    async with asyncio.timeout(SOON):
        assert await beside == [None]


async def test_writes_that_cannot_join_the_transaction_are_refused(
    store: PostgresStore, own: Any, new: New
) -> None:
    with pytest.raises(UnsupportedConnectionError, match="a str is not a connection"):
        await store.write_within("postgresql://", [new("a")])
    with pytest.raises(InvalidInputError):
        await store.write_within(own, [new("")])
    with pytest.raises(InvalidInputError):
        await store.read_within(own, "tasks", [""])
    await own.execute("ROLLBACK")
    with pytest.raises(UnsupportedConnectionError, match="no transaction under way"):
        await store.read_within(own, "tasks", ["a"])


async def test_a_closed_store_takes_part_in_nothing(
    store: PostgresStore, own: Any, new: New
) -> None:
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.write_within(own, [new("a")])
    with pytest.raises(StoreClosedError):
        await store.read_within(own, "tasks", ["a"])
