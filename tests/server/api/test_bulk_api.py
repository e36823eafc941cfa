"""POST /jobs/bulk: many jobs, all or none."""

from typing import Any

import httpx2
import pytest
from tests.server.api.conftest import make
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, field_of

from rota.auth.caller import Scope

BULK = f"{JOBS}/bulk"


def a_wish(**fields: Any) -> dict[str, Any]:
    return {"name": "a job", "queue": "mail", **fields}


async def send(neighbours: Neighbours, *wishes: dict[str, Any]) -> httpx2.Response:
    return await neighbours.ours.post(BULK, json={"jobs": list(wishes)})


async def count(neighbours: Neighbours) -> int:
    return await neighbours.service.store.count("ours")


async def test_jobs_depend_on_each_other_by_ref_in_any_order(both: Neighbours) -> None:
    old = await make(both)
    answer = await send(
        both,
        a_wish(ref="load", dependencies=["transform", old["id"]]),
        a_wish(ref="transform", dependencies=["extract"]),
        a_wish(ref="extract"),
        a_wish(),
    )
    assert answer.status_code == 201, answer.text
    made = answer.json()
    ids = made["ids"]
    load, transform, extract, plain = made["items"]
    assert load["dependencies"] == [ids["transform"], old["id"]]
    assert transform["dependencies"] == [ids["extract"]]
    assert [it["status"] for it in made["items"]] == ["PENDING", "PENDING", "READY", "READY"]
    assert (extract["id"], plain["dependencies"]) == (ids["extract"], [])
    assert (made["created_count"], made["existing_count"]) == (4, 0)


async def test_a_thousand_are_made_in_one_step_and_one_more_is_refused(both: Neighbours) -> None:
    answer = await send(both, *[a_wish() for _ in range(1000)])
    assert (answer.status_code, await count(both)) == (201, 1000)
    answer = await send(both, *[a_wish() for _ in range(1001)])
    assert (field_of(answer), await count(both)) == ("jobs", 1000)


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"queue": "no queue"}, "jobs[1].queue"),
        ({"priority": 11}, "jobs[1].priority"),
        ({"priority": "high"}, "jobs[1].priority"),
        ({"colour": "red"}, "jobs[1].colour"),
        ({"run_at": "soon"}, "jobs[1].run_at"),
        ({"payload": "x" * 70_000}, "jobs[1].payload"),
        ({"ref": "a"}, "jobs[1].ref"),
        ({"ref": NO_ID}, "jobs[1].ref"),
        ({"ref": "no good"}, "jobs[1].ref"),
        ({"dependencies": ["nobody"]}, "jobs[1].dependencies[0]"),
        ({"dependencies": ["a", "a"]}, "jobs[1].dependencies"),
        ({"dependencies": [NO_ID]}, "jobs[1].dependencies"),
    ],
)
async def test_one_bad_job_is_named_by_its_place_and_none_is_made(
    neighbours: Neighbours, wish: dict[str, Any], field: str
) -> None:
    answer = await send(neighbours, a_wish(ref="a"), a_wish(**wish))
    assert (field_of(answer), await count(neighbours)) == (field, 0)


async def test_a_circle_is_a_conflict(both: Neighbours) -> None:
    answer = await send(
        both, a_wish(ref="a", dependencies=["b"]), a_wish(ref="b", dependencies=["a"])
    )
    assert (answer.status_code, await count(both)) == (409, 0)
    assert len(answer.json()["details"]["cycle_path"]) == 2


async def test_a_job_with_a_known_key_is_not_created_again(both: Neighbours) -> None:
    wishes = [a_wish(idempotency_key="k1"), a_wish(idempotency_key="k2")]
    first = (await send(both, *wishes)).json()
    again = await send(both, *wishes, a_wish())
    assert (again.json()["created_count"], again.json()["existing_count"]) == (1, 2)
    assert [it["id"] for it in again.json()["items"][:2]] == [it["id"] for it in first["items"]]
    assert (await send(both, *wishes)).status_code == 200


async def test_a_dependency_of_another_tenant_does_not_exist(neighbours: Neighbours) -> None:
    job = await make(neighbours)
    body = {"jobs": [a_wish(dependencies=[job["id"]])]}
    assert field_of(await neighbours.theirs.post(BULK, json=body)) == "jobs[0].dependencies"


async def test_making_needs_the_scope_to_write(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as weak:
        assert (await weak.post(BULK, json={"jobs": [a_wish()]})).status_code == 403


async def test_queues_may_have_names_that_specification_5_keeps_from_its_own_requests(
    both: Neighbours,
) -> None:
    queue = "eu.mail-out:7"
    assert field_of(await both.ours.post(JOBS, json=a_wish(queue=queue))) == "queue"
    (job,) = (await send(both, a_wish(queue=queue))).json()["items"]
    update = await both.ours.put(f"{JOBS}/{job['id']}", json={"queue": "other-queue"})
    assert field_of(update) == "queue"
    found = (await both.ours.get(f"{JOBS}?queue={queue}")).json()["items"]
    assert [it["id"] for it in found] == [job["id"]]
    limit = await both.ours.put("/api/v1/limits", json={"queue": queue, "running": 3})
    assert limit.status_code == 200
    gate = {"queue": queue, "reason": "mail is down"}
    paused = await both.ours.put("/api/v1/gates/maintenance/installation", json=gate)
    assert paused.json()[0]["queue"] == queue
