"""/retention: how long things are kept, who may say so, and what a rule would remove."""

from datetime import timedelta
from typing import Any

import pytest
from tests.server.api.neighbours import Neighbours
from tests.server.service import START, field_of

from rota.auth.caller import Scope
from rota.jobs import Succeeded, decide_outcome
from rota.stores.protocol import LeaseRequest
from rota.testing import a_job

RETENTION = "/api/v1/retention"
PREVIEW = f"{RETENTION}/preview"


async def end_a_job(both: Neighbours, days_ago: int, **fields: Any) -> str:
    """A job that ended that long ago; returns its id."""
    at = START - timedelta(days=days_ago)
    store = both.service.store
    job = a_job(due_at=at, created_at=at, **fields)
    await store.insert([job], at)
    request = LeaseRequest(worker="w", limit=1, lease_for=timedelta(minutes=1))
    (leased,) = await store.lease(request, at)
    await store.apply([decide_outcome(leased, Succeeded(), at)], at)
    return job.id


async def test_an_ended_job_says_when_it_is_removed_by_the_rule_of_its_scope(
    both: Neighbours,
) -> None:
    job_id = await end_a_job(both, 20, tenant="ours", kind="mail")

    async def removed_at() -> Any:
        return (await both.ours.get(f"/api/v1/jobs/{job_id}")).json()["removed_at"]

    assert await removed_at() == "2026-05-11T12:00:00Z"
    await both.ours.put(RETENTION, json={"ended": "21d", "kind": "mail"})
    await both.theirs.put(RETENTION, json={"ended": "1d", "kind": "mail"})
    assert await removed_at() == "2026-05-02T12:00:00Z"
    await both.ours.put(RETENTION, json={"ended": "forever", "kind": "mail"})
    assert await removed_at() is None


async def test_a_job_that_has_not_ended_has_no_removal_date(neighbours: Neighbours) -> None:
    asked = {"name": "n", "queue": "q", "retry_policy": {}}
    made = (await neighbours.ours.post("/api/v1/jobs", json=asked)).json()
    found = (await neighbours.ours.get(f"/api/v1/jobs/{made['id']}")).json()
    assert "removed_at" not in found
    assert found == made


async def test_rules_are_set_listed_and_removed(both: Neighbours) -> None:
    await both.ours.put(RETENTION, json={"ended": "7d", "results": "12h", "why": "small disk"})
    await both.ours.put(RETENTION, json={"whose": "all", "kind": "mail", "dead": "forever"})
    found = (await both.ours.get(RETENTION)).json()
    rules = [(it["whose"], it["kind"], it["ended"], it["dead"]) for it in found["items"]]
    assert rules == [("all", "mail", None, "forever"), ("own", None, "7d", None)]
    assert found["items"][1]["set_at"] == "2026-05-01T12:00:00Z"
    effective = {"ended": "7d", "dead": "90d", "results": "12h", "attempts": None}
    assert found["effective"] == effective | {"audit": "365d", "effects": "30d"}
    assert found["default"]["ended"] == "30d"
    theirs = (await both.theirs.get(RETENTION)).json()
    assert [it["whose"] for it in theirs["items"]] == ["all"]
    audited = (await both.ours.get("/api/v1/audit")).json()["items"]
    assert audited[0]["action"] == "set_retention"
    assert audited[0]["details"] == {"kind": None, "keep": "ended=7d,results=12h"}
    assert audited[0]["why"] == "small disk"
    assert (await both.ours.delete(RETENTION)).status_code == 204
    assert (await both.ours.delete(f"{RETENTION}?whose=all&kind=mail")).status_code == 204
    assert (await both.ours.get(RETENTION)).json()["items"] == []


async def test_a_preview_counts_the_jobs_of_its_scope_and_changes_nothing(both: Neighbours) -> None:
    for fields in ({"tenant": "ours", "kind": "mail"}, {"tenant": "ours"}, {"tenant": "theirs"}):
        await end_a_job(both, 20, **fields)
    for body, count in (
        ({"ended": "10d"}, 2),
        ({"ended": "10d", "kind": "mail"}, 1),
        ({"ended": "10d", "whose": "all"}, 3),
        ({"ended": "25d"}, 0),
        ({}, 0),
    ):
        answer = (await both.ours.post(PREVIEW, json=body)).json()
        assert answer == {"count": count, "is_complete": True}, body
    assert await both.service.store.count("ours") == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ended"),
        ({"ended": "soon"}, "ended"),
        ({"dead": "-1d"}, "dead"),
        ({"audit": "1d", "kind": "mail"}, "audit"),
        ({"ended": "1d", "kind": "no kind"}, "kind"),
        ({"ended": "1d", "whose": "yours"}, "whose"),
    ],
)
async def test_bad_rules_name_their_field(
    neighbours: Neighbours, body: dict[str, Any], field: str
) -> None:
    assert field_of(await neighbours.ours.put(RETENTION, json=body)) == field


async def test_rules_are_changed_by_admins_only(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.WRITE, Scope.OPERATE) as weak:
        assert (await weak.get(RETENTION)).status_code == 200
        assert (await weak.put(RETENTION, json={"ended": "1d"})).status_code == 403
        assert (await weak.post(PREVIEW, json={"ended": "1d"})).status_code == 403
        assert (await weak.delete(RETENTION)).status_code == 403
