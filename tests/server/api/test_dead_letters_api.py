"""/dead-letters: list, inspect, retry, discard."""

from tests.server.api.conftest import make, make_dead
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, field_of

from rota.auth.caller import Scope

LETTERS = "/api/v1/dead-letters"


async def test_dead_letters_are_listed_and_filtered(both: Neighbours) -> None:
    first = await make_dead(both, kind="send")
    second = await make_dead(both, kind="fetch", queue="other")
    await make(both)
    page = (await both.ours.get(LETTERS)).json()
    assert {it["id"] for it in page["items"]} == {first["id"], second["id"]}
    for query, ids in (
        ("kind=send", {first["id"]}),
        ("queue=other", {second["id"]}),
        ("error_contains=KeyError", {first["id"], second["id"]}),
        ("error_contains=nothing", set()),
        ("ended_before=2026-01-01T00:00:00Z", set()),
    ):
        found = (await both.ours.get(f"{LETTERS}?{query}")).json()["items"]
        assert {it["id"] for it in found} == ids, query
    page = (await both.ours.get(f"{LETTERS}?limit=1")).json()
    assert page["has_more"]
    rest = (await both.ours.get(LETTERS, params={"cursor": page["next_cursor"]})).json()
    assert len(rest["items"]) == 1


async def test_one_has_all_its_attempts(both: Neighbours) -> None:
    dead = await make_dead(both)
    letter = (await both.ours.get(f"{LETTERS}/{dead['id']}")).json()
    (attempt,) = letter["attempts"]
    assert (attempt["number"], attempt["error"], attempt["worker"]) == (1, "KeyError: 'x'", "w")
    assert letter["job"]["status"] == "FAILED"


async def test_a_retry_is_planned_and_done_to_the_letter(both: Neighbours) -> None:
    dead = await make(both, retry_policy={"max_attempts": 1})
    child = await make(both, dependencies=[dead["id"]])
    await make_dead(both, kind="other")
    plan = (
        await both.ours.post(f"{LETTERS}/retry", json={"kind": "a job", "cascade": True})
    ).json()
    assert (plan["job_ids"], plan["dependent_ids"]) == ([dead["id"]], [child["id"]])
    order = {"dry_run": False, "job_ids": plan["job_ids"], "dependent_ids": plan["dependent_ids"]}
    done = (await both.ours.post(f"{LETTERS}/retry", json=order)).json()
    assert set(done["replacements"]) == {dead["id"], child["id"]}
    listed = (await both.ours.get(LETTERS)).json()["items"]
    assert [it["kind"] for it in listed] == ["other"]


async def test_one_is_discarded_and_the_audit_log_keeps_its_error(both: Neighbours) -> None:
    dead = await make_dead(both)
    url = f"{LETTERS}/{dead['id']}"
    answer = await both.ours.request("DELETE", url, json={"why": "old"})
    assert (answer.status_code, answer.json()) == (200, {"discarded_count": 1})
    assert (await both.ours.get(f"{JOBS}/{dead['id']}")).status_code == 404
    (entry,) = (await both.ours.get("/api/v1/audit?action=discard")).json()["items"]
    assert entry["details"]["errors"] == {dead["id"]: "KeyError: 'x'"}
    assert (await both.ours.delete(url)).status_code == 404


async def test_one_on_which_others_depend_is_not_discarded(neighbours: Neighbours) -> None:
    dead = await make(neighbours, retry_policy={"max_attempts": 1})
    await make(neighbours, dependencies=[dead["id"]])
    await make_dead(neighbours)
    assert (await neighbours.ours.delete(f"{LETTERS}/{dead['id']}")).status_code == 409


async def test_another_tenant_sees_and_touches_none(neighbours: Neighbours) -> None:
    dead = await make_dead(neighbours)
    theirs, url = neighbours.theirs, f"{LETTERS}/{dead['id']}"
    assert (await theirs.get(LETTERS)).json()["items"] == []
    assert (await theirs.get(url)).status_code == 404
    assert (await theirs.delete(url)).status_code == 404
    order = {"dry_run": False, "job_ids": [dead["id"]]}
    assert (await theirs.post(f"{LETTERS}/retry", json=order)).status_code == 404
    assert (await theirs.post(f"{LETTERS}/retry", json={})).json()["job_ids"] == []


async def test_bad_orders_name_their_field_and_scopes_are_asked_for(neighbours: Neighbours) -> None:
    dead = await make_dead(neighbours)
    ours, url = neighbours.ours, f"{LETTERS}/retry"
    for order, field in (
        ({"dry_run": False}, "job_ids"),
        ({"job_ids": [NO_ID]}, "job_ids"),
        ({"dependent_ids": [NO_ID]}, "dependent_ids"),
        ({"dry_run": False, "job_ids": ["x"]}, "job_id"),
        ({"kind": ""}, "kind"),
    ):
        assert field_of(await ours.post(url, json=order)) == field
    assert field_of(await ours.get(f"{LETTERS}?limit=0")) == "limit"
    async with neighbours.with_only(Scope.READ) as reader:
        assert (await reader.get(LETTERS)).status_code == 200
        assert (await reader.post(url, json={})).status_code == 403
        assert (await reader.delete(f"{LETTERS}/{dead['id']}")).status_code == 403
