"""POST /jobs/{id}/retry, /duplicate, /cancel and /run-now."""

from datetime import timedelta

from tests.server.api.conftest import make, make_dead
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, START

from rota.auth.caller import Scope


async def audit_of(neighbours: Neighbours) -> list[tuple[str, str, str]]:
    items = (await neighbours.ours.get("/api/v1/audit")).json()["items"]
    return [(it["action"], it["who"], it["why"]) for it in items]


async def test_a_dead_job_is_retried_by_a_new_one_that_names_it(both: Neighbours) -> None:
    dead = await make_dead(both)
    answer = await both.ours.post(f"{JOBS}/{dead['id']}/retry", json={"why": "fixed"})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["job"]["replaces"], made["job"]["status"]) == (dead["id"], "READY")
    assert made["replacements"] == {dead["id"]: made["job"]["id"]}
    assert answer.headers["location"].endswith(made["job"]["id"])
    again = await both.ours.post(f"{JOBS}/{dead['id']}/retry")
    assert again.json()["job"]["id"] == made["job"]["id"]
    assert ("retry", "ours tester", "fixed") in await audit_of(both)


async def test_a_dead_job_is_retried_with_another_payload_once(both: Neighbours) -> None:
    dead = await make_dead(both)
    url = f"{JOBS}/{dead['id']}/retry"
    changes = {"payload": {"order": 7}, "priority": 9, "run_at": "2026-05-02T12:00:00Z"}
    answer = await both.ours.post(url, json={"why": "typo", "changes": changes})
    assert answer.status_code == 201, answer.text
    new = answer.json()["job"]
    assert {name: new[name] for name in changes} == changes
    again = await both.ours.post(url, json={"changes": {"payload": {"order": 8}}})
    assert again.status_code == 409
    assert f"has been retried already, by {new['id']}" in again.json()["message"]


async def test_a_job_is_duplicated_with_changes(both: Neighbours) -> None:
    job = await make(both, payload={"order": 1}, priority=7)
    url = f"{JOBS}/{job['id']}/duplicate"
    answer = await both.ours.post(url, json={"why": "one more", "changes": {"queue": "slow"}})
    assert answer.status_code == 201, answer.text
    copy = answer.json()
    assert (copy["payload"], copy["priority"], copy["queue"]) == ({"order": 1}, 7, "slow")
    assert copy["id"] != job["id"]
    assert answer.headers["location"].endswith(copy["id"])
    assert ("duplicate", "ours tester", "one more") in await audit_of(both)
    for changes, field in (({"run_at": "soon"}, "run_at"), ({"kind": "x"}, "changes.kind")):
        refused = await both.ours.post(url, json={"changes": changes})
        assert (refused.status_code, refused.json()["details"]["field"]) == (400, field)


async def test_changes_need_the_scope_write(neighbours: Neighbours) -> None:
    dead = await make_dead(neighbours)
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as operator:
        url = f"{JOBS}/{dead['id']}"
        sent = {"changes": {"priority": 9}}
        assert (await operator.post(f"{url}/retry", json=sent)).status_code == 403
        assert (await operator.post(f"{url}/duplicate", json={})).status_code == 403
        assert (await operator.post(f"{url}/retry", json={})).status_code == 201


async def test_with_cascade_what_was_blocked_is_submitted_again(both: Neighbours) -> None:
    dead = await make(both, retry_policy={"max_attempts": 1})
    child = await make(both, dependencies=[dead["id"]])
    await make_dead(both)
    assert (await both.ours.get(f"{JOBS}/{child['id']}")).json()["status"] == "BLOCKED"
    answer = await both.ours.post(f"{JOBS}/{dead['id']}/retry?cascade=true")
    replacements = answer.json()["replacements"]
    new_child = (await both.ours.get(f"{JOBS}/{replacements[child['id']]}")).json()
    assert new_child["dependencies"] == [replacements[dead["id"]]]
    assert new_child["status"] == "PENDING"


async def test_a_job_that_has_not_failed_is_not_retried(neighbours: Neighbours) -> None:
    job = await make(neighbours)
    answer = await neighbours.ours.post(f"{JOBS}/{job['id']}/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


async def test_a_cancelled_job_records_who_and_why(both: Neighbours) -> None:
    job = await make(both)
    answer = await both.ours.post(f"{JOBS}/{job['id']}/cancel", json={"why": "no need"})
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["status"], shown["ending"]) == ("FAILED", "cancelled")
    assert shown["last_error"] == "cancelled by ours tester: no need"
    again = await both.ours.post(f"{JOBS}/{job['id']}/cancel")
    assert again.status_code == 409
    assert await audit_of(both) == [("cancel", "ours tester", "no need")]


async def test_one_occurrence_is_cancelled_and_the_series_goes_on(both: Neighbours) -> None:
    job = await make(both, recurrence={"interval": "1h"})
    answer = await both.ours.post(f"{JOBS}/{job['id']}/cancel?ends_series=false")
    assert answer.json()["id"] == job["id"]
    (series,) = (await both.ours.get("/api/v1/series")).json()["items"]
    assert (series["id"], series["job_id"] != job["id"]) == (job["id"], True)


async def test_a_job_that_waits_is_run_now(both: Neighbours) -> None:
    later = (START + timedelta(days=1)).isoformat()
    job = await make(both, run_at=later)
    answer = await both.ours.post(f"{JOBS}/{job['id']}/run-now")
    assert answer.json()["run_at"] == "2026-05-01T12:00:00Z"
    await both.ours.post(f"{JOBS}/{job['id']}/cancel")
    assert (await both.ours.post(f"{JOBS}/{job['id']}/run-now")).status_code == 409


async def test_another_tenant_and_an_unknown_id_find_nothing(neighbours: Neighbours) -> None:
    dead = await make_dead(neighbours)
    for act in ("retry", "duplicate", "cancel", "run-now"):
        theirs = await neighbours.theirs.post(f"{JOBS}/{dead['id']}/{act}")
        unknown = await neighbours.ours.post(f"{JOBS}/{NO_ID}/{act}")
        assert (theirs.status_code, unknown.status_code) == (404, 404), act
        assert theirs.json()["message"].replace(dead["id"], NO_ID) == unknown.json()["message"]


async def test_acting_needs_the_scope_to_operate(neighbours: Neighbours) -> None:
    job = await make(neighbours)
    async with neighbours.with_only(Scope.READ, Scope.WRITE) as weak:
        for act in ("retry", "cancel", "run-now"):
            assert (await weak.post(f"{JOBS}/{job['id']}/{act}")).status_code == 403


async def test_bad_input_names_its_field(neighbours: Neighbours) -> None:
    job = await make(neighbours)
    url = f"{JOBS}/{job['id']}/cancel"
    for sent, field in (
        ({"why": 3}, "why"),
        ({"reason": "x"}, "reason"),
        ({"why": "x" * 2001}, "why"),
    ):
        answer = await neighbours.ours.post(url, json=sent)
        assert (answer.status_code, answer.json()["details"]["field"]) == (400, field)
    answer = await neighbours.ours.post(f"{url}?ends_series=perhaps")
    assert answer.json()["details"]["field"] == "ends_series"
    assert (await neighbours.ours.post(f"{JOBS}/nonsense/cancel")).status_code == 400
