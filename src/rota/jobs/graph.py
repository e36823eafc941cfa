"""Dependencies: cycles, readiness, and what the end of a job means for its dependents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from rota.errors import IllegalMoveError
from rota.jobs.record import Change, Job, JobId, OnParentFailure
from rota.jobs.states import Ending, JobStatus

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

    A failed or blocked dependency outweighs all others, unless the job runs despite it. A
    dependency missing from the mapping counts as waiting.
    """
    is_waiting = False
    for dependency in job.dependencies:
        status = dependency_statuses.get(dependency)
        if not is_done(status, job.on_parent_failure):
            if status in _DEAD_ENDS:
                return DependencyStatus.BLOCKED
            is_waiting = True
    return DependencyStatus.WAITING if is_waiting else DependencyStatus.SATISFIED


def is_done(status: str | None, on_parent_failure: OnParentFailure) -> bool:
    """Whether a job with this policy no longer waits for a dependency with this status."""
    if status == JobStatus.COMPLETED:
        return True
    return on_parent_failure == "run" and status in _DEAD_ENDS


def describe_skip(parent: JobId) -> str:
    """The error of a job that was skipped because of a dependency."""
    return f"Skipped: its dependency {parent} did not complete"


def mark_blocked(job: Job, parent: JobId) -> Job:
    """The job as the end of a dependency leaves it: BLOCKED, or skipped."""
    if job.on_parent_failure != "skip":
        return replace(job, status=JobStatus.BLOCKED)
    return replace(
        job,
        status=JobStatus.BLOCKED,
        ending=Ending.CANCELLED,
        last_error=describe_skip(parent),
    )


def first_dead(job: Job, dependency_statuses: Mapping[JobId, JobStatus]) -> JobId:
    """The first dependency, in the job's order, that failed or is blocked."""
    return next(each for each in job.dependencies if dependency_statuses.get(each) in _DEAD_ENDS)


def propagate_failure(failed_job_id: JobId, all_jobs: Iterable[Job]) -> set[JobId]:
    """The jobs to block: PENDING dependents of the failed job, and their dependents in turn.

    Jobs that run despite the failure are not among them.
    """
    return set(_spread_failure(failed_job_id, all_jobs))


def _spread_failure(failed_job_id: JobId, all_jobs: Iterable[Job]) -> dict[JobId, JobId]:
    """The jobs to block, each with the dependency through which the failure reaches it first."""
    dependents = _blockable_dependents(all_jobs)
    reached_through: dict[JobId, JobId] = {}
    reached = [failed_job_id]
    for parent in reached:  # grows while it is walked
        found = sorted(each for each in dependents[parent] if each not in reached_through)
        reached_through |= dict.fromkeys(found, parent)
        reached += found
    return reached_through


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


def _blockable_dependents(jobs: Iterable[Job]) -> defaultdict[JobId, set[JobId]]:
    found: defaultdict[JobId, set[JobId]] = defaultdict(set)
    for job in jobs:
        if job.status == JobStatus.PENDING and job.on_parent_failure != "run":
            for dependency in job.dependencies:
                found[dependency].add(job.id)
    return found


def decide_release(job: Job, now: datetime) -> Change:
    """The job waits for no dependency any more: it becomes READY, due at its own time."""
    return _decide_waiting(job, replace(job, status=JobStatus.READY, updated_at=now))


def decide_block(job: Job, now: datetime, parent: JobId) -> Change:
    """A dependency failed or is blocked: the job will never run.

    ``parent`` is that dependency; a job that is skipped names it.
    """
    blocked = mark_blocked(job, parent)
    return _decide_waiting(job, replace(blocked, updated_at=now))


def decide_dependents(ended: Job, all_jobs: Iterable[Job], now: datetime) -> list[Change]:
    """The changes of all jobs that waited for ``ended``, directly or through others; by id.

    The status of ``ended`` overrides the one in ``all_jobs``. A job that has not ended changes
    nothing.
    """
    jobs = {job.id: job for job in all_jobs} | {ended.id: ended}
    if ended.status is JobStatus.COMPLETED:
        released = propagate_completion(ended.id, jobs.values())
        return [decide_release(jobs[job_id], now) for job_id in sorted(released)]
    if ended.status.is_terminal:
        return _decide_after_failure(ended, jobs, now)
    return []


def _decide_after_failure(ended: Job, jobs: Mapping[JobId, Job], now: datetime) -> list[Change]:
    blocked = _spread_failure(ended.id, jobs.values())
    statuses = {job_id: job.status for job_id, job in jobs.items()}
    statuses |= dict.fromkeys(blocked, JobStatus.BLOCKED)
    dead = blocked.keys() | {ended.id}
    changes: dict[JobId, Change] = {}
    for job_id, job in jobs.items():
        if job_id in blocked:
            changes[job_id] = decide_block(job, now, blocked[job_id])
        elif (
            job.status is JobStatus.PENDING
            and not dead.isdisjoint(job.dependencies)
            and dependency_status(job, statuses) is DependencyStatus.SATISFIED
        ):
            changes[job_id] = decide_release(job, now)
    return [changes[job_id] for job_id in sorted(changes)]


def _decide_waiting(job: Job, after: Job) -> Change:
    if job.status is not JobStatus.PENDING:
        raise IllegalMoveError(job.status, after.status)
    is_series_end = after.status is JobStatus.BLOCKED and job.recurrence is not None
    return Change(
        job=after,
        path=(job.status, after.status),
        expected_token=job.last_token,
        series_end="a dependency of its job failed" if is_series_end else None,
    )
