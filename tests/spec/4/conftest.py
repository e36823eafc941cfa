"""Stages for specification 4: a poller on jobs of every store, on a collection and on a table."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any

import asyncpg
import pytest
from pymongo import AsyncMongoClient
from tests.conftest import STORES
from tests.spec.poller_stage import CollectionStorage, RecordStorage, SpecStage, TableStorage
from tests.unit.poller.polling import NOW

from rota import open_store
from rota.poller import PolledJobs
from rota.poller.mongo import MongoCollectionStore
from rota.poller.sql import SqlTableStore
from rota.testing import VirtualClock


@pytest.fixture(params=["collection", "table", *STORES])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SpecStage]:
    """A stage on a user's own collection or table, and on the jobs of every store."""
    async with AsyncExitStack() as stack:
        made = await _make(request, tmp_path, stack)
        yield made
        await made.close()


async def _make(request: pytest.FixtureRequest, folder: Path, stack: AsyncExitStack) -> SpecStage:
    clock = VirtualClock(NOW)
    if request.param == "collection":
        client: AsyncMongoClient[Any] = AsyncMongoClient(request.getfixturevalue("mongo_url"))
        collection = (await stack.enter_async_context(client)).get_default_database()["jobs"]
        store = MongoCollectionStore(collection, **CollectionStorage.PATHS)
        made = SpecStage(store, clock)
        made.storage = CollectionStorage(collection)
        return made
    if request.param == "table":
        return await _make_table(request.getfixturevalue("postgres_database"), clock, stack)
    url = {"memory": "memory://", "sqlite": f"sqlite:///{folder / 'rota.db'}"}.get(request.param)
    opened = await open_store(url or request.getfixturevalue(f"{request.param}_url"))
    jobs = PolledJobs(await stack.enter_async_context(opened), clock=clock)
    made = SpecStage(jobs, clock)
    made.storage = RecordStorage(jobs)
    return made


async def _make_table(url: str, clock: VirtualClock, stack: AsyncExitStack) -> SpecStage:
    pool = await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=4))
    storage = TableStorage(pool, f"test_{token_hex(6)}.jobs")
    await storage.create()
    made = SpecStage(SqlTableStore(pool, storage.table, **TableStorage.COLUMNS), clock)
    made.storage = storage
    return made
