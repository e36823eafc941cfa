"""Reading jobs. Jobs that cannot be read are left out."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    Page,
    complete_history,
    cut_page,
    decode_cursor,
)
from rota.stores.mongo.connection import BY_ID, SNAPSHOT, Connection, Raw
from rota.stores.mongo.results import read_bodies, read_tokens
from rota.stores.mongo.rows import decode_attempts, decode_readable
from rota.stores.mongo.unit import WITHOUT_ATTEMPTS
from rota.stores.protocol import QueueDepth
from rota.stores.rows import to_instant, to_micros

Bound: TypeAlias = int | datetime

ABANDONED_AFTER = timedelta(seconds=15)
"""A transaction that is idle for this long belongs to a process that died, or to a long stream."""


async def get(connection: Connection, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these, as of one moment."""
    where = {"_id": {"$in": sorted(set(job_ids))}, "tenant": tenant}
    jobs = connection.jobs.with_options(read_concern=SNAPSHOT)
    found = await jobs.find(where, WITHOUT_ATTEMPTS, hint=BY_ID).to_list()
    mine = {job.id: job for job in decode_readable(found)}
    return {job_id: mine[job_id] for job_id in job_ids if job_id in mine}


async def results(
    connection: Connection, tenant: str, job_ids: Sequence[JobId]
) -> dict[JobId, bytes]:
    """The results of the tenant's completed jobs among these."""
    where = {"_id": {"$in": sorted(set(job_ids))}, "tenant": tenant}
    return await read_bodies(connection, await read_tokens(connection, where))


async def find(connection: Connection, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of a tenant's jobs, the newest first."""
    last = None if cursor is None else decode_cursor(cursor)
    found = await connection.jobs.find(
        page_filter(wanted, last),
        WITHOUT_ATTEMPTS,
        sort=[("created_at", -1), ("_id", 1)],
        limit=limit + 1,
        hint=page_index(wanted),
    ).to_list()
    return cut_page(decode_readable(found), limit)


async def count(connection: Connection, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of a tenant the filter accepts."""
    bounds: Raw = {} if limit is None else {"limit": limit}
    return await connection.jobs.count_documents(matching(wanted), **bounds)


async def attempts(connection: Connection, tenant: str, job_id: JobId) -> list[Attempt]:
    """All attempts of a job, the first one first."""
    raw = await connection.jobs.find_one({"_id": job_id, "tenant": tenant})
    if raw is None:
        return []
    stored = decode_attempts(job_id, raw.get("attempts", ()))
    return [done for job in decode_readable([raw]) for done in complete_history(job, stored)]


async def find_dependents(
    connection: Connection, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that depend on one of these, by id."""
    where = {"dependencies": {"$in": sorted(set(job_ids))}, "tenant": tenant}
    found = connection.jobs.find(where, WITHOUT_ATTEMPTS, hint="depending", limit=limit)
    return decode_readable(await found.sort([("_id", 1)]).to_list())


async def find_expired(
    connection: Connection, now: datetime, limit: int, after: tuple[datetime, JobId] | None
) -> list[Job]:
    """Jobs whose lease has expired, the longest ago first, then by id.

    A sweep begins here, so transactions of dead processes are ended first.
    """
    if after is None:
        await connection.end_abandoned(ABANDONED_AFTER)
    where = expired(now, after)
    found = connection.jobs.find(where, WITHOUT_ATTEMPTS, hint="leased", limit=limit)
    return decode_readable(await found.sort([("until", 1), ("_id", 1)]).to_list())


async def next_due_at(
    connection: Connection,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    # All tenants are a range too: so the server skips from one queue to the next.
    where: Raw = {"tenant": {"$gt": ""} if tenants is None else {"$in": sorted(tenants)}}
    if queues is not None:
        where["queue"] = {"$in": sorted(queues)}
    ready = {"phase": "due", **where, "due_at": {"$lte": to_micros(now)}}
    index = "due" if queues is None else "due_in_queue"
    if await connection.jobs.find_one(ready, ["due_at"], hint=index) is not None:
        return now
    first: list[int] = []
    # Jobs of the phase "due" are due later only if a clock was set back.
    for phase, by in (("later", "later" if queues is None else "later_in_queue"), ("due", None)):
        raw = await connection.jobs.find_one(
            {"phase": phase, **where}, ["due_at"], sort=[("due_at", 1)], hint=by
        )
        first += [] if raw is None else [raw["due_at"]]
    return max(now, to_instant(min(first))) if first else None


async def survey(connection: Connection, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """How full each queue is, over all tenants or for one, as of one moment."""
    jobs = connection.jobs.with_options(read_concern=SNAPSHOT)
    found = await jobs.aggregate(survey_stages(now, tenant), hint="surveyed")
    by_queue: dict[str, dict[str, Raw]] = {}
    for raw in await found.to_list():
        by_queue.setdefault(raw["_id"]["queue"], {})[raw["_id"]["phase"]] = raw
    return [_depth(queue, by_queue[queue], now) for queue in sorted(by_queue)]


def _depth(queue: str, phases: dict[str, Raw], now: datetime) -> QueueDepth:
    ready = [phases[phase] for phase in ("later", "due") if phase in phases]
    due_count = sum(raw["due_count"] for raw in ready)
    first = min((to_instant(raw["first_due_at"]) for raw in ready), default=None)
    running = phases.get("running", {})
    return QueueDepth(
        queue=queue,
        due_count=due_count,
        later_count=sum(raw["count"] for raw in ready) - due_count,
        running_count=running.get("count", 0),
        stalled_count=running.get("stalled_count", 0),
        dead_count=phases.get("dead", {}).get("count", 0),
        oldest_due_at=first if first is not None and first <= now else None,
    )


def survey_stages(now: datetime, tenant: str | None) -> list[Raw]:
    """Counts the jobs of each phase in each queue."""
    moment = to_micros(now)
    wanted: Raw = {"phase": {"$in": ["due", "later", "running", "dead"]}}
    if tenant is not None:
        wanted["tenant"] = tenant
    counts = {
        "_id": {"queue": "$queue", "phase": "$phase"},
        "count": {"$sum": 1},
        "due_count": {"$sum": {"$cond": [{"$lte": ["$due_at", moment]}, 1, 0]}},
        "stalled_count": {"$sum": {"$cond": [{"$lt": ["$until", moment]}, 1, 0]}},
        "first_due_at": {"$min": "$due_at"},
    }
    return [{"$match": wanted}, {"$group": counts}]


def expired(now: datetime, after: tuple[datetime, JobId] | None) -> Raw:
    """Running jobs whose lease has expired, behind one of them."""
    if after is None:
        return {"phase": "running", "until": {"$lt": to_micros(now)}}
    until, job_id = to_micros(after[0]), after[1]
    return {
        "phase": "running",
        "until": {"$gte": until, "$lt": to_micros(now)},
        "$or": [{"until": {"$gt": until}}, {"until": until, "_id": {"$gt": job_id}}],
    }


def page_filter(wanted: JobFilter, last: tuple[datetime, JobId] | None) -> Raw:
    """The jobs that a filter accepts, behind the last one of the page before."""
    where = matching(wanted)
    if last is not None:
        created_at, job_id = to_micros(last[0]), last[1]
        where["$or"] = [
            {"created_at": {"$lt": created_at}},
            {"created_at": created_at, "_id": {"$gt": job_id}},
        ]
        where.setdefault("created_at", {}).setdefault("$lte", created_at)
    return where


def page_index(wanted: JobFilter) -> str:
    """The index that has a tenant's jobs in the order of a page."""
    if wanted.only_dead:
        return "dead"
    if wanted.status is None:
        return "listed"
    return "recurring" if wanted.is_recurring else "listed_by_status"


def matching(wanted: JobFilter) -> Raw:
    """As ``JobFilter.accepts``."""
    only_once = None if wanted.is_recurring is None else {"$exists": False}
    conditions = {
        "tenant": wanted.tenant,
        "status": None if wanted.status is None else str(wanted.status),
        "phase": "dead" if wanted.only_dead else None,
        "queue": wanted.queue,
        "is_recurring": wanted.is_recurring or only_once,
        "priority": _range(wanted.priority_min, "$lte", wanted.priority_max),
        "created_at": _range(wanted.created_after, "$lt", wanted.created_before),
    }
    return {field: each for field, each in conditions.items() if each is not None}


def _range(low: Bound | None, below: str, high: Bound | None) -> dict[str, int] | None:
    bounds = ((sign, each) for sign, each in (("$gte", low), (below, high)) if each is not None)
    return {
        sign: to_micros(each) if isinstance(each, datetime) else each for sign, each in bounds
    } or None
