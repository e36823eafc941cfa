"""Which job comes first: the reference every store is tested against."""

from collections.abc import Iterable
from datetime import datetime

from rota.jobs.record import Job, JobId
from rota.jobs.states import JobStatus


def order_key(job: Job) -> tuple[int, datetime, JobId]:
    """Ascending: the higher priority, then the older, then the smaller id."""
    return -job.priority, job.created_at, job.id


def order_jobs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs in the order in which they are to start."""
    return sorted(jobs, key=order_key)


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
