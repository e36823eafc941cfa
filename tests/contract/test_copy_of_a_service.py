"""What a service says of a store, it says of its copy: everything has come along."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.shards.factory import shards_of
from tests.server.service import START, Visit, serve

from rota import Scheduler, open_store
from rota.auth.sessions import SessionBook
from rota.auth.tokens import TokenBook
from rota.ops.store_comparison import Phase
from rota.policy.once import Ledger
from rota.poller import PolledJobs
from rota.runtime.store_copy import copy_store
from rota.runtime.wiring import inspect_store
from rota.testing import VirtualClock

API = "/api/v1"
LISTS = (
    *("jobs?limit=100", "overview", "queues", "workers", "throughput", "audit", "dead-letters"),
    *("series", "tasks", "gates", "limits"),
)
OF_A_JOB = ("", "/attempts", "/graph", "/why")
COLLECTIONS = {
    *("audit:default", "bulk_plans", "effects", "gate_changes", "gates", "limits", "limit_changes"),
    *("poller.poller", "poller.poller.line", "scheduler.tasks", "sessions", "tokens", "workers"),
}
"""What is left behind by the parts of a service, one of them each."""


@pytest.fixture(params=["sqlite", "postgres", "mysql", "redis", "shards"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/target.db"
    if request.param == "shards":
        return shards_of(*(f"sqlite:///{tmp_path}/target-{number}.db" for number in range(3)))
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def source(tmp_path: Path) -> str:
    """A store on which every part of a service has left something."""
    url = f"sqlite:///{tmp_path}/source.db"
    async with serve(await open_store(url)) as visit:
        await _leave_jobs(visit)
        await _leave_settings(visit)
        await _leave_the_rest(visit)
    return url


async def _ask(visit: Visit, method: str, path: str, **body: Any) -> Any:
    answer = await visit.client.request(method, f"{API}/{path}", json=body)
    assert answer.is_success, f"{path}: {answer.text}"
    return answer.json() if answer.content else None


async def _leave_jobs(visit: Visit) -> None:
    """One that runs, one that waits for it, a dead letter, one that is due later, and series."""
    running = await visit.make_job(queue="http", idempotency_key="once")
    await visit.make_job(queue="http", dependencies=[running["id"]])
    await visit.make_job(run_at="2030-01-01T00:00:00Z", retry_policy={"max_attempts": 1})
    every_day = {"interval": "24h", "start": "2026-05-01T12:00:00Z"}
    series = [await visit.make_job(queue="series", recurrence=every_day) for _ in range(2)]
    await _ask(visit, "POST", f"series/{series[0]['id']}/pause", why="not needed")
    wish = {"worker": "mailer 7", "queues": ["http"], "limit": 1, "lease_seconds": 60}
    await _ask(visit, "POST", "leases", **wish, wait_seconds=0)
    await visit.make_job(queue="dead", retry_policy={"max_attempts": 1})
    (dead,) = (await _ask(visit, "POST", "leases", **{**wish, "queues": ["dead"]}))["items"]
    held = {"job_id": dead["id"], "token": dead["lease"]["token"]}
    failed = [{**held, "outcome": "failed", "error": "it broke"}]
    await _ask(visit, "POST", "leases/settle", worker="mailer 7", outcomes=failed)


async def _leave_settings(visit: Visit) -> None:
    hours = {"start": "22:00", "end": "06:00", "zone": "Europe/London"}
    await _ask(visit, "PUT", "gates/quiet-hours", **hours)
    window = {"from_at": "2030-01-01T00:00:00Z", "until": "2030-01-01T02:00:00Z", "reason": "new"}
    await _ask(visit, "PUT", "gates/maintenance", **window)
    await _ask(
        visit,
        "PUT",
        "limits",
        whose="own",
        queue="mail",
        running=3,
        rate={"count": 5, "per_seconds": 60},
    )
    await _ask(visit, "POST", "jobs/bulk-actions", action="cancel", dry_run=True, queue="mail")


async def _leave_the_rest(visit: Visit) -> None:
    """Tasks of a scheduler, a document of a poller, a token and its session, and an effect."""
    store, clock = visit.store, visit.clock
    scheduler = Scheduler(store, clock=clock)
    await scheduler.initialize([("hourly", "0 * * * *", _do_nothing, timedelta(minutes=1))])
    await scheduler.stop()
    await PolledJobs(store, clock=clock).add({"to": "anna"})
    book = TokenBook(store, clock)
    token = await book.issue("default", ["read"], "for a page")
    await SessionBook(store, clock, book).open(token.secret.reveal())
    await Ledger(store, clock).once("default", "sent", lambda: "done")


async def _do_nothing() -> None:
    pass


async def _see_everything(url: str) -> dict[str, Any]:
    async with serve(await open_store(url)) as visit:
        seen = {path: await _ask(visit, "GET", path) for path in LISTS}
        ids = [job["id"] for job in seen[LISTS[0]]["items"]]
        paths = [f"jobs/{job_id}{part}" for job_id in ids for part in OF_A_JOB]
        return seen | {path: await _ask(visit, "GET", path) for path in paths}


def ignore(_phase: Phase, _count: int) -> None:
    pass


async def test_a_service_says_of_a_copy_what_it_says_of_the_source(
    source: str, target: str
) -> None:
    assert set((await inspect_store(source)).document_counts) >= COLLECTIONS
    before = await _see_everything(source)
    report = await copy_store(source, target, VirtualClock(START), ignore, is_forced=True)
    assert await _see_everything(target) == before
    assert await _see_everything(source) == before
    assert (report.content.job_count, report.content.attempt_count) == (6, 1)
    assert len(before) == len(LISTS) + 6 * len(OF_A_JOB)
