"""Every hot query has a declared index that serves it, and every index a query that needs it."""

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from pymongo import DeleteOne, UpdateMany, UpdateOne
from tests.unit.stores.mongo.serving.explained_plans import ask_write
from tests.unit.stores.mongo.serving.hot_queries import HOT, HOT_WRITES
from tests.unit.stores.mongo.serving.index_use import find_serving, serves

from rota.stores.mongo import pipelines
from rota.stores.mongo.documents import queries as document_queries
from rota.stores.mongo.gateway import BY_ID, Query
from rota.stores.mongo.jobs import queries as job_queries
from rota.stores.mongo.pipelines import NOBODY
from rota.stores.mongo.schema.indexes import INDEXES, Index
from rota.stores.mongo.steps.names import JOBS

THERE = {"lane": {"$exists": True}}
A_QUERY = Query(JOBS, {"lane": "due", "tenant": "a", "due_at": {"$lte": 1}}, [("priority", -1)], 1)


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_is_served_by_a_declared_index(name: str) -> None:
    query = HOT[name]
    assert query.by in find_serving(query, INDEXES), query


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{index.collection}.{index.name}")
def test_without_an_index_some_hot_query_has_none(index: Index) -> None:
    others = [each for each in INDEXES if each is not index]
    unserved = {name.split(" ")[0] for name in HOT if not find_serving(HOT[name], others)}
    assert unserved
    assert any(each in index.serves for each in unserved), (index.serves, unserved)


@pytest.mark.parametrize("name", HOT_WRITES)
def test_a_hot_write_can_go_by_nothing_but_the_id(name: str) -> None:
    """It says so, or no other index could serve it."""
    command = ask_write(JOBS, HOT_WRITES[name])
    (told,) = command.get("updates") or command["deletes"]
    if "hint" not in told:
        fields = {field for field, value in told["q"].items() if value != NOBODY}
        firsts = {index.keys[0][0] for index in INDEXES if index.collection == JOBS}
        assert not fields & firsts
    else:
        assert told["hint"] == BY_ID
    assert "_id" in told["q"]


def test_every_write_of_the_store_is_among_the_hot_ones() -> None:
    made = {
        name
        for name, function in inspect.getmembers(job_queries, inspect.isfunction)
        if function.__annotations__["return"] in {UpdateOne, UpdateMany, DeleteOne}
    }
    assert made == {name.split(" ")[0] for name in HOT_WRITES}


def test_an_index_that_leaves_documents_out_leaves_out_those_without_its_field() -> None:
    """A sparse index of several fields holds whatever has one of them, and all have an id."""
    assert [
        index.name for index in INDEXES if "sparse" in index.options and len(index.keys) > 1
    ] == []


def test_every_query_of_the_store_is_among_the_hot_ones() -> None:
    made = {
        name
        for module in (job_queries, document_queries, pipelines)
        for name in _queries_made_in(module)
    }
    assert made == {name.split(" ")[0] for name in HOT} - {"count_running", "survey"}


def _queries_made_in(module: ModuleType) -> Iterator[str]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ == module.__name__ and function.__annotations__["return"] is Query:
            yield name


@pytest.mark.parametrize(
    ("keys", "options", "is_served"),
    [
        ([("tenant", 1), ("priority", -1), ("due_at", 1)], {}, False),
        ([("lane", 1), ("tenant", 1), ("priority", -1), ("due_at", 1)], {}, True),
        ([("tenant", 1), ("lane", 1), ("priority", 1), ("due_at", 1)], {}, True),
        ([("lane", 1), ("tenant", 1), ("priority", -1)], {}, False),
        ([("lane", 1), ("tenant", 1), ("due_at", 1), ("priority", -1)], {}, False),
        ([("tenant", 1), ("priority", -1), ("due_at", 1)], {"lane": "due"}, True),
        ([("tenant", 1), ("priority", -1), ("due_at", 1)], {"lane": "later"}, False),
        ([("lane", 1), ("tenant", 1), ("priority", -1), ("due_at", 1)], THERE, True),
        ([("tenant", 1), ("priority", -1), ("due_at", 1)], {"until": {"$exists": True}}, False),
    ],
)
def test_what_serves_a_query_is_judged_by_filter_order_and_part(
    keys: list[tuple[str, int]], options: dict[str, Any], is_served: bool
) -> None:
    chosen = {"partialFilterExpression": options} if options else {}
    assert serves(Index(JOBS, "some", keys, "", chosen), A_QUERY) is is_served
