"""Plans are read from every form of answer that MongoDB documents."""

from typing import Any

import pytest
from tests.unit.stores.mongo.serving.explained_plans import (
    BY_INDEX,
    is_explained,
    list_indexes,
    list_stages,
)

BY_DUE = {"stage": "IXSCAN", "indexName": "due", "indexBounds": {"tenant": ['["a", "a"]']}}
FETCHED = {"stage": "FETCH", "filter": {"lane": {"$eq": "due"}}, "inputStage": BY_DUE}
LIMITED = {"stage": "LIMIT", "limitAmount": 10, "inputStage": FETCHED}
LOST = {"stage": "SORT", "inputStage": {"stage": "COLLSCAN"}}


def _planner(winning: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespace": "rota.rota_jobs",
        "parsedQuery": {"stage": {"$eq": "COLLSCAN"}},
        "winningPlan": winning,
        "rejectedPlans": [LOST],
    }


CLASSIC = {"explainVersion": "1", "queryPlanner": _planner(LIMITED), "ok": 1.0}
SLOTS = {
    "explainVersion": "2",
    "queryPlanner": _planner(
        {
            "isCached": False,
            "queryPlan": {**LIMITED, "planNodeId": 3},
            "slotBasedPlan": {"slots": "$$RESULT=s1", "stages": "[1] limit 10"},
        }
    ),
    "ok": 1.0,
}
PIPELINE = {
    "explainVersion": "1",
    "stages": [{"$cursor": {"queryPlanner": _planner(LIMITED)}}, {"$group": {"_id": "$queue"}}],
    "ok": 1.0,
}
SHARDED = {
    "queryPlanner": {
        "winningPlan": {
            "stage": "SHARD_MERGE",
            "shards": [{"shardName": "one", **_planner(LIMITED)}],
        }
    },
    "ok": 1.0,
}


@pytest.mark.parametrize("answer", [CLASSIC, SLOTS, PIPELINE, SHARDED])
def test_the_stages_of_the_plan_that_won_are_read(answer: dict[str, Any]) -> None:
    assert is_explained(answer)
    assert list_stages(answer) - {"SHARD_MERGE"} == {"LIMIT", "FETCH", "IXSCAN"}
    assert list_indexes(answer) == {"due"}


@pytest.mark.parametrize("stage", ["IDHACK", "EXPRESS_IXSCAN"])
def test_an_id_that_is_looked_up_goes_by_an_index(stage: str) -> None:
    update = {"stage": "UPDATE", "nWouldModify": 0, "inputStage": {"stage": stage}}
    assert list_stages({"queryPlanner": _planner(update)}) & BY_INDEX


def test_a_collection_that_is_gone_through_is_noticed() -> None:
    assert list_stages({"queryPlanner": _planner(LOST)}) == {"SORT", "COLLSCAN"}


def test_an_answer_of_another_sort_is_none() -> None:
    assert not is_explained({"engine": "sqlite", "strategy": "python", "ok": 1.0})
