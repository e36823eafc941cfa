"""Dependencies: cycles, readiness, and who is concerned when a job ends.

Nothing here recurses: a chain of a hundred thousand jobs is an ordinary input.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from rota.jobs.record import Job, JobId
from rota.jobs.states import JobStatus

_DEAD_ENDS = frozenset({JobStatus.FAILED, JobStatus.BLOCKED})


class DependencyStatus(StrEnum):
    """What the dependencies of a job amount to."""

    SATISFIED = "SATISFIED"
    WAITING = "WAITING"
    BLOCKED = "BLOCKED"


class CycleDetectionResult(msgspec.Struct, frozen=True):
    """``cycle_path`` is each job of the cycle once, from the one that was met again on."""

    has_cycle: bool
    cycle_path: list[JobId]


def detect_cycle(
    new_job_id: JobId,
    new_job_dependencies: Iterable[JobId],
    existing_jobs: Mapping[JobId, Iterable[JobId]],
) -> CycleDetectionResult:
    """Whether the dependencies of the new job lead back to something already on the way.

    ``existing_jobs`` maps each job to its dependencies. What it says of the new job itself is
    replaced by ``new_job_dependencies``; a dependency it does not know has none of its own.
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
    """Whether the job can start as far as its dependencies go.

    One that failed or is blocked outweighs all others; one that the mapping does not know is
    waited for.
    """
    is_waiting = False
    for dependency in job.dependencies:
        status = dependency_statuses.get(dependency)
        if status in _DEAD_ENDS:
            return DependencyStatus.BLOCKED
        is_waiting = is_waiting or status != JobStatus.COMPLETED
    return DependencyStatus.WAITING if is_waiting else DependencyStatus.SATISFIED


def propagate_failure(failed_job_id: JobId, all_jobs: Iterable[Job]) -> set[JobId]:
    """Who is to be BLOCKED: the PENDING dependents of the failed job, and theirs in turn."""
    dependents = _pending_dependents(all_jobs)
    blocked: set[JobId] = set()
    looked_at = [failed_job_id]
    while looked_at:
        found = dependents[looked_at.pop()] - blocked
        blocked |= found
        looked_at.extend(found)
    return blocked


def propagate_completion(completed_job_id: JobId, all_jobs: Iterable[Job]) -> set[JobId]:
    """Who is to become READY: PENDING dependents that now wait for nothing else.

    The completed job counts as COMPLETED, whatever the list still says of it.
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
    """Who names the job among its dependencies, whatever has become of them, by id."""
    return sorted(job.id for job in all_jobs if job_id in job.dependencies)


def _pending_dependents(jobs: Iterable[Job]) -> defaultdict[JobId, set[JobId]]:
    found: defaultdict[JobId, set[JobId]] = defaultdict(set)
    for job in jobs:
        if job.status == JobStatus.PENDING:
            for dependency in job.dependencies:
                found[dependency].add(job.id)
    return found
