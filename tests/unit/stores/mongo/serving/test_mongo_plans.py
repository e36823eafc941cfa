"""Every hot query goes by the index it names, and none sorts what it has found."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure
from tests.servers.mongo import open_mongo
from tests.unit.stores.mongo.serving.explained_plans import (
    BY_INDEX,
    ask_aggregate,
    ask_find,
    ask_write,
    is_explained,
    list_indexes,
    list_stages,
)
from tests.unit.stores.mongo.serving.hot_queries import HOT, HOT_PIPELINES, HOT_WRITES, NOW

from rota.jobs import Succeeded, decide_outcome
from rota.stores.mongo.gateway import BY_ID, Raw
from rota.stores.mongo.jobs.queries import SURVEYED
from rota.stores.mongo.schema.indexes import INDEXES, RETIRED
from rota.stores.mongo.schema.preparation import SCHEMA_VERSION
from rota.stores.mongo.steps.names import JOBS, SCHEMA
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

HOUR = timedelta(hours=1)
COUNT = 20
"""How many jobs of each sort there are; the fewer, the more plans are as good as each other."""


@pytest.fixture
async def database(mongo_url: str) -> AsyncIterator["AsyncDatabase[Raw]"]:
    """With an empty store in it."""
    await (await open_mongo(mongo_url)).close()
    async with AsyncMongoClient[Raw](mongo_url) as client:
        yield client.get_default_database()


@pytest.fixture
async def filled(mongo_url: str, database: "AsyncDatabase[Raw]") -> "AsyncDatabase[Raw]":
    """With jobs of two tenants in two queues that are due, due later, run, and have ended."""
    places = [(tenant, queue) for tenant in "ab" for queue in "qr"]
    async with await open_mongo(mongo_url) as store:
        for due_at in (NOW - HOUR, NOW + HOUR):
            jobs = [
                a_job(tenant=tenant, queue=queue, due_at=due_at)
                for tenant, queue in places
                for _ in range(COUNT)
            ]
            await store.insert(jobs, NOW - HOUR)
        request = LeaseRequest(worker="worker", limit=len(places) * COUNT // 2, lease_for=HOUR)
        leased = await store.lease(request, NOW)
        ended = leased[::2]
        await store.apply([decide_outcome(job, Succeeded(), NOW) for job in ended], NOW)
    return database


async def _explain(database: "AsyncDatabase[Raw]", command: Raw) -> Raw:
    answer: Raw = await database.command({"explain": command, "verbosity": "queryPlanner"})
    assert is_explained(answer), answer
    return answer


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_query_goes_by_the_index_it_names_and_sorts_nothing(
    name: str, filled: "AsyncDatabase[Raw]"
) -> None:
    answer = await _explain(filled, ask_find(HOT[name]))
    stages = list_stages(answer)
    assert stages & BY_INDEX, answer
    assert list_indexes(answer) <= {HOT[name].by}, answer
    assert not stages & {"COLLSCAN", "SORT"}, answer


@pytest.mark.parametrize("name", HOT_PIPELINES)
async def test_a_hot_pipeline_begins_with_an_index(name: str, filled: "AsyncDatabase[Raw]") -> None:
    answer = await _explain(filled, ask_aggregate(JOBS, HOT_PIPELINES[name], SURVEYED))
    stages = list_stages(answer)
    assert list_indexes(answer) == {SURVEYED}, answer
    assert stages & BY_INDEX, answer
    assert "COLLSCAN" not in stages, answer


@pytest.mark.parametrize("name", HOT_WRITES)
async def test_what_is_told_by_its_id_is_written_by_its_id(
    name: str, filled: "AsyncDatabase[Raw]"
) -> None:
    answer = await _explain(filled, ask_write(JOBS, HOT_WRITES[name]))
    assert list_stages(answer) & BY_INDEX, answer
    assert list_indexes(answer) <= {"_id_"}, answer  # a look-up by the id alone does not name it


async def test_every_index_is_there_once_a_store_is_opened(
    database: "AsyncDatabase[Raw]", mongo_url: str
) -> None:
    """Also in a database of an earlier version, and when somebody has dropped one."""
    await database[JOBS].drop_index("due")
    with pytest.raises(OperationFailure, match="hint"):
        await database.command(ask_find(HOT["first_due"]))
    for name in RETIRED[JOBS]:
        await database[JOBS].create_index([("lane", 1), (name, 1)], name=name, sparse=True)
    await database[SCHEMA].update_one({"_id": "schema"}, {"$set": {"version": 1}})
    await (await open_mongo(mongo_url)).close()
    for collection in {index.collection for index in INDEXES}:
        expected = {index.name for index in INDEXES if index.collection == collection}
        assert set(await database[collection].index_information()) == {BY_ID, *expected}
    mark = await database[SCHEMA].find_one({"_id": "schema"})
    assert mark is not None
    assert mark["version"] == SCHEMA_VERSION
