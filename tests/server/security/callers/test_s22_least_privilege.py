"""S22: a worker's token leases and settles, and nothing else; a token may be for single queues."""

from typing import Any

import httpx2
import pytest
from tests.server.security.conftest import Stage

from rota.auth.caller import Scope
from rota.server.app import TABLE

JOBS = "/api/v1/jobs"
LEASES = "/api/v1/leases"
TOKENS = "/api/v1/tokens"
MAIL = {"name": "a mail", "queue": "mail"}
BILL = {"name": "a bill", "queue": "bills"}


async def make_worker(stage: Stage, **limits: Any) -> httpx2.AsyncClient:
    """A caller with a token that an administrator issued."""
    admin = await stage.sign_up()
    wish = {"name": "worker 7", "scopes": ["worker"], **limits}
    answer = await admin.post(TOKENS, json=wish)
    assert answer.status_code == 201, answer.text
    return await stage.connect(answer.json()["secret"])


async def lease(client: httpx2.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    answer = await client.post(LEASES, json={"worker": "w", "limit": 10, **fields})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def settle(job: dict[str, Any], worker: str = "w") -> dict[str, Any]:
    ended = {"job_id": job["id"], "token": job["lease"]["token"], "outcome": "succeeded"}
    return {"worker": worker, "outcomes": [ended]}


async def test_a_worker_leases_extends_and_settles(stage: Stage) -> None:
    await (await stage.sign_up()).post(JOBS, json=MAIL)
    worker = await make_worker(stage)
    (job,) = await lease(worker)
    held = {"job_id": job["id"], "token": job["lease"]["token"]}
    kept = await worker.post(f"{LEASES}/extend", json={"worker": "w", "leases": [held]})
    assert kept.json()["lost"] == []
    assert (await worker.post(f"{LEASES}/settle", json=settle(job))).json()["stale_count"] == 0


async def test_a_worker_may_do_nothing_else(stage: Stage) -> None:
    worker = await make_worker(stage)
    for route in TABLE:
        answer = await worker.request(route.method, route.path.replace("{job_id}", "0"), json={})
        is_allowed = route.scope in (None, Scope.WORKER)
        assert (answer.status_code != 403) is is_allowed, f"{route.method} {route.path}"
    assert {route.path for route in TABLE if route.scope is Scope.WORKER} == {
        LEASES,
        f"{LEASES}/extend",
        f"{LEASES}/settle",
    }


async def test_write_includes_worker(stage: Stage) -> None:
    client = await stage.connect(await stage.issue(scopes=[Scope.WRITE]))
    assert await lease(client) == []


async def test_a_token_for_a_queue_leases_from_this_queue_only(stage: Stage) -> None:
    admin = await stage.sign_up()
    for wish in (BILL, MAIL):
        await admin.post(JOBS, json=wish)
    worker = await make_worker(stage, queues=["mail"])
    assert [job["queue"] for job in await lease(worker)] == ["mail"]
    assert await lease(worker, queues=["mail"]) == []
    refused = await worker.post(LEASES, json={"worker": "w", "queues": ["mail", "bills"]})
    assert refused.status_code == 403
    assert '"bills"' in refused.json()["message"]


async def test_a_token_for_a_queue_cannot_settle_jobs_of_another(stage: Stage) -> None:
    admin = await stage.sign_up()
    await admin.post(JOBS, json=BILL)
    (job,) = await lease(admin)
    worker = await make_worker(stage, queues=["mail"])
    answer = await worker.post(f"{LEASES}/settle", json=settle(job))
    assert answer.json()["stale_count"] == 1
    held = {"job_id": job["id"], "token": job["lease"]["token"]}
    lost = await worker.post(f"{LEASES}/extend", json={"worker": "w", "leases": [held]})
    assert lost.json()["lost"] == [job["id"]]
    assert (await admin.post(f"{LEASES}/settle", json=settle(job))).json()["stale_count"] == 0


async def test_a_token_for_a_queue_creates_and_reads_jobs_of_this_queue_only(stage: Stage) -> None:
    admin = await stage.sign_up()
    bill = (await admin.post(JOBS, json=BILL)).json()
    client = await make_worker(stage, scopes=["read", "write"], queues=["mail"])
    mail = await client.post(JOBS, json=MAIL)
    assert mail.status_code == 201
    assert (await client.get(f"{JOBS}/{mail.json()['id']}")).status_code == 200
    assert (await client.post(JOBS, json=BILL)).status_code == 403
    assert (await client.get(f"{JOBS}/{bill['id']}")).status_code == 404


async def test_a_token_for_a_queue_is_refused_where_the_queue_is_not_checked(stage: Stage) -> None:
    client = await make_worker(stage, scopes=["read", "write"], queues=["mail"])
    checked = {route.path for route in TABLE if route.by_queue}
    assert checked == {JOBS, f"{JOBS}/{{job_id}}", LEASES, f"{LEASES}/extend", f"{LEASES}/settle"}
    for method, path in (
        ("GET", JOBS),
        ("DELETE", f"{JOBS}/0"),
        ("POST", f"{JOBS}/bulk"),
        ("GET", "/api/v1/overview"),
        ("GET", "/api/v1/audit"),
    ):
        answer = await client.request(method, path)
        assert answer.status_code == 403, path
        assert "queues" in answer.json()["message"]


async def test_a_token_for_a_queue_does_not_open_the_pages(stage: Stage) -> None:
    issued = await stage.book.issue("ours", ["read"], "x", queues=["mail"])
    browser = await stage.connect(origin="http://127.0.0.1:8080")
    await browser.post("/admin/sign-in", data={"token": issued.secret.reveal()})
    assert (await browser.get("/admin")).status_code == 403


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"queues": []}, "queues"),
        ({"queues": ["no queue"]}, "queues"),
        ({"queues": ["mail"], "scopes": ["admin"]}, "queues"),
        ({"queues": ["mail"], "scopes": ["operate"]}, "queues"),
    ],
)
async def test_a_restriction_that_makes_no_sense_is_refused(
    stage: Stage, limits: dict[str, Any], field: str
) -> None:
    admin = await stage.sign_up()
    wish = {"name": "x", "scopes": ["worker"], **limits}
    answer = await admin.post(TOKENS, json=wish)
    assert answer.status_code == 400, answer.text
    assert answer.json()["details"]["field"].startswith(field)
