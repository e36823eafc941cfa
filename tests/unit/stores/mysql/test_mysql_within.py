"""Jobs and documents in a transaction of the caller's own: they commit or vanish with it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncmy
import pytest

from rota.errors import DuplicateJobError, StaleVersionError, UnsupportedConnectionError
from rota.stores.mysql.address import read_address
from rota.stores.mysql.store import MysqlStore
from rota.stores.protocol import DocumentWrite
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WRITE = DocumentWrite("c", "k", None, b"x")


@pytest.fixture
async def orders(connection: Any) -> Any:
    """A table of the caller's own, in a transaction that has begun."""
    async with connection.cursor() as cursor:
        await cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        await cursor.execute("BEGIN")
        await cursor.execute("INSERT INTO orders VALUES (1)")
        yield cursor


async def test_a_job_exists_once_the_caller_commits(
    store: MysqlStore, elsewhere: MysqlStore, connection: Any, orders: Any
) -> None:
    job = a_job(due_at=NOW)
    async with elsewhere.listen() as listener:
        await store.insert_within(connection, [job], NOW)
        assert await store.get("default", [job.id]) == {}
        await orders.execute("COMMIT")
        await asyncio.wait_for(listener.wait(), 10)
    assert [*await elsewhere.get("default", [job.id])] == [job.id]


async def test_a_rollback_takes_jobs_and_documents_with_it(
    store: MysqlStore, connection: Any, orders: Any
) -> None:
    job = a_job()
    await store.insert_within(connection, [job], NOW)
    await store.write_within(connection, [WRITE])
    assert [*await store.read_within(connection, "c", ["k"])] == ["k"]
    await orders.execute("ROLLBACK")
    assert await store.get("default", [job.id]) == {}
    assert await store.read("c", ["k"]) == {}


async def test_a_refused_call_leaves_the_transaction_as_it_was(
    store: MysqlStore, connection: Any, orders: Any
) -> None:
    await store.insert([a_job(kind="k", idempotency_key="one", payload=1)], NOW)
    await store.write_each([WRITE])
    clash = a_job(kind="k", idempotency_key="one", payload=2)
    with pytest.raises(DuplicateJobError):
        await store.insert_within(connection, [a_job(), clash], NOW)
    with pytest.raises(StaleVersionError):
        await store.write_within(connection, [DocumentWrite("c", "new", None, b"x"), WRITE])
    await orders.execute("COMMIT")
    await orders.execute("SELECT id FROM orders")
    assert list(await orders.fetchall()) == [(1,)]
    assert [*await store.read("c", ["k", "new"])] == ["k"]
    assert await store.count("default") == 1


async def test_a_snapshot_of_the_caller_does_not_hide_what_others_committed(
    store: MysqlStore, connection: Any, orders: Any
) -> None:
    """The caller reads under REPEATABLE READ, the default of the servers."""
    await orders.execute("SELECT COUNT(*) FROM rota_jobs")
    job = a_job(kind="k", idempotency_key="one")
    await store.insert([job], NOW)
    await store.write_each([WRITE])
    (found,) = await store.insert_within(connection, [a_job(kind="k", idempotency_key="one")], NOW)
    assert (found.job.id, found.is_existing) == (job.id, True)
    await store.write_within(connection, [DocumentWrite("c", "k", 1, b"y")])
    await orders.execute("COMMIT")
    assert (await store.read("c", ["k"]))["k"].version == 2


async def test_other_connections_are_refused(
    store: MysqlStore, connection: Any, mysql_url: str
) -> None:
    settings = read_address(mysql_url)
    with pytest.raises(UnsupportedConnectionError, match="a str is not a connection of asyncmy"):
        await store.insert_within("connection", [a_job()], NOW)
    with pytest.raises(UnsupportedConnectionError, match="no transaction under way"):
        await store.insert_within(connection, [a_job()], NOW)
    narrow = await asyncmy.connect(**{**settings.driver_arguments, "charset": "latin1"})
    await narrow.begin()
    with pytest.raises(UnsupportedConnectionError, match="its character set is latin1"):
        await store.write_within(narrow, [WRITE])
    await narrow.ensure_closed()
