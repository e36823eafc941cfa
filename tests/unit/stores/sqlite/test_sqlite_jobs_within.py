"""Enqueue inside the caller's own transaction commits or vanishes with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from rota.errors import DuplicateJobError, StoreUnavailableError, UnsupportedConnectionError
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, everything, take


@pytest.fixture
async def own(store: SqliteStore, path: Path) -> Any:
    assert await everything(store) == []
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE orders (name); BEGIN; INSERT INTO orders VALUES ('one')")
    yield connection
    connection.close()


def orders(connection: apsw.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM orders")]


async def test_jobs_within_a_transaction_come_into_being_when_it_commits(
    store: SqliteStore, own: apsw.Connection
) -> None:
    job = a_job()
    (answer,) = await store.insert_within(own, [job], NOW)
    assert answer.job == job
    assert await everything(store) == []
    own.execute("COMMIT")
    assert await everything(store) == [job]
    assert [leased.id for leased in await take(store)] == [job.id]


async def test_jobs_within_a_transaction_vanish_with_it(
    store: SqliteStore, own: apsw.Connection
) -> None:
    parent = a_job()
    await store.insert_within(own, [parent, a_job(dependencies=[parent.id])], NOW)
    own.execute("ROLLBACK")
    assert await everything(store) == []
    assert orders(own) == []


async def test_a_refusal_leaves_the_transaction_as_it_was(
    store: SqliteStore, own: apsw.Connection
) -> None:
    await store.insert_within(own, [a_job(idempotency_key="key", payload=1)], NOW)
    with pytest.raises(DuplicateJobError):
        await store.insert_within(own, [a_job(), a_job(idempotency_key="key", payload=2)], NOW)
    assert own.in_transaction
    own.execute("COMMIT")
    assert orders(own) == ["one"]
    assert len(await everything(store)) == 1


async def test_a_blocked_transaction_gets_an_error(store: SqliteStore, path: Path) -> None:
    other, own = apsw.Connection(str(path)), apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    own.execute("BEGIN")
    with pytest.raises(StoreUnavailableError, match="locked"):
        await store.insert_within(own, [a_job()], NOW)
    other.close()
    own.close()


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("BEGIN IMMEDIATE; CREATE TABLE orders (name)")
    yield connection
    connection.close()


async def test_other_connections_are_refused(
    store: SqliteStore, own: apsw.Connection, foreign: apsw.Connection
) -> None:
    in_memory = apsw.Connection(":memory:")
    in_memory.execute("BEGIN")
    own.execute("ROLLBACK")
    for connection, reason in (
        (object(), "not a connection of apsw"),
        (foreign, "another file"),
        (in_memory, "another file"),
        (own, "no transaction"),
    ):
        with pytest.raises(UnsupportedConnectionError, match=reason):
            await store.insert_within(connection, [a_job()], NOW)
    assert await everything(store) == []


async def test_the_same_file_under_another_name_is_the_same(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    connection = apsw.Connection(str(tmp_path / "here" / ".." / path.name))
    connection.execute("BEGIN")
    await store.insert_within(connection, [a_job()], NOW)
    connection.execute("COMMIT")
    connection.close()
    assert len(await everything(store)) == 1
