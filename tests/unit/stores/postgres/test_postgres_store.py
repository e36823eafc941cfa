"""What the PostgreSQL store does beyond the contract of all stores."""

import asyncio
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.clock.loop import in_flight
from rota.errors import StoreClosedError, StoreUnavailableError
from rota.runtime.wiring import open_store
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.connections import Session
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite, Reach

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
New = Callable[..., DocumentWrite]


@pytest.fixture
async def locked(store: PostgresStore, new: New, other: Connection) -> DocumentWrite:
    """A write that waits for another program, until that one says ``ROLLBACK``."""
    await store.write_each([new("locked")])
    await other.execute("BEGIN")
    await other.execute("SELECT 1 FROM documents WHERE key = 'locked' FOR UPDATE")
    return DocumentWrite("tasks", "locked", 1, b"changed")


async def test_it_reaches_as_far_as_the_network(store: PostgresStore) -> None:
    assert store.reach is Reach.NETWORK


async def test_ten_thousand_writes_are_one_statement(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    fetch, run_script = Session.fetch, Session.run_script

    async def note_fetch(session: Session, statement: str, *arguments: Any) -> Any:
        sent.append(statement)
        return await fetch(session, statement, *arguments)

    async def note_script(session: Session, script: str) -> None:
        sent.append(script)
        await run_script(session, script)

    monkeypatch.setattr(Session, "fetch", note_fetch)
    monkeypatch.setattr(Session, "run_script", note_script)
    writes = [new(f"{number:05}") for number in range(10_000)]
    assert await store.write_each(writes) == [1] * 10_000
    assert sent == [QUERIES.apply_writes]
    await store.write_each([new("a"), new("a")])
    assert sent[1:] == [QUERIES.begin, *[QUERIES.apply_writes] * 2, QUERIES.commit]


async def test_virtual_time_waits_for_a_call_whose_caller_has_gone(
    store: PostgresStore, locked: DocumentWrite, other: Connection
) -> None:
    writing = asyncio.ensure_future(store.write_each([locked]))
    reading = asyncio.ensure_future(store.write_all([locked]))
    await asyncio.wait([writing, reading], timeout=0.05)
    writing.cancel()
    reading.cancel()
    await asyncio.wait([writing, reading])
    assert in_flight().count == 2
    await other.execute("ROLLBACK")
    await store.close()
    assert in_flight().count == 0


async def test_a_cancelled_write_is_carried_out(
    store: PostgresStore, locked: DocumentWrite, other: Connection
) -> None:
    writing = asyncio.ensure_future(store.write_each([locked]))
    await asyncio.wait([writing], timeout=0.05)
    writing.cancel()
    await asyncio.wait([writing])
    await other.execute("ROLLBACK")
    await store.close()
    assert await other.fetchval("SELECT version FROM documents") == 2


async def test_a_cancelled_close_still_closes(
    store: PostgresStore, locked: DocumentWrite, other: Connection
) -> None:
    writing = asyncio.ensure_future(store.write_each([locked]))
    closing = asyncio.ensure_future(store.close())
    await asyncio.wait([writing, closing], timeout=0.05)
    closing.cancel()
    await asyncio.wait([closing])
    await other.execute("ROLLBACK")
    assert await writing == [2]
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.read("tasks", ["a"])


async def test_a_stream_that_is_being_written_is_completed_before_closing(
    store: PostgresStore, locked: DocumentWrite, other: Connection
) -> None:
    writing = asyncio.ensure_future(store.write_all([locked]))
    await asyncio.wait([writing], timeout=0.05)
    closing = asyncio.ensure_future(store.close())
    await asyncio.wait([closing], timeout=0.05)
    assert not closing.done()
    await other.execute("ROLLBACK")
    await asyncio.gather(writing, closing)
    assert await other.fetchval("SELECT version FROM documents") == 2


async def test_more_callers_than_connections_wait_for_their_turn(
    store: PostgresStore, new: New
) -> None:
    await store.write_each([new("a")])
    found = await asyncio.gather(*(store.read("tasks", ["a"]) for _ in range(200)))
    assert all(documents["a"].version == 1 for documents in found)


async def test_a_forked_child_is_refused(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: parent + 1)
        calls = (
            store.write_each([new("a")]),
            store.write_all([new("a")]),
            store.read("tasks", ["a"]),
            anext(aiter(store.scan("tasks"))),
            store.close(),
        )
        for call in calls:
            with pytest.raises(StoreUnavailableError, match=f"opened by process {parent}"):
                await call
    assert await store.read("tasks", ["a"]) == {}


async def test_an_address_opens_it_and_leaving_closes_it(postgres_url: str) -> None:
    async with await open_store(postgres_url.replace("postgresql:", "postgres:", 1)) as store:
        assert isinstance(store, PostgresStore)
    with pytest.raises(StoreClosedError):
        await store.read("tasks", ["a"])


async def test_documents_are_read_through_the_index_with_any_statistics(
    store: PostgresStore, new: New, other: Connection
) -> None:
    for _ in range(10):  # long enough for a plan to be kept from when the table was empty
        await store.write_each([DocumentWrite("tasks", "absent", 1, b"")])
    await store.write_all(new(f"{number:05}") for number in range(10_000))
    keys = [f"{number:05}" for number in range(8_000)]
    await store.write_each([DocumentWrite("tasks", key, 1, b"") for key in keys])
    await other.execute("ANALYZE documents")
    await store.write_each([DocumentWrite("tasks", key, 2, None) for key in keys])
    assert await store.read("tasks", keys) == {}
    await store.close()
    read_count = await other.fetchval(
        "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'documents'::regclass"
    )
    assert read_count == 0


def test_a_store_may_be_closed_again_in_another_loop(postgres_settings: PostgresSettings) -> None:
    async def open_and_close() -> PostgresStore:
        async with await PostgresStore.open(postgres_settings) as store:
            return store

    store: Any = asyncio.run(open_and_close())
    asyncio.run(store.close())
    with pytest.raises(StoreClosedError):
        asyncio.run(store.read("tasks", ["a"]))
