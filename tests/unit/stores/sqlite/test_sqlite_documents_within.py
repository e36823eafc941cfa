"""Documents in a transaction of the caller's own commit or vanish with it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from rota.errors import (
    InvalidInputError,
    StaleVersionError,
    StoreClosedError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.stores.protocol import Document, DocumentWrite
from rota.stores.sqlite.store import SqliteStore

New = Callable[..., DocumentWrite]


@pytest.fixture
def own(store: SqliteStore, path: Path) -> Iterator[apsw.Connection]:
    assert store is not None
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE orders (name); BEGIN; INSERT INTO orders VALUES ('one')")
    yield connection
    connection.close()


def orders(connection: apsw.Connection) -> list[Any]:
    return [name for (name,) in connection.execute("SELECT name FROM orders")]


async def test_documents_are_there_when_the_caller_commits(
    store: SqliteStore, own: apsw.Connection, new: New
) -> None:
    await store.write_within(own, [new("a"), new("b")])
    assert await store.read("tasks", ["a", "b"]) == {}
    seen = await store.read_within(own, "tasks", ["a", "none"])
    assert seen == {"a": Document("a", 1, b"new")}
    own.execute("COMMIT")
    assert set(await store.read("tasks", ["a", "b"])) == {"a", "b"}


async def test_documents_vanish_with_the_callers_transaction(
    store: SqliteStore, own: apsw.Connection, new: New
) -> None:
    await store.write_within(own, [new("a")])
    own.execute("ROLLBACK")
    assert await store.read("tasks", ["a"]) == {}
    assert orders(own) == []


async def test_all_are_written_or_none_and_the_transaction_goes_on(
    store: SqliteStore, own: apsw.Connection, new: New
) -> None:
    await store.write_within(own, [new("a")])
    with pytest.raises(StaleVersionError) as stale:
        await store.write_within(own, [new("b"), DocumentWrite("tasks", "a", 7, b"")])
    assert (stale.value.key, stale.value.expected) == ("a", 7)
    own.execute("COMMIT")
    assert set(await store.read("tasks", ["a", "b"])) == {"a"}
    assert orders(own) == ["one"]


async def test_a_blocked_transaction_gets_a_clear_error(
    store: SqliteStore, path: Path, held_lock: Callable[[], apsw.Connection], new: New
) -> None:
    other, own = held_lock(), apsw.Connection(str(path))
    own.execute("BEGIN")
    with pytest.raises(StoreUnavailableError, match="locked"):
        await store.write_within(own, [new("a")])
    other.close()
    own.close()


async def test_writes_that_cannot_join_the_transaction_are_refused(
    store: SqliteStore, own: apsw.Connection, new: New
) -> None:
    for connection, reason in ((object(), "not a connection of apsw"), (None, "not a connection")):
        with pytest.raises(UnsupportedConnectionError, match=f"cannot take part.*{reason}"):
            await store.write_within(connection, [new("a")])
        with pytest.raises(UnsupportedConnectionError, match=reason):
            await store.read_within(connection, "tasks", ["a"])
    with pytest.raises(InvalidInputError):
        await store.write_within(own, [new("")])
    with pytest.raises(InvalidInputError):
        await store.read_within(own, "tasks", [""])
    own.execute("ROLLBACK")
    with pytest.raises(UnsupportedConnectionError, match="no transaction"):
        await store.write_within(own, [new("a")])


async def test_a_closed_store_takes_part_in_nothing(
    store: SqliteStore, own: apsw.Connection, new: New
) -> None:
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.write_within(own, [new("a")])
    with pytest.raises(StoreClosedError):
        await store.read_within(own, "tasks", ["a"])
