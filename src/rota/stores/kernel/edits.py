"""``insert``, ``amend``, ``delete`` and ``prune``: jobs that come, change by hand, and go."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from rota.errors import DuplicateJobError, InvalidJobError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus, amend_job, check_deletion, is_done
from rota.jobs.fields import read_dependencies
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.kernel.settlement import WorkingSet
from rota.stores.kernel.unit import (
    Amended,
    Decision,
    Ended,
    NewJob,
    Plan,
    Reading,
    Stored,
    Writes,
    read_ancestors,
    read_dependents,
    read_ended,
    read_jobs,
    read_twins,
)
from rota.stores.protocol import Inserted


def insert(jobs: Sequence[Job], now: datetime) -> Plan[list[Inserted]]:
    """Create all of these jobs, or none; a job that exists already is left as it is."""
    named = {each for job in jobs for each in (job.id, *job.dependencies)}
    stored = yield from read_jobs(named)
    identities = {identity for job in jobs if (identity := identity_of(job)) is not None}
    twins = yield from read_twins(identities)
    existing = Kept(
        by_id={job_id: one.job for job_id, one in stored.items()},
        by_identity={identity: twin for twin in twins if (identity := identity_of(twin))},
        statuses={(one.job.tenant, one.job.id): one.job.status for one in stored.values()},
    )
    answers = plan_insertion(jobs, existing)
    return Decision(
        _create([each.job for each in answers if not each.is_existing], stored, now), answers
    )


def _create(new: Sequence[Job], stored: Mapping[JobId, Stored], now: datetime) -> Writes:
    awaited = {parent for job in new for parent in job.dependencies}
    writes = Writes(now, awaited=awaited & stored.keys())
    statuses = {each: one.job.status for each, one in stored.items()}
    statuses |= {job.id: job.status for job in new}
    for job in new:
        open_count = _count_open(job, statuses)
        writes.new[job.id] = NewJob(job, open_count, is_awaited=job.id in awaited)
    return writes


def _count_open(job: Job, statuses: Mapping[JobId, JobStatus]) -> int:
    """The number of dependencies for which the job waits."""
    policy = job.on_parent_failure
    return sum(not is_done(statuses.get(each), policy) for each in job.dependencies)


class Amendment(NamedTuple):
    """Which fields of which job to change, and when."""

    tenant: str
    job_id: JobId
    fields: Mapping[str, Any]
    now: datetime


def amend(asked: Amendment) -> Plan[Job]:
    """Change fields of a job. New dependencies may block it, and its PENDING descendants."""
    stored = yield from _read_existing(asked.tenant, asked.job_id)
    named = _named_dependencies(asked.fields)
    parents = yield from read_jobs(named)
    ancestors = yield from read_ancestors(named)
    amended = amend_job(
        stored.job,
        asked.fields,
        asked.now,
        dependency_statuses={
            each.job.id: each.job.status
            for each in parents.values()
            if each.job.tenant == asked.tenant
        },
        existing_jobs=ancestors,
    )
    yield from _check_twin(amended)
    jobs = WorkingSet(asked.now)
    if stored.is_awaited:
        yield from jobs.read_waiting([amended])
    jobs.settle_dependents(amended)
    open_count = None
    if amended.dependencies != stored.job.dependencies:
        # Those it depended on before too: one of them may end while this one is not PENDING.
        jobs.writes.awaited |= set(amended.dependencies)
        statuses = {each: one.job.status for each, one in parents.items()}
        open_count = _count_open(amended, statuses)
    jobs.writes.amended[amended.id] = Amended(stored.job, amended, open_count)
    return Decision(jobs.writes, amended)


def delete(tenant: str, job_id: JobId) -> Plan[Job]:
    """Remove a job in any state, unless others depend on it."""
    stored = yield from _read_existing(tenant, job_id)
    dependents = yield from read_dependents([job_id])
    check_deletion(job_id, dependents[job_id])
    return Decision(Writes(stored.job.updated_at, removed={job_id}), stored.job)


def prune(before: datetime, limit: int) -> Plan[int]:
    """Remove up to ``limit`` jobs that ended before an instant, those that ended first, first.

    Jobs with dependents stay. When the last dependent goes, its parent may go in the same call.
    """
    found = yield from read_ended(before, limit)
    heapify(found)
    removed: set[JobId] = set()
    dependents = yield from read_dependents({each for one in found for each in one.dependencies})
    while found and len(removed) < limit:
        gone = heappop(found)
        removed.add(gone.job_id)
        for parent in gone.dependencies:
            dependents[parent].discard(gone.job_id)
        free = [each for each in gone.dependencies if not dependents[each]]
        freed = yield from _read_freed(free, before)
        unknown = {each for one in freed for each in one.dependencies} - dependents.keys()
        dependents |= yield from read_dependents(unknown)
        for one in freed:
            heappush(found, one)
    return Decision(Writes(before, removed=removed), len(removed))


def _read_freed(job_ids: Sequence[JobId], before: datetime) -> Reading[list[Ended]]:
    """Those of these jobs, which have lost their last dependent, that ended before an instant."""
    stored = yield from read_jobs(job_ids)
    return [
        Ended(one.job.updated_at, one.job.id, one.job.dependencies)
        for one in stored.values()
        if one.job.status.is_terminal and one.job.updated_at < before
    ]


def _read_existing(tenant: str, job_id: JobId) -> Reading[Stored]:
    stored = (yield from read_jobs([job_id])).get(job_id)
    if stored is None or stored.job.tenant != tenant:
        raise JobNotFoundError(job_id)
    return stored


def _named_dependencies(fields: Mapping[str, Any]) -> Sequence[JobId]:
    """The dependencies asked for; none if they are not valid, since ``amend_job`` refuses them."""
    try:
        return read_dependencies(fields.get("dependencies", ()))
    except InvalidJobError:
        return ()


def _check_twin(job: Job) -> Reading[None]:
    identity = identity_of(job)
    twins = yield from read_twins([identity] if identity is not None else [])
    for twin in twins:
        if twin.id != job.id:
            raise DuplicateJobError(twin.id, "with the same idempotency key under that kind")
