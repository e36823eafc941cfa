"""Which job comes first: the reference every store is tested against."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from rota.jobs.record import HIGHEST_PRIORITY, Job, JobId
from rota.jobs.states import JobStatus


def order_key(job: Job) -> tuple[int, datetime, JobId]:
    """Ascending: the higher priority, then the older, then the smaller id."""
    return -job.priority, job.created_at, job.id


def order_jobs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs in the order in which they are to start."""
    return sorted(jobs, key=order_key)


def age_priority(priority: int, created_at: datetime, step: timedelta | None, now: datetime) -> int:
    """The priority that a job counts as when its queue ages: one more for each full step it waited.

    Waiting begins when the job is made. Nothing comes to count for more than the highest priority
    there is, or for less than its own; without a step it keeps its own.
    """
    if step is None or priority >= HIGHEST_PRIORITY or created_at >= now:
        return priority
    return min(HIGHEST_PRIORITY, priority + (now - created_at) // step)


def aged_key(job: Job, step: timedelta | None, now: datetime) -> tuple[int, datetime, JobId]:
    """As ``order_key``, with the priority that the job has come to count as."""
    return -age_priority(job.priority, job.created_at, step, now), job.created_at, job.id


def is_due(job: Job, now: datetime) -> bool:
    """Whether the job may start: it is READY and its time has come."""
    return job.status is JobStatus.READY and job.due_at <= now


def is_stalled(job: Job, now: datetime) -> bool:
    """Whether whoever runs the job has let the lease run out; at its last instant it has not."""
    return job.lease is not None and job.lease.until < now


def select_next(
    ready_jobs: Iterable[Job],
    running_count: int,
    max_concurrent: int,
    now: datetime | None = None,
) -> list[Job]:
    """The jobs to start, first things first: as many as there are free places.

    With ``now``, jobs that are due later, such as those that wait for a retry, are passed over.
    """
    places = max_concurrent - running_count
    if places <= 0:
        return []
    if now is not None:
        ready_jobs = (job for job in ready_jobs if job.due_at <= now)
    return order_jobs(ready_jobs)[:places]
