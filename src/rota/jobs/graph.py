"""Dependencies: cycles, readiness, and what the end of a job means for its dependents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from rota.errors import IllegalMoveError
from rota.jobs.record import Change, Job, JobId
from rota.jobs.states import JobStatus

_DEAD_ENDS = frozenset({JobStatus.FAILED, JobStatus.BLOCKED})


class DependencyStatus(StrEnum):
    """The combined state of a job's dependencies."""

    SATISFIED = "SATISFIED"
    WAITING = "WAITING"
    BLOCKED = "BLOCKED"


class CycleDetectionResult(msgspec.Struct, frozen=True):
    """``cycle_path`` has each job of the cycle once, starting with the one met again."""

    has_cycle: bool
    cycle_path: list[JobId]


def detect_cycle(
    new_job_id: JobId,
    new_job_dependencies: Iterable[JobId],
    existing_jobs: Mapping[JobId, Iterable[JobId]],
) -> CycleDetectionResult:
    """Whether the new job's dependencies form a cycle.

    ``existing_jobs`` maps each job to its dependencies. ``new_job_dependencies`` replaces its entry
    for the new job. A dependency missing from it has no dependencies.
    """
    way: dict[JobId, Iterator[JobId]] = {new_job_id: iter(new_job_dependencies)}
    done: set[JobId] = set()
    while way:
        here = next(reversed(way))
        following = next(way[here], None)
        if following is None:
            way.popitem()
            done.add(here)
        elif following in way:
            steps = list(way)
            return CycleDetectionResult(has_cycle=True, cycle_path=steps[steps.index(following) :])
        elif following not in done:
            way[following] = iter(existing_jobs.get(following, ()))
    return CycleDetectionResult(has_cycle=False, cycle_path=[])


def dependency_status(job: Job, dependency_statuses: Mapping[JobId, JobStatus]) -> DependencyStatus:
    """Whether the job's dependencies allow it to start.

    A failed or blocked dependency outweighs all others. A dependency missing from the mapping
    counts as waiting.
    """
    is_waiting = False
    for dependency in job.dependencies:
        status = dependency_statuses.get(dependency)
        if status in _DEAD_ENDS:
            return DependencyStatus.BLOCKED
        is_waiting = is_waiting or status != JobStatus.COMPLETED
    return DependencyStatus.WAITING if is_waiting else DependencyStatus.SATISFIED


def propagate_failure(failed_job_id: JobId, all_jobs: Iterable[Job]) -> set[JobId]:
    """The jobs to block: PENDING dependents of the failed job, and their dependents in turn."""
    dependents = _pending_dependents(all_jobs)
    blocked: set[JobId] = set()
    looked_at = [failed_job_id]
    while looked_at:
        found = dependents[looked_at.pop()] - blocked
        blocked |= found
        looked_at.extend(found)
    return blocked


def propagate_completion(completed_job_id: JobId, all_jobs: Iterable[Job]) -> set[JobId]:
    """The jobs to release: PENDING dependents that wait for nothing else.

    The completed job counts as COMPLETED, even if the list says otherwise.
    """
    jobs = list(all_jobs)
    statuses = {job.id: job.status for job in jobs}
    statuses[completed_job_id] = JobStatus.COMPLETED
    return {
        job.id
        for job in jobs
        if job.status == JobStatus.PENDING
        and completed_job_id in job.dependencies
        and dependency_status(job, statuses) is DependencyStatus.SATISFIED
    }


def find_dependents(job_id: JobId, all_jobs: Iterable[Job]) -> list[JobId]:
    """The jobs that name this one among their dependencies, in any state, by id."""
    return sorted(job.id for job in all_jobs if job_id in job.dependencies)


def _pending_dependents(jobs: Iterable[Job]) -> defaultdict[JobId, set[JobId]]:
    found: defaultdict[JobId, set[JobId]] = defaultdict(set)
    for job in jobs:
        if job.status == JobStatus.PENDING:
            for dependency in job.dependencies:
                found[dependency].add(job.id)
    return found


def decide_release(job: Job, now: datetime) -> Change:
    """All dependencies are COMPLETED: the job becomes READY, due at its own time."""
    return _decide_waiting(job, JobStatus.READY, now)


def decide_block(job: Job, now: datetime) -> Change:
    """A dependency failed or is blocked: the job and its dependents will never run."""
    return _decide_waiting(job, JobStatus.BLOCKED, now)


def decide_dependents(ended: Job, all_jobs: Iterable[Job], now: datetime) -> list[Change]:
    """The changes of all jobs that waited for ``ended``, directly or through others; by id.

    The status of ``ended`` overrides the one in ``all_jobs``. A job that has not ended changes
    nothing.
    """
    jobs = {job.id: job for job in all_jobs}
    if ended.status is JobStatus.COMPLETED:
        released = propagate_completion(ended.id, jobs.values())
        return [decide_release(jobs[job_id], now) for job_id in sorted(released)]
    if ended.status.is_terminal:
        blocked = propagate_failure(ended.id, jobs.values())
        return [decide_block(jobs[job_id], now) for job_id in sorted(blocked)]
    return []


def _decide_waiting(job: Job, target: JobStatus, now: datetime) -> Change:
    if job.status is not JobStatus.PENDING:
        raise IllegalMoveError(job.status, target)
    is_series_end = target is JobStatus.BLOCKED and job.recurrence is not None
    return Change(
        job=replace(job, status=target, updated_at=now),
        path=(job.status, target),
        expected_token=job.last_token,
        series_end="a dependency of its job failed" if is_series_end else None,
    )
