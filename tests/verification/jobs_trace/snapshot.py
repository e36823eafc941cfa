"""What a store holds in the end."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from rota.jobs import Attempt, Job, JobFilter, JobId, JobStatus
from rota.stores.protocol import JobStore

_PAGE = 100


class Snapshot(msgspec.Struct, frozen=True):
    """All jobs of some tenants at ``at``, their attempts, and how many the store counts."""

    at: datetime
    jobs: dict[JobId, Job]
    attempts: dict[JobId, list[Attempt]]
    counts: dict[JobStatus, int]


async def take_snapshot(store: JobStore, tenants: Collection[str], now: datetime) -> Snapshot:
    """Read everything. Call it while nothing is being written."""
    jobs: dict[JobId, Job] = {}
    attempts: dict[JobId, list[Attempt]] = {}
    counts = dict.fromkeys(JobStatus, 0)
    for tenant in tenants:
        jobs.update({job.id: job for job in await _read_all(store, tenant)})
        for status in JobStatus:
            counts[status] += await store.count(tenant, JobFilter(status=status))
    for job in jobs.values():
        if job.last_token > 1 or job.attempt_count or job.ending is not None:
            attempts[job.id] = await store.attempts(job.tenant, job.id)
    return Snapshot(now, jobs, attempts, counts)


async def _read_all(store: JobStore, tenant: str) -> list[Job]:
    page = await store.find(tenant, limit=_PAGE)
    found = list(page.items)
    while page.next_cursor is not None:
        page = await store.find(tenant, cursor=page.next_cursor, limit=_PAGE)
        found += page.items
    return found
