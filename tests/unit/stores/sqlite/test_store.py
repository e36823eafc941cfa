"""What the SQLite store does beyond the contract of all stores."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from rota.clock.loop import in_flight
from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.protocol import DocumentWrite, Reach
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW

New = Callable[..., DocumentWrite]


async def test_it_reaches_as_far_as_the_host(store: SqliteStore) -> None:
    assert store.reach is Reach.HOST


async def test_a_long_scan_does_not_hold_up_a_write(
    store: SqliteStore, new: New, gate: Any
) -> None:
    reading = asyncio.ensure_future(store._reader._thread.run(lambda: list(gate)))
    await asyncio.wait([reading], timeout=0)
    assert await store.write_each([new("a")]) == [1]
    assert not reading.done()
    gate.opened.set()
    await reading


async def test_a_long_write_does_not_hold_up_a_read(
    store: SqliteStore, new: New, gate: Any
) -> None:
    await store.write_each([new("a")])
    writing = asyncio.ensure_future(store.write_all(gate))
    await asyncio.wait([writing], timeout=0)
    assert list(await store.read("tasks", ["a"])) == ["a"]
    assert not writing.done()
    gate.opened.set()
    await writing


async def test_virtual_time_waits_for_what_the_threads_do(
    store: SqliteStore, new: New, gate: Any
) -> None:
    writing = asyncio.ensure_future(store.write_all(gate))
    waiting = asyncio.ensure_future(store.write_each([new("a")]))
    await asyncio.wait([writing, waiting], timeout=0)
    writing.cancel()
    waiting.cancel()
    await asyncio.wait([writing, waiting])
    assert in_flight().count == 2  # cancelled callers no longer wait, the threads still work
    gate.opened.set()
    await store.close()
    assert in_flight().count == 0


async def test_a_forked_child_is_refused(
    store: SqliteStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: parent + 1)
        calls = (
            store.write_each([new("a")]),
            store.write_all([new("a")]),
            store.insert([a_job()], NOW),
            store.read("tasks", ["a"]),
            anext(aiter(store.scan("tasks"))),
            store.close(),
        )
        for call in calls:
            with pytest.raises(StoreUnavailableError, match=f"opened by process {parent}"):
                await call
    assert await store.read("tasks", ["a"]) == {}


async def test_a_cancelled_close_still_closes(sqlite_settings: SqliteSettings, gate: Any) -> None:
    store = await SqliteStore.open(sqlite_settings)
    writing = asyncio.ensure_future(store.write_all(gate))
    closing = asyncio.ensure_future(store.close())
    await asyncio.wait([writing, closing], timeout=0)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    gate.opened.set()
    await writing
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.read("tasks", ["a"])
    assert [each.name for each in sqlite_settings.path.parent.iterdir()] == ["rota.db"]


def test_a_store_may_be_closed_again_in_another_loop(sqlite_settings: SqliteSettings) -> None:
    async def open_and_close() -> SqliteStore:
        async with await SqliteStore.open(sqlite_settings) as store:
            return store

    store = asyncio.run(open_and_close())
    asyncio.run(store.close())
    with pytest.raises(StoreClosedError):
        asyncio.run(store.read("tasks", ["a"]))
