"""Every hot query goes by an index, and none sorts what it has found.

Only a server that explains itself can prove it: the stand-in of these tests does not. That there is
an index for each of them is proven without any server, in ``test_mongo_indexes``.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from tests.servers.patience import is_patient, open_patiently
from tests.unit.stores.mongo.serving.hot_queries import HOT, NOW

from rota.stores.mongo.gateway import Raw
from rota.stores.mongo.schema.indexes import INDEXES
from rota.testing.builders import a_job

DOES_NOT_EXPLAIN = "this server is a stand-in that does not explain itself as MongoDB does"


@pytest.fixture
def only_where_it_is_explained() -> None:
    """A stand-in is not even asked: a store takes it seconds to make."""
    if not is_patient():
        pytest.skip(DOES_NOT_EXPLAIN)


@pytest.fixture
async def database(mongo_url: str) -> AsyncIterator["AsyncDatabase[Raw]"]:
    async with await open_patiently(mongo_url) as store:
        await store.insert([a_job() for _ in range(3)], NOW)
    async with AsyncMongoClient[Raw](mongo_url) as client:
        yield client.get_default_database()


@pytest.mark.parametrize("name", HOT)
@pytest.mark.usefixtures("only_where_it_is_explained")
async def test_a_hot_query_goes_by_an_index_and_sorts_nothing(
    name: str, database: "AsyncDatabase[Raw]"
) -> None:
    query = HOT[name]
    asked: dict[str, Any] = {"find": query.collection, "filter": query.where}
    if query.order:
        asked["sort"] = dict(query.order)
    if query.limit:
        asked["limit"] = query.limit
    explained = await database.command({"explain": asked, "verbosity": "queryPlanner"})
    if "queryPlanner" not in explained:
        pytest.skip(DOES_NOT_EXPLAIN)
    stages = set(_stages(explained["queryPlanner"]["winningPlan"]))
    assert "COLLSCAN" not in stages, explained
    assert "SORT" not in stages, explained


def _stages(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if "stage" in plan:
            yield plan["stage"]
        for value in plan.values():
            yield from _stages(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from _stages(value)


async def test_every_index_is_there_once_a_store_is_opened(
    database: "AsyncDatabase[Raw]",
) -> None:
    for collection in {index.collection for index in INDEXES}:
        expected = {index.name for index in INDEXES if index.collection == collection}
        assert expected <= set(await database[collection].index_information())
