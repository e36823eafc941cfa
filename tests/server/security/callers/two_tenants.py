"""What a tenant has, for tests that look for the same from another tenant's place."""

from datetime import time, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from tests.server.security.conftest import NOW, Stage

from rota.fleet.presence import WorkerPresence
from rota.jobs import (
    Failed,
    Job,
    JobFilter,
    Recurrence,
    RetryPolicy,
    Succeeded,
    decide_lease,
    decide_outcome,
    make_job_id,
)
from rota.policy.gate_settings import Scope
from rota.policy.gates import Maintenance
from rota.policy.limits import Limit
from rota.policy.quiet_hours import QuietHours
from rota.rail import Rail
from rota.rail.settings import set_limit, set_maintenance, set_quiet_hours
from rota.stores.protocol import DocumentWrite
from rota.testing import a_job

OURS, THEIRS = "ours", "theirs"
MARKER = "nobody-else-may-read-this"
"""Stands in everything that the other tenant wrote."""

COLLECTIONS = ("gates", "limits", "sessions", "stats", "tasks", "tokens", "workers")

_MINUTE = timedelta(minutes=1)
_HOURLY = Recurrence(interval="1h", start=NOW)
_ONCE = RetryPolicy(max_attempts=1)


class Household:
    """Jobs in every status, a series, gates, a limit, a token, a worker and an audit log.

    All tenants use the same queues, kinds, keys and names, so that whatever is counted or looked up
    without the tenant goes wrong.
    """

    def __init__(self, stage: Stage, tenant: str) -> None:
        self._stage = stage
        self._store = stage.store
        self._tenant = tenant
        self._chance = Random(tenant)
        self._word = MARKER if tenant == THEIRS else "harmless"

    async def move_in(self) -> dict[str, str]:
        """The ids of what there is now, by what it is."""
        jobs = self._plan()
        await self._store.insert(list(jobs.values()), NOW)
        await self._lease(jobs["running"])
        await self._end(jobs["done"], Succeeded())
        await self._end(jobs["dead"], Failed(self._word))
        await self._keep_records()
        token = await self._stage.book.issue(self._tenant, ["read"], self._word)
        return {**{name: job.id for name, job in jobs.items()}, "token": token.id}

    def _plan(self) -> dict[str, Job]:
        names = ("waiting", "running", "done", "dead", "parent")
        jobs = {name: self._job(name) for name in names}
        jobs["later"] = self._job("later", due_at=NOW + _MINUTE)
        jobs["series"] = self._job("series", due_at=NOW + _MINUTE, recurrence=_HOURLY)
        jobs["child"] = self._job("child", dependencies=(jobs["parent"].id, jobs["dead"].id))
        jobs["keyed"] = self._job("keyed", idempotency_key="the same key")
        return jobs

    def _job(self, name: str, **fields: Any) -> Job:
        answer = {"name": f"{name} {self._word}", "kind": "work", "retry_policy": _ONCE, **fields}
        job_id = make_job_id(NOW, self._chance.getrandbits(62))
        common = {"tenant": self._tenant, "queue": "shared", "created_at": NOW}
        return a_job(id=job_id, payload={"word": self._word}, **common, **answer)

    async def _lease(self, job: Job) -> Job:
        kept = (await self._store.get(self._tenant, [job.id]))[job.id]
        change = decide_lease(kept, f"worker {self._word}", _MINUTE, NOW)
        await self._store.apply([change], NOW)
        return change.job

    async def _end(self, job: Job, outcome: Succeeded | Failed) -> None:
        leased = await self._lease(job)
        await self._store.apply([decide_outcome(leased, outcome, NOW)], NOW)

    async def _keep_records(self) -> None:
        store, clock, word = self._store, self._stage.clock, self._word
        rail = Rail(store, self._tenant, clock=clock, draw_bits=self._chance.getrandbits)
        dropped = await rail.schedule_once("work", {"word": word}, run_at=NOW)
        await rail.cancel(dropped, who=word, why=word)
        hours = QuietHours(time(22), time(7), ZoneInfo("Europe/London"))
        await set_quiet_hours(store, self._tenant, hours)
        window = Maintenance(from_at=NOW + _MINUTE, reason=word, who=word)
        await set_maintenance(store, Scope(tenant=self._tenant), window)
        await set_limit(store, Limit(tenant=self._tenant, running=7), who=word, clock=clock)
        await self._keep_worker()

    async def _keep_worker(self) -> None:
        worker = WorkerPresence(
            id=f"worker-{self._word}",
            host=f"host-{self._word}",
            pid=1,
            queues=("shared",),
            tenants=(self._tenant,),
            kinds=("work",),
            concurrency=1,
            version="1",
            started_at=NOW,
            seen_at=NOW,
        )
        body = msgspec.json.encode(worker)
        await self._store.write_all([DocumentWrite("workers", worker.id, None, body)])


async def take_stock(stage: Stage, tenant: str) -> tuple[list[Job], dict[tuple[str, str], bytes]]:
    """Everything a tenant has: its jobs, and the documents in which it is named."""
    jobs = list((await stage.store.find(tenant, JobFilter(), limit=100)).items)
    name = tenant.encode()
    documents = {
        (collection, document.key): document.body
        for collection in (*COLLECTIONS, f"audit:{tenant}")
        async for page in stage.store.scan(collection)
        for document in page
        if name in document.body or tenant in document.key or tenant in collection
    }
    return jobs, documents
