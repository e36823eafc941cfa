"""POST /jobs/bulk-actions: shown first, then done."""

from typing import Any

import httpx2
import pytest
from tests.server.api.conftest import make, make_dead
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, field_of

from rota.auth.caller import Scope

ACTIONS = f"{JOBS}/bulk-actions"


async def send(client: httpx2.AsyncClient, **order: Any) -> httpx2.Response:
    return await client.post(ACTIONS, json=order)


async def test_a_dry_run_says_how_many_and_shows_a_few(both: Neighbours) -> None:
    for number in range(12):
        await make(both, name=f"job {number}", queue="mail" if number else "other")
    answer = await send(both.ours, action="cancel", queue="mail")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["is_dry_run"], found["count"], len(found["sample"])) == (True, 11, 10)
    page = (await both.ours.get(f"{JOBS}?status=READY&limit=100")).json()
    assert len(page["items"]) == 12


async def test_a_plan_is_carried_out_and_reported(both: Neighbours) -> None:
    jobs = [await make(both) for _ in range(3)]
    plan = (await send(both.ours, action="cancel")).json()
    gone = await both.ours.delete(f"{JOBS}/{jobs[0]['id']}")
    assert gone.status_code == 204
    later = await make(both)
    answer = await send(both.ours, dry_run=False, plan_id=plan["plan_id"], why="clean up")
    found = answer.json()
    assert (found["is_dry_run"], found["done_count"], found["skipped_count"]) == (False, 2, 1)
    assert found["skipped"][0]["job_id"] == jobs[0]["id"]
    assert (await both.ours.get(f"{JOBS}/{later['id']}")).json()["status"] == "READY"
    (entry,) = (await both.ours.get("/api/v1/audit?action=bulk_cancel")).json()["items"]
    assert (entry["who"], entry["why"], len(entry["job_ids"])) == ("ours tester", "clean up", 2)
    again = await send(both.ours, dry_run=False, plan_id=plan["plan_id"])
    assert again.status_code == 404


@pytest.mark.parametrize("action", ["retry", "run_now", "delete"])
async def test_every_action_can_be_done_to_many(both: Neighbours, action: str) -> None:
    await make_dead(both)
    await make(both, run_at="2026-06-01T00:00:00Z")
    plan = (await send(both.ours, action=action)).json()
    expected = 2 if action == "delete" else 1
    assert (plan["count"], plan["passed_over_count"]) == (expected, 2 - expected)
    answer = (await send(both.ours, dry_run=False, plan_id=plan["plan_id"])).json()
    assert (answer["done_count"], answer["skipped_count"]) == (expected, 0)


async def test_a_plan_is_its_tenants_alone(neighbours: Neighbours) -> None:
    await make(neighbours)
    assert (await send(neighbours.theirs, action="delete")).json()["count"] == 0
    plan = (await send(neighbours.ours, action="delete")).json()
    answer = await send(neighbours.theirs, dry_run=False, plan_id=plan["plan_id"])
    assert answer.status_code == 404
    assert await neighbours.service.store.count("ours") == 1


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({}, "action"),
        ({"action": "explode"}, "action"),
        ({"action": "cancel", "queue": "no queue"}, "queue"),
        ({"action": "cancel", "status": "ODD"}, "status"),
        ({"action": "cancel", "text": ""}, "text"),
        ({"action": "cancel", "priority_min": 0}, "priority_min"),
        ({"action": "cancel", "created_after": "soon"}, "created_after"),
        ({"action": "cancel", "plan_id": NO_ID}, "plan_id"),
        ({"action": "cancel", "dry_run": False}, "plan_id"),
        ({"dry_run": False, "plan_id": NO_ID, "queue": "mail"}, "queue"),
        ({"action": "cancel", "colour": "red"}, "colour"),
    ],
)
async def test_bad_orders_name_their_field(
    neighbours: Neighbours, order: dict[str, Any], field: str
) -> None:
    assert field_of(await send(neighbours.ours, **order)) == field


async def test_acting_on_many_needs_the_scope_to_operate(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.WRITE) as weak:
        assert (await send(weak, action="cancel")).status_code == 403
