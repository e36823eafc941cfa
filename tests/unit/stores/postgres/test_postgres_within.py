"""Jobs in a transaction of the caller's own: they commit or vanish with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest

from rota.errors import DuplicateJobError, UnsupportedConnectionError
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SOON = 10.0


class Caller:
    """A program with a connection of its own, whatever the driver."""

    def __init__(self, connection: Any, run: Callable[[str], Awaitable[object]]) -> None:
        self.connection = connection
        self.run = run


Opener: TypeAlias = Callable[[str], Any]


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    yield Caller(connection, connection.execute)
    await connection.close()


@asynccontextmanager
async def by_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        yield Caller(connection, connection.execute)


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("SET TIME ZONE 'Asia/Kolkata'")
        yield Caller(connection, lambda text: connection.execute(text.encode()))


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url, autocommit=True) as connection:

        async def run(text: str) -> object:
            return connection.execute(text.encode())

        yield Caller(connection, run)


@pytest.fixture(params=[by_asyncpg, by_pool, by_async_psycopg, by_psycopg])
async def caller(
    request: pytest.FixtureRequest, postgres_settings: PostgresSettings, store: PostgresStore
) -> AsyncIterator[Caller]:
    assert store is not None
    opener: Opener = request.param
    async with opener(postgres_settings.url) as caller:
        yield caller


async def test_jobs_commit_with_the_callers_transaction(
    store: PostgresStore, caller: Caller
) -> None:
    parent = a_job(payload={"ä": [1, 2.5, None]}, idempotency_key="key", priority=9)
    child = a_job(dependencies=[parent.id])
    await caller.run("BEGIN")
    answers = await store.insert_within(caller.connection, [child, parent], NOW)
    assert [answer.job.id for answer in answers] == [child.id, parent.id]
    assert await store.count("default") == 0
    await caller.run("COMMIT")
    assert await store.get("default", [parent.id, child.id]) == {parent.id: parent, child.id: child}


async def test_jobs_vanish_with_the_callers_transaction(
    store: PostgresStore, caller: Caller
) -> None:
    await caller.run("BEGIN")
    await store.insert_within(caller.connection, [a_job(idempotency_key="key")], NOW)
    await caller.run("ROLLBACK")
    assert await store.count("default") == 0
    (answer,) = await store.insert([a_job(idempotency_key="key")], NOW)
    assert not answer.is_existing


async def test_a_refusal_leaves_the_callers_transaction_as_it_was(
    store: PostgresStore, caller: Caller
) -> None:
    there = a_job(idempotency_key="key", payload=1)
    await store.insert([there], NOW)
    kept = a_job()
    await caller.run("BEGIN")
    await store.insert_within(caller.connection, [kept], NOW)
    with pytest.raises(DuplicateJobError):
        await store.insert_within(
            caller.connection, [a_job(), a_job(idempotency_key="key", payload=2)], NOW
        )
    again = await store.insert_within(
        caller.connection, [a_job(idempotency_key="key", payload=1), kept], NOW
    )
    assert [(one.job.id, one.is_existing) for one in again] == [(there.id, True), (kept.id, True)]
    assert again[0].job == there
    await caller.run("COMMIT")
    assert set(await store.get("default", [there.id, kept.id])) == {there.id, kept.id}
    assert await store.count("default") == 2


async def test_listeners_are_woken_when_the_caller_commits(
    store: PostgresStore, elsewhere: PostgresStore, caller: Caller
) -> None:
    async with elsewhere.listen(queues=["mail"]) as listener, store.listen() as near:
        waiting = asyncio.create_task(listener.wait())
        await caller.run("BEGIN")
        await store.insert_within(caller.connection, [a_job(queue="mail")], NOW)
        assert (await asyncio.wait([waiting], timeout=0.05))[1] == {waiting}
        await caller.run("COMMIT")
        async with asyncio.timeout(SOON):
            await waiting
            await near.wait()


async def test_a_connection_without_a_transaction_is_refused(
    store: PostgresStore, caller: Caller
) -> None:
    with pytest.raises(UnsupportedConnectionError, match="no transaction under way"):
        await store.insert_within(caller.connection, [a_job()], NOW)


async def test_psycopg_begins_its_transaction_with_the_job(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> None:
    job = a_job()
    with psycopg.connect(postgres_settings.url) as connection:
        await store.insert_within(connection, [job], NOW)
        assert await store.get("default", [job.id]) == {}
    assert job.id in await store.get("default", [job.id])


async def test_a_closed_or_failed_connection_is_refused(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> None:
    with psycopg.connect(postgres_settings.url) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("SELECT absent")
        with pytest.raises(UnsupportedConnectionError, match="its transaction has failed"):
            await store.insert_within(connection, [a_job()], NOW)
    with pytest.raises(UnsupportedConnectionError, match="it is closed"):
        await store.insert_within(connection, [a_job()], NOW)


async def test_an_object_that_is_not_a_connection_is_refused(store: PostgresStore) -> None:
    with pytest.raises(UnsupportedConnectionError, match="a str is not a connection"):
        await store.insert_within("postgresql://", [a_job()], NOW)
