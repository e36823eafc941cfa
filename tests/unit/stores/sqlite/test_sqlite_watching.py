"""That others have written can be seen, and a worker sees it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from rota.errors import StoreClosedError
from rota.stores.protocol import Watchable
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing import a_job
from rota.testing.job_store_fixture import NOW, a_request
from rota.worker import Context, Worker, WorkerSettings


@pytest.fixture
async def elsewhere(
    store: SqliteStore, sqlite_settings: SqliteSettings
) -> AsyncIterator[SqliteStore]:
    """Another store on the same file, as of another process: neither hears of the other."""
    assert isinstance(store, Watchable)
    other = await SqliteStore.open(sqlite_settings)
    yield other
    await other.close()


async def test_the_version_changes_when_others_write_and_only_then(
    store: SqliteStore, elsewhere: SqliteStore
) -> None:
    before = store.read_version()
    await elsewhere.lease(a_request(), NOW)
    assert store.read_version() == before
    await elsewhere.insert([a_job()], NOW)
    after = store.read_version()
    assert after not in (None, before)
    assert store.read_version() == after


async def test_a_closed_store_has_no_version(sqlite_settings: SqliteSettings) -> None:
    store = await SqliteStore.open(sqlite_settings)
    await store.close()
    with pytest.raises(StoreClosedError):
        store.read_version()


async def test_a_worker_sees_a_job_without_a_notification(
    store: SqliteStore, elsewhere: SqliteStore
) -> None:
    """By the machine's time, and long before it polls."""
    handled: asyncio.Queue[None] = asyncio.Queue()

    async def handle(_: Context) -> None:
        handled.put_nowait(None)

    settings = WorkerSettings(poll_for=timedelta(hours=1))
    worker = Worker(store, {"work": handle}, settings=settings)
    run = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        for _ in range(3):  # the first may be there before the worker
            await elsewhere.insert([a_job(kind="work")], NOW)
            await handled.get()
    worker.stop()
    await run
