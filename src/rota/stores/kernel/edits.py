"""``insert``, ``amend``, ``delete`` and ``prune``: jobs that come, change by hand, and go."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from rota.errors import DuplicateJobError, InvalidJobError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus, amend_job, check_deletion, is_done
from rota.jobs.fields import LOWEST_ID, read_dependencies
from rota.jobs.retention import Expiry, Fate
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.kernel.settlement import WorkingSet
from rota.stores.kernel.unit import (
    FIRST_PLACE,
    Amended,
    Decision,
    Ended,
    NewJob,
    Plan,
    ReadEnded,
    Reading,
    Stored,
    Writes,
    read_ancestors,
    read_dependents,
    read_ended,
    read_jobs,
    read_twins,
)
from rota.stores.protocol import EndedPlace, Inserted, Pruned


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


def check_insertion(jobs: Sequence[Job], now: datetime) -> Plan[None]:
    """Refuse what ``insert`` would refuse; write nothing."""
    yield from insert(jobs, now)
    return Decision(Writes(now), None)


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


def erase(tenant: str, job_ids: Collection[JobId], now: datetime) -> Plan[list[JobId]]:
    """Remove jobs in any state. The answer is those that stay: a job that stays needs them."""
    stored = yield from read_jobs(job_ids, skips_damaged=True)
    gone = {each for each, one in stored.items() if one.job.tenant == tenant}
    dependents = yield from read_dependents(gone)
    stayed: list[JobId] = []
    while kept := [each for each in gone if dependents[each] - gone]:
        gone.difference_update(kept)
        stayed += kept
    return Decision(Writes(now, removed=gone), sorted(stayed))


class Pruning(NamedTuple):
    """Which jobs to look at, and what expires of them; see ``JobStore.prune``."""

    before: datetime
    limit: int
    expiry: Expiry | None = None
    after: EndedPlace | None = None

    @property
    def is_preview(self) -> bool:
        return self.expiry is not None and self.expiry.is_preview


def prune(asked: Pruning) -> Plan[Pruned]:
    """Remove up to ``limit`` jobs that ended before an instant, those that ended first, first.

    Jobs with dependents stay. When the last dependent goes, its parent may go in the same call.
    """
    found = yield from read_ended(ReadEnded(asked.before, asked.limit, asked.after or FIRST_PLACE))
    looked = len(found)
    is_full = looked == asked.limit
    place = EndedPlace(found[-1].ended_at, found[-1].job_id) if is_full else None
    writes = Writes(asked.before)
    if asked.expiry is not None:
        stored = yield from read_jobs([one.job_id for one in found], skips_damaged=True)
        found = _judge(stored.values(), asked, writes)
    left = yield from _remove(found, asked, writes)
    if left:  # go on with what this call had no room for, which may have ended before the place
        place = EndedPlace(min(left).ended_at, LOWEST_ID)
    answer = Pruned(len(writes.removed), looked, place)
    return Decision(Writes(asked.before) if asked.is_preview else writes, answer)


def _remove(found: list[Ended], asked: Pruning, writes: Writes) -> Reading[list[Ended]]:
    """Remove these jobs, and parents that lose their last dependent; those without room."""
    heapify(found)
    removed = writes.removed
    dependents = yield from read_dependents({each for one in found for each in one.dependencies})
    while found and (asked.is_preview or len(removed) < asked.limit):
        gone = heappop(found)
        removed.add(gone.job_id)
        for parent in gone.dependencies:
            dependents[parent].discard(gone.job_id)
        free = [each for each in gone.dependencies if not dependents[each]]
        freed = _judge((yield from read_jobs(free)).values(), asked, writes)
        unknown = {each for one in freed for each in one.dependencies} - dependents.keys()
        dependents |= yield from read_dependents(unknown)
        for one in freed:
            heappush(found, one)
    return found


def _judge(stored: Iterable[Stored], asked: Pruning, writes: Writes) -> list[Ended]:
    """The jobs that go. Others may lose a result or attempts, which is noted in the writes."""
    gone: list[Ended] = []
    for job in (one.job for one in stored):
        if not job.status.is_terminal:
            continue
        is_old = job.updated_at < asked.before
        fate = Fate(is_old) if asked.expiry is None else asked.expiry.judge(job)
        if fate.is_removed:
            gone.append(Ended(job.updated_at, job.id, job.dependencies))
        if fate.loses_result:
            writes.without_results.add(job.id)
        if fate.loses_attempts:
            writes.without_attempts.add(job.id)
    return gone


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
