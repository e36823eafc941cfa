"""POST /leases, /leases/extend and /leases/settle: a worker in any language."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, field_of

from rota.auth.caller import Scope
from rota.policy.gate_settings import Scope as GateScope
from rota.policy.gates import Maintenance
from rota.policy.limits import Limit
from rota.rail.settings import set_limit, set_maintenance

LEASES = "/api/v1/leases"
MINUTE = timedelta(minutes=1)


async def make(neighbours: Neighbours, **fields: Any) -> dict[str, Any]:
    answer = await neighbours.ours.post(JOBS, json={"name": "send", "queue": "mail", **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def lease(client: httpx2.AsyncClient, **wish: Any) -> list[dict[str, Any]]:
    answer = await client.post(LEASES, json={"worker": "w7", "limit": 10, **wish})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def settle(client: httpx2.AsyncClient, job: dict[str, Any], **outcome: Any) -> dict[str, Any]:
    sent = {"job_id": job["id"], "token": job["lease"]["token"], **outcome}
    answer = await client.post(f"{LEASES}/settle", json={"worker": "w7", "outcomes": [sent]})
    assert answer.status_code == 200, answer.text
    (item,) = answer.json()["items"]
    settled: dict[str, Any] = item
    return settled


async def test_a_job_is_taken_by_one_alone_and_settled(both: Neighbours) -> None:
    made = await make(both, payload={"to": "ada"})
    (job,) = await lease(both.ours, lease_seconds=30)
    assert (job["id"], job["status"], job["payload"]) == (made["id"], "RUNNING", {"to": "ada"})
    assert job["lease"]["worker"] == "w7"
    assert job["lease"]["until"] == "2026-05-01T12:00:30Z"
    assert await lease(both.ours, worker="other") == []
    settled = await settle(both.ours, job, outcome="succeeded")
    assert (settled["is_stale"], settled["job"]["status"]) == (False, "COMPLETED")
    assert (await settle(both.ours, job, outcome="succeeded"))["is_stale"]


async def test_a_result_and_a_log_are_kept_with_the_job(both: Neighbours) -> None:
    await make(both)
    (job,) = await lease(both.ours)
    settled = await settle(both.ours, job, outcome="succeeded", result={"sent": 7}, log="sent 7")
    assert settled["job"]["completion"]["worker"] == "w7"
    kept = await both.service.store.results(settled["job"]["tenant"], [job["id"]])
    assert kept == {job["id"]: b'{"sent":7}'}
    attempts = (await both.ours.get(f"{JOBS}/{job['id']}/attempts")).json()["items"]
    assert [(each["outcome"], each["log"]) for each in attempts] == [("succeeded", "sent 7")]


async def test_a_traceback_is_kept_and_cut_in_the_middle(both: Neighbours) -> None:
    await make(both)
    (job,) = await lease(both.ours)
    sent = "Traceback\n" + "x" * 20_000 + "\nKeyError"
    await settle(both.ours, job, outcome="failed", error="KeyError", traceback=sent)
    (attempt,) = (await both.ours.get(f"{JOBS}/{job['id']}/attempts")).json()["items"]
    assert attempt["traceback"].startswith("Traceback\nxxx")
    assert attempt["traceback"].endswith("xxx\nKeyError")
    assert len(attempt["traceback"].encode()) <= 16 * 1024


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ({"outcome": "failed", "result": 7}, "is kept only if the outcome is succeeded"),
        (
            {"outcome": "succeeded", "result": "x" * 65_535},
            "has 65537 bytes of JSON, 65536 are the most",
        ),
    ],
)
async def test_a_result_that_cannot_be_kept_is_refused(
    both: Neighbours, outcome: dict[str, Any], reason: str
) -> None:
    await make(both)
    (job,) = await lease(both.ours)
    sent = {"job_id": job["id"], "token": job["lease"]["token"], **outcome}
    answer = await both.ours.post(f"{LEASES}/settle", json={"worker": "w7", "outcomes": [sent]})
    assert (answer.status_code, field_of(answer)) == (400, "outcomes[0].result")
    assert reason in answer.text


async def test_every_outcome_is_decided_as_for_any_worker(both: Neighbours) -> None:
    for outcome, expected in (
        ({"outcome": "failed", "error": "KeyError"}, ("READY", 1, "2026-05-01T12:00:10Z")),
        ({"outcome": "failed", "error": "no", "retryable": False}, ("FAILED", 1, None)),
        ({"outcome": "snoozed", "seconds": 90}, ("READY", 0, "2026-05-01T12:01:30Z")),
        ({"outcome": "discarded", "error": "no such user"}, ("FAILED", 1, None)),
        ({"outcome": "handed_back"}, ("READY", 0, "2026-05-01T12:00:00Z")),
    ):
        await make(both)
        (job,) = await lease(both.ours)
        settled = (await settle(both.ours, job, **outcome))["job"]
        shown = (settled["status"], settled["attempt_count"], settled["run_at"])
        assert shown == (*expected[:2], expected[2] or "2026-05-01T12:00:00Z"), outcome
        await both.ours.delete(f"{JOBS}/{job['id']}")
    assert settled["last_error"] is None


async def test_an_attempt_is_kept_with_its_error(both: Neighbours) -> None:
    await make(both)
    (job,) = await lease(both.ours)
    await settle(both.ours, job, outcome="failed", error="KeyError: 'x'")
    (attempt,) = (await both.ours.get(f"{JOBS}/{job['id']}/attempts")).json()["items"]
    assert (attempt["worker"], attempt["error"]) == ("w7", "KeyError: 'x'")


async def test_a_lease_is_kept_alive_and_a_lost_one_is_named(both: Neighbours) -> None:
    jobs = [await make(both) for _ in range(2)]
    leased = await lease(both.ours, lease_seconds=30)
    held = [{"job_id": job["id"], "token": job["lease"]["token"]} for job in leased]
    await both.service.clock.advance(timedelta(seconds=20))
    await both.ours.post(f"{JOBS}/{jobs[0]['id']}/cancel")
    order = {"worker": "w7", "leases": held, "lease_seconds": 60}
    answer = (await both.ours.post(f"{LEASES}/extend", json=order)).json()
    assert answer == {"until": "2026-05-01T12:01:20Z", "lost": [jobs[0]["id"]]}
    shown = (await both.ours.get(f"{JOBS}/{jobs[1]['id']}")).json()
    assert shown["lease"]["until"] == "2026-05-01T12:01:20Z"


async def test_a_wrong_token_or_name_cannot_settle_or_extend(both: Neighbours) -> None:
    await make(both)
    (job,) = await lease(both.ours)
    for worker, token in (("w7", 99), ("other", job["lease"]["token"])):
        sent = {"job_id": job["id"], "token": token}
        order = {"worker": worker, "outcomes": [{**sent, "outcome": "succeeded"}]}
        answer = (await both.ours.post(f"{LEASES}/settle", json=order)).json()
        assert (answer["stale_count"], answer["items"][0]["job"]) == (1, None)
        answer = (
            await both.ours.post(f"{LEASES}/extend", json={"worker": worker, "leases": [sent]})
        ).json()
        assert answer["lost"] == [job["id"]]
    assert (await both.ours.get(f"{JOBS}/{job['id']}")).json()["status"] == "RUNNING"


async def test_many_jobs_settle_in_one_step_and_stale_ones_are_reported(both: Neighbours) -> None:
    for _ in range(3):
        await make(both)
    leased = await lease(both.ours)
    await settle(both.ours, leased[0], outcome="succeeded")
    outcomes = [
        {"job_id": job["id"], "token": job["lease"]["token"], "outcome": "succeeded"}
        for job in leased
    ]
    body = {"worker": "w7", "outcomes": [*outcomes, outcomes[1]]}
    answer = (await both.ours.post(f"{LEASES}/settle", json=body)).json()
    assert [it["is_stale"] for it in answer["items"]] == [True, False, False, True]
    assert answer["stale_count"] == 2


async def test_an_expired_lease_is_rescued_with_no_other_worker_about(both: Neighbours) -> None:
    await make(both)
    (job,) = await lease(both.ours, lease_seconds=10)
    await both.service.clock.advance(MINUTE)
    assert await lease(both.ours, worker="other") == []
    shown = (await both.ours.get(f"{JOBS}/{job['id']}")).json()
    assert (shown["status"], shown["attempt_count"], shown["loss_count"]) == ("READY", 1, 1)
    assert "Lost: worker w7" in shown["last_error"]
    assert (await settle(both.ours, job, outcome="succeeded"))["is_stale"]
    await both.service.clock.advance(MINUTE)
    (again,) = await lease(both.ours, worker="other")
    assert again["lease"]["token"] > job["lease"]["token"]


async def test_dependents_are_released_by_the_end(both: Neighbours) -> None:
    parent = await make(both)
    child = await make(both, dependencies=[parent["id"]])
    (job,) = await lease(both.ours)
    await settle(both.ours, job, outcome="succeeded")
    assert [it["id"] for it in await lease(both.ours)] == [child["id"]]


async def test_a_series_goes_on_and_may_overlap(both: Neighbours) -> None:
    await make(both, recurrence={"interval": "1h", "overlap": "allow"})
    (job,) = await lease(both.ours, lease_seconds=3600)
    page = (await both.ours.get(f"{JOBS}?status=READY")).json()["items"]
    assert [it["occurrence_at"] for it in page] == ["2026-05-01T13:00:00Z"]
    await settle(both.ours, job, outcome="succeeded")
    assert len((await both.ours.get(f"{JOBS}?status=READY")).json()["items"]) == 1


async def test_gates_hold_jobs_back_and_quiet_hours_those_that_notify(both: Neighbours) -> None:
    await make(both)
    now = both.service.clock.now()
    window = Maintenance(until=now + MINUTE, reason="upgrade")
    await set_maintenance(both.service.store, GateScope(tenant="ours"), window)
    assert await lease(both.ours) == []
    (job,) = (await both.ours.get(JOBS)).json()["items"]
    assert (job["status"], job["attempt_count"]) == ("READY", 0)
    assert job["deferral"]["reason"] == "maintenance: upgrade"
    await both.service.clock.advance(MINUTE)
    quiet = {"start": "11:00", "end": "14:00", "zone": "UTC"}
    await both.ours.put("/api/v1/gates/quiet-hours", json=quiet)
    await both.service.clock.advance(timedelta(seconds=5))
    assert await lease(both.ours, notifies=["send"]) == []
    await make(both, name="other")
    assert [it["name"] for it in await lease(both.ours, notifies=["send"])] == ["other"]


async def test_limits_hold_for_workers_outside_too(both: Neighbours) -> None:
    for _ in range(3):
        await make(both)
    store, clock = both.service.store, both.service.clock
    await set_limit(store, Limit(tenant="ours", running=2), clock=clock)
    assert len(await lease(both.ours)) == 2
    assert await lease(both.ours) == []


async def test_only_named_queues_are_served(both: Neighbours) -> None:
    await make(both, queue="mail")
    await make(both, queue="other")
    assert [it["queue"] for it in await lease(both.ours, queues=["other"])] == ["other"]


async def test_another_tenant_gets_settles_and_extends_nothing(both: Neighbours) -> None:
    await make(both)
    assert await lease(both.theirs) == []
    (job,) = await lease(both.ours)
    assert (await settle(both.theirs, job, outcome="succeeded"))["is_stale"]
    held = {"job_id": job["id"], "token": job["lease"]["token"]}
    order = {"worker": "w7", "leases": [held], "lease_seconds": 600}
    assert (await both.theirs.post(f"{LEASES}/extend", json=order)).json()["lost"] == [job["id"]]
    shown = (await both.ours.get(f"{JOBS}/{job['id']}")).json()
    assert (shown["status"], shown["lease"]["until"]) == ("RUNNING", "2026-05-01T12:01:00Z")


async def test_working_needs_the_scope_of_workers(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as weak:
        for url, body in (
            (LEASES, {"worker": "w"}),
            (f"{LEASES}/extend", {"worker": "w", "leases": [{"job_id": NO_ID, "token": 1}]}),
            (
                f"{LEASES}/settle",
                {
                    "worker": "w",
                    "outcomes": [{"job_id": NO_ID, "token": 1, "outcome": "succeeded"}],
                },
            ),
        ):
            assert (await weak.post(url, json=body)).status_code == 403


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({}, "worker"),
        ({"worker": ""}, "worker"),
        ({"worker": "w", "limit": 0}, "limit"),
        ({"worker": "w", "limit": 101}, "limit"),
        ({"worker": "w", "lease_seconds": 0}, "lease_seconds"),
        ({"worker": "w", "lease_seconds": 3601}, "lease_seconds"),
        ({"worker": "w", "wait_seconds": 31}, "wait_seconds"),
        ({"worker": "w", "queues": []}, "queues"),
        ({"worker": "w", "queues": ["no queue"]}, "queue"),
        ({"worker": "w", "notifies": ["no kind"]}, "notifies"),
        ({"worker": "w", "kinds": ["no kind"]}, "kinds"),
        ({"worker": "w", "colour": "red"}, "colour"),
    ],
)
async def test_bad_wishes_name_their_field(
    neighbours: Neighbours, wish: dict[str, Any], field: str
) -> None:
    assert field_of(await neighbours.ours.post(LEASES, json=wish)) == field


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        ({"job_id": "x", "token": 1, "outcome": "succeeded"}, "outcomes[0].job_id"),
        ({"job_id": NO_ID, "token": 0, "outcome": "succeeded"}, "outcomes[0].token"),
        ({"job_id": NO_ID, "token": 1, "outcome": "exploded"}, "outcomes[0].outcome"),
        ({"job_id": NO_ID, "token": 1, "outcome": "snoozed"}, "outcomes[0].seconds"),
        ({"job_id": NO_ID, "outcome": "succeeded"}, "outcomes[0].token"),
    ],
)
async def test_bad_outcomes_name_their_field(
    neighbours: Neighbours, outcome: dict[str, Any], field: str
) -> None:
    body = {"worker": "w", "outcomes": [outcome]}
    assert field_of(await neighbours.ours.post(f"{LEASES}/settle", json=body)) == field


async def test_a_waiting_request_gets_a_new_job_at_once(neighbours: Neighbours) -> None:
    waiting = asyncio.create_task(lease(neighbours.ours, wait_seconds=30))
    await neighbours.service.clock.advance(timedelta(seconds=3))
    assert not waiting.done()
    made = await make(neighbours)
    (job,) = await asyncio.wait_for(waiting, 60)
    assert job["id"] == made["id"]
    assert job["lease"]["taken_at"] == "2026-05-01T12:00:03Z"


async def test_a_waiting_request_gets_a_job_when_it_is_due(neighbours: Neighbours) -> None:
    await make(neighbours, run_at="2026-05-01T12:00:10.5Z")
    waiting = asyncio.create_task(lease(neighbours.ours, wait_seconds=30))
    await neighbours.service.clock.advance(timedelta(seconds=10))
    assert not waiting.done()
    await neighbours.service.clock.advance(timedelta(seconds=1))
    (job,) = await asyncio.wait_for(waiting, 60)
    assert job["lease"]["taken_at"] == "2026-05-01T12:00:10.500000Z"


async def test_a_waiting_request_ends_in_time_without_a_job(neighbours: Neighbours) -> None:
    waiting = asyncio.create_task(lease(neighbours.ours, wait_seconds=5))
    await neighbours.service.clock.advance(timedelta(seconds=4))
    assert not waiting.done()
    await neighbours.service.clock.advance(timedelta(seconds=2))
    assert await asyncio.wait_for(waiting, 60) == []


async def test_waiting_requests_end_when_the_server_stops(neighbours: Neighbours) -> None:
    waiting = asyncio.create_task(lease(neighbours.ours, wait_seconds=30))
    await neighbours.service.clock.advance(timedelta(seconds=1))
    neighbours.service.app.state.http_leases.close()
    assert await asyncio.wait_for(waiting, 60) == []
