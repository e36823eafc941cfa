"""What is read about jobs; those that cannot be read are left out."""

from collections.abc import Collection, Sequence
from datetime import datetime

from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    Page,
    cut_page,
    decode_cursor,
)
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import decode_attempt, decode_readable, to_instant
from rota.stores.mongo.steps.names import JOBS
from rota.stores.mongo.steps.recovery import clear_for_reading
from rota.stores.mongo.steps.steady import read_steadily
from rota.stores.protocol import QueueDepth, expiry_key


async def get(gateway: Gateway, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these, as of one moment."""
    ids = sorted(set(job_ids))
    asked = [
        queries.by_ids(ids[start : start + queries.IDS_AT_ONCE])
        for start in range(0, len(ids), queries.IDS_AT_ONCE)
    ]
    jobs = {job.id: job for job in decode_readable(await read_steadily(gateway, asked))}
    mine = {job_id: job for job_id, job in jobs.items() if job.tenant == tenant}
    return {job_id: mine[job_id] for job_id in job_ids if job_id in mine}


async def find(gateway: Gateway, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the tenant's jobs."""
    last = None if cursor is None else decode_cursor(cursor)
    asked = queries.list_page(wanted, last, limit + 1)
    while True:
        found = await gateway.find(asked)
        if await clear_for_reading(gateway, found):
            return cut_page(decode_readable(found), limit)


async def count(gateway: Gateway, wanted: JobFilter) -> int:
    """How many jobs of the tenant the filter accepts."""
    stages = [{"$match": queries.matching(wanted)}, {"$group": {"_id": None, "n": {"$sum": 1}}}]
    found = await gateway.aggregate(JOBS, stages)
    return int(found[0]["n"]) if found else 0


async def read_attempts(gateway: Gateway, tenant: str, job_id: JobId) -> list[Attempt]:
    """The attempts of a job that did not succeed, the first one first."""
    while True:
        found = await gateway.find(queries.by_ids([job_id], ["tenant", "attempts", "lock"]))
        if await clear_for_reading(gateway, found):
            break
    mine = [raw for raw in found if raw.get("tenant") == tenant]
    return [decode_attempt(job_id, bytes(each)) for raw in mine for each in raw.get("attempts", ())]


async def find_dependents(
    gateway: Gateway, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that name one of these among their dependencies, by id."""
    ids = sorted(set(job_ids))
    found: dict[JobId, Job] = {}
    for start in range(0, len(ids), queries.VALUES_AT_ONCE):
        some = ids[start : start + queries.VALUES_AT_ONCE]
        asked = queries.dependents_of(some, tenant=tenant)._replace(limit=limit)
        found |= {job.id: job for job in decode_readable(await gateway.find(asked))}
    return [found[job_id] for job_id in sorted(found)][:limit]


async def find_expired(gateway: Gateway, now: datetime, limit: int, after: Job | None) -> list[Job]:
    """Jobs whose lease has run out, the longest ago first, then by id."""
    last = None if after is None else expiry_key(after)
    while True:
        found = await gateway.find(queries.expired(now, limit, last))
        if await clear_for_reading(gateway, found):
            return decode_readable(found)


async def next_due_at(
    gateway: Gateway,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    if await gateway.find(queries.any_due(now, queues, tenants)):
        return now
    # Those in line are due later only when a clock has been set back.
    lanes = [await gateway.find(queries.next_due(lane, queues, tenants)) for lane in _READY_LANES]
    first = min((raw["due_at"] for found in lanes for raw in found), default=None)
    return None if first is None else max(now, to_instant(first))


_READY_LANES = ("later", "due")


async def survey(gateway: Gateway, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """How full each queue is, over all tenants or for one."""
    by_queue: dict[str, dict[str, Raw]] = {}
    for raw in await gateway.aggregate(JOBS, queries.survey(now, tenant), queries.SURVEYED):
        by_queue.setdefault(raw["_id"]["queue"], {})[raw["_id"]["lane"]] = raw
    return [_depth(queue, by_queue[queue], now) for queue in sorted(by_queue)]


def _depth(queue: str, lanes: dict[str, Raw], now: datetime) -> QueueDepth:
    ready = [lanes[lane] for lane in _READY_LANES if lane in lanes]
    due_count = sum(raw["due_count"] for raw in ready)
    first = min((to_instant(raw["first_due_at"]) for raw in ready), default=None)
    running = lanes.get("running", {})
    return QueueDepth(
        queue=queue,
        due_count=due_count,
        later_count=sum(raw["count"] for raw in ready) - due_count,
        running_count=running.get("count", 0),
        stalled_count=running.get("stalled_count", 0),
        dead_count=lanes.get("dead", {}).get("count", 0),
        oldest_due_at=first if first is not None and first <= now else None,
    )
