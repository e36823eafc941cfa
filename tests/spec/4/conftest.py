"""Stages for specification 4: a poller on jobs of every store, and on a collection of MongoDB."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from tests.conftest import STORES
from tests.spec.poller_stage import CollectionShelf, RecordShelf, SpecStage
from tests.unit.poller.polling import NOW

from rota import open_store
from rota.poller import PolledJobs
from rota.poller.mongo import MongoCollectionStore
from rota.testing import VirtualClock


@pytest.fixture(params=["collection", *STORES])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SpecStage]:
    """A stage on a collection of MongoDB, and on the jobs of every store."""
    async with AsyncExitStack() as stack:
        made = await _make(request, tmp_path, stack)
        yield made
        await made.close()


async def _make(request: pytest.FixtureRequest, folder: Path, stack: AsyncExitStack) -> SpecStage:
    clock = VirtualClock(NOW)
    if request.param == "collection":
        client: AsyncMongoClient[Any] = AsyncMongoClient(request.getfixturevalue("mongo_url"))
        collection = (await stack.enter_async_context(client)).get_default_database()["jobs"]
        store = MongoCollectionStore(collection, **CollectionShelf.PATHS)
        made = SpecStage(store, clock)
        made.shelf = CollectionShelf(collection)
        return made
    url = {"memory": "memory://", "sqlite": f"sqlite:///{folder / 'rota.db'}"}.get(request.param)
    opened = await open_store(url or request.getfixturevalue(f"{request.param}_url"))
    jobs = PolledJobs(await stack.enter_async_context(opened), clock=clock)
    made = SpecStage(jobs, clock)
    made.shelf = RecordShelf(jobs)
    return made
