"""Every hot query goes by an index, and none sorts what it has found.

Only a server that explains itself can prove it: the stand-in of these tests does not.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from tests.servers.patience import open_patiently

from rota.jobs import JobFilter, JobStatus
from rota.stores.mongo.documents.queries import scan_page
from rota.stores.mongo.gateway import Query, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.pipelines import list_claimed, list_claims
from rota.stores.mongo.schema.indexes import INDEXES
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOT: dict[str, Query] = {
    "by_ids": queries.by_ids(["a", "b"]),
    "by_digests": queries.by_digests(["a"]),
    "dependents_of": queries.dependents_of(["a"]),
    "became_due": queries.became_due(NOW, 10),
    "next_tenant": queries.next_tenant(NOW, "a", None, None),
    "next_tenant in queues": queries.next_tenant(NOW, "a", "b", ["q", "r"]),
    "has_due": queries.has_due(NOW, "a", ["q"]),
    "next_queue": queries.next_queue(NOW, "a", ""),
    "first_due": queries.first_due(NOW, "a", 10, None),
    "first_due in queues": queries.first_due(NOW, "a", 10, ["q", "r"]),
    "first_due of a priority": queries.first_due(NOW, "a", 10, ["q"], 5),
    "expired": queries.expired(NOW, 10, None),
    "expired after": queries.expired(NOW, 10, (NOW - timedelta(hours=1), "a")),
    "any_due": queries.any_due(NOW, ["q"], None),
    "next_due": queries.next_due("later", None, None),
    "next_due in queues": queries.next_due("later", ["q", "r"], None),
    "list_page": queries.list_page(JobFilter(tenant="a"), None, 10),
    "list_page after": queries.list_page(JobFilter(tenant="a"), (NOW, "a"), 10),
    "list_page by status": queries.list_page(
        JobFilter(tenant="a", status=JobStatus.READY), None, 10
    ),
    "list_page of series": queries.list_page(
        JobFilter(tenant="a", status=JobStatus.READY, is_recurring=True), None, 10
    ),
    "ended": queries.ended(NOW, 10),
    "scan_page": scan_page("tasks", "a", 10),
    "claims on jobs": list_claims(JOBS, 10),
    "claims of a step": list_claimed(DOCUMENTS, "step", 10),
}


@pytest.fixture
async def database(mongo_url: str) -> AsyncIterator["AsyncDatabase[Raw]"]:
    async with await open_patiently(mongo_url) as store:
        await store.insert([a_job() for _ in range(3)], NOW)
    async with AsyncMongoClient[Raw](mongo_url) as client:
        yield client.get_default_database()


@pytest.mark.parametrize("name", HOT)
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
        pytest.skip("this server is a stand-in that does not explain itself as MongoDB does")
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
