"""Reads everything an explanation needs from the store. Judges nothing."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from rota.errors import JobNotFoundError
from rota.jobs import Attempt, Ending, Job, JobId, JobStatus, derive_job_id
from rota.jobs.fields import read_id
from rota.ops.audit import find_audit_entries
from rota.ops.explain.explanation import show, zone_of
from rota.policy.gate_settings import GateSettings, make_gate_settings
from rota.policy.limits import BUCKETS, Bucket, Limit, key_of
from rota.rail.audit import AuditEntry
from rota.rail.dead_letters import replacement_id
from rota.rail.jobs import RailStore
from rota.rail.settings import list_gates, list_limits
from rota.stores.kernel.limits import scopes_of
from rota.stores.kernel.unit import Partition
from rota.stores.protocol import QueueDepth
from rota.worker.presence import WorkerPresence, list_workers

MOST_ANCESTORS = 200
"""The number of jobs visited on the way to a failed dependency."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NOBODY = ""
"""Represents all other tenants. It is not a valid tenant name."""
_DEAD_ENDS = frozenset({JobStatus.FAILED, JobStatus.BLOCKED})


class Snapshot(NamedTuple):
    """The gates, limits and workers that may hold back a due job, as they are now."""

    board: GateSettings
    limits: tuple[Limit, ...] = ()
    buckets: Mapping[str, Bucket] = {}
    running_counts: Mapping[Partition, int] = {}
    workers: tuple[WorkerPresence, ...] = ()
    depth: QueueDepth | None = None


class JobFacts(NamedTuple):
    """A job, the time, and everything that affects the job.

    ``dependencies`` are those that still exist. ``culprits`` are the failed jobs that block it,
    directly or through other jobs. ``snapshot`` is set for a job that has not ended.
    """

    job: Job
    now: datetime
    snapshot: Snapshot | None = None
    dependencies: Mapping[JobId, Job] = {}
    culprits: tuple[Job, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    acts: tuple[AuditEntry, ...] = ()
    successor: Job | None = None
    replacement: Job | None = None

    def show(self, instant: datetime) -> str:
        """An instant in words, in UTC and in the zone of the job's series."""
        return show(instant, zone_of(self.job))


async def read_facts(store: RailStore, now: datetime, tenant: str, job_id: object) -> JobFacts:
    """Read the facts about a job.

    Raises JobNotFoundError when the tenant has no job with that id.
    """
    named = read_id(job_id, "job_id")
    job = (await store.get(tenant, [named])).get(named)
    if job is None:
        raise JobNotFoundError(named)
    follower, stand_in = _follower_id(job), replacement_id(job)
    kin = await store.get(tenant, [*job.dependencies, follower, stand_in])
    has_ended = job.status.is_terminal
    return JobFacts(
        job=job,
        now=now,
        snapshot=None if has_ended else await read_snapshot(store, now, job),
        dependencies={each: kin[each] for each in job.dependencies if each in kin},
        culprits=await _find_culprits(store, job) if job.status is JobStatus.BLOCKED else (),
        attempts=tuple(await store.attempts(tenant, job.id)),
        acts=await _find_acts(store, job) if _may_be_acted_on(job) else (),
        successor=kin.get(follower),
        replacement=kin.get(stand_in) if has_ended else None,
    )


async def read_snapshot(store: RailStore, now: datetime, job: Job) -> Snapshot:
    """Read the gates, limits and workers that apply to the job's tenant and queue."""
    limits = [it for it in (await list_limits(store)).limits if _concerns(it, job)]
    rated = [key_of(it.tenant, it.queue) for it in limits if it.rate is not None]
    kept = await store.read(BUCKETS, rated) if rated else {}
    everybody, own = await store.survey(now), await store.survey(now, job.tenant)
    return Snapshot(
        board=make_gate_settings((await list_gates(store)).entries),
        limits=tuple(limits),
        buckets={key: it for key in kept if (it := _read_bucket(kept[key].body)) is not None},
        running_counts=_count_running(job.tenant, everybody, own),
        workers=tuple(await list_workers(store, now)),
        depth=next((it for it in own if it.queue == job.queue), None),
    )


async def _find_culprits(store: RailStore, job: Job) -> tuple[Job, ...]:
    """Find the failed jobs that block this one, directly or through blocked jobs."""
    found: dict[JobId, Job] = {}
    met, left = {job.id}, list(job.dependencies)
    while left and len(met) < MOST_ANCESTORS:
        asked = [each for each in dict.fromkeys(left) if each not in met][:MOST_ANCESTORS]
        met.update(asked)
        left = []
        for each in (await store.get(job.tenant, asked)).values():
            if each.status is JobStatus.FAILED or _was_called_off(each):
                found[each.id] = each
            elif each.status in _DEAD_ENDS:
                left.extend(each.dependencies)
    return tuple(found.values())


def _was_called_off(job: Job) -> bool:
    return job.ending is Ending.CANCELLED


def _may_be_acted_on(job: Job) -> bool:
    """Whether the audit log, which is long, may explain more than the job record."""
    if _was_called_off(job) or job.is_paused:
        return True
    return job.status is JobStatus.READY and job.updated_at > job.created_at


async def _find_acts(store: RailStore, job: Job) -> tuple[AuditEntry, ...]:
    """In a series, the audit log may name its first job."""
    if job.origin is None:
        return await find_audit_entries(store, job.tenant, [job.id], job.created_at)
    return await find_audit_entries(store, job.tenant, [job.id, job.origin], _LONG_AGO)


def _follower_id(job: Job) -> JobId:
    return derive_job_id(job.id, job.occurrence_at or job.due_at)


def _concerns(limit: Limit, job: Job) -> bool:
    return (limit.tenant, limit.queue) in scopes_of(job.tenant, job.queue)


def _count_running(
    tenant: str, everybody: Sequence[QueueDepth], own: Sequence[QueueDepth]
) -> dict[Partition, int]:
    """Count running jobs by tenant and queue. All other tenants count as one."""
    mine = {it.queue: it.running_count for it in own}
    counts = {(tenant, queue): count for queue, count in mine.items()}
    counts |= {(_NOBODY, it.queue): it.running_count - mine.get(it.queue, 0) for it in everybody}
    return counts


def _read_bucket(body: bytes) -> Bucket | None:
    """None for an unreadable bucket, which counts as full."""
    try:
        return msgspec.json.decode(body, type=Bucket)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
