"""What MongoDB answers to ``explain``, and which stages of plans are in it.

The plan that won is under ``winningPlan``; from MongoDB 5 on, where the engine that is based on
slots carries it out (``explainVersion`` 2), a level deeper under ``queryPlan``. A pipeline of which
only the beginning is a query has it under ``stages``, a sharded collection once for each shard.
Plans that lost, and what was asked for, are of no interest.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pymongo import DeleteOne, UpdateMany, UpdateOne

from rota.stores.mongo.gateway import Query, Raw

BY_INDEX = frozenset(
    {
        *("IXSCAN", "IDHACK", "COUNT_SCAN", "DISTINCT_SCAN", "CLUSTERED_IXSCAN"),
        *("EXPRESS_IXSCAN", "EXPRESS_CLUSTERED_IXSCAN"),
    }
)
"""The stages that find documents by an index; those with EXPRESS are of MongoDB 8."""

_NOT_THE_PLAN = frozenset({"rejectedPlans", "slotBasedPlan", "parsedQuery", "command"})


def ask_find(query: Query) -> Raw:
    """The command that a query is, as it is sent."""
    command: Raw = {"find": query.collection, "filter": query.where}
    if query.order:
        command["sort"] = dict(query.order)
    if query.limit:
        command["limit"] = query.limit
    if query.fields is not None:
        command["projection"] = dict.fromkeys(query.fields, 1)
    if query.by is not None:
        command["hint"] = query.by
    return command


def ask_aggregate(collection: str, pipeline: list[Raw], index: str) -> Raw:
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}, "hint": index}


def ask_write(collection: str, operation: UpdateOne | UpdateMany | DeleteOne) -> Raw:
    """The command that a write is; drivers show it nowhere but in the object itself."""
    told: Raw = {"q": operation._filter}
    if operation._hint is not None:
        told["hint"] = operation._hint
    if isinstance(operation, DeleteOne):
        return {"delete": collection, "deletes": [{**told, "limit": 1}]}
    is_many = isinstance(operation, UpdateMany)
    return {"update": collection, "updates": [{**told, "u": operation._doc, "multi": is_many}]}


def is_explained(answer: Mapping[str, Any]) -> bool:
    """Whether it is MongoDB's own sort of answer."""
    return any(True for _ in _find_plans(answer))


def list_stages(answer: Mapping[str, Any]) -> set[str]:
    """The stages of the plans that won."""
    return {stage for plan in _find_plans(answer) for stage in _list_stages(plan)}


def list_indexes(answer: Mapping[str, Any]) -> set[str]:
    """The names of the indexes by which the plans that won go."""
    return {str(each["indexName"]) for each in _find_parts(answer) if "indexName" in each}


def _find_plans(answer: Any) -> Iterator[Any]:
    if isinstance(answer, list):
        for each in answer:
            yield from _find_plans(each)
    if isinstance(answer, Mapping):
        for name, value in answer.items():
            if name == "winningPlan":
                yield value
            elif name not in _NOT_THE_PLAN:
                yield from _find_plans(value)


def _find_parts(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for plan in _find_plans(answer):
        yield from _walk(plan)


def _list_stages(plan: Any) -> Iterator[str]:
    return (str(part["stage"]) for part in _walk(plan) if "stage" in part)


def _walk(plan: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(plan, list):
        for each in plan:
            yield from _walk(each)
    if isinstance(plan, Mapping):
        yield plan
        for name, value in plan.items():
            if name not in _NOT_THE_PLAN:
                yield from _walk(value)
