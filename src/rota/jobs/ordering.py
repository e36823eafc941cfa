"""The order of jobs: the reference every store is tested against."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from rota.jobs.record import HIGHEST_PRIORITY, Job, JobId
from rota.jobs.states import Ending, JobStatus


def order_key(job: Job) -> tuple[int, datetime, JobId]:
    """Ascending: higher priority, then older, then smaller id."""
    return -job.priority, job.created_at, job.id


def order_jobs(jobs: Iterable[Job]) -> list[Job]:
    """The jobs in the order in which they start."""
    return sorted(jobs, key=order_key)


def age_priority(priority: int, created_at: datetime, step: timedelta | None, now: datetime) -> int:
    """The priority in a queue with ageing: one more for each full step of waiting.

    Waiting starts when the job is created. The result is never below the job's own priority nor
    above the highest; without a step it is the job's own.
    """
    if step is None or priority >= HIGHEST_PRIORITY or created_at >= now:
        return priority
    return min(HIGHEST_PRIORITY, priority + (now - created_at) // step)


def aged_key(job: Job, step: timedelta | None, now: datetime) -> tuple[int, datetime, JobId]:
    """As ``order_key``, with the effective priority."""
    return -age_priority(job.priority, job.created_at, step, now), job.created_at, job.id


def is_due(job: Job, now: datetime) -> bool:
    """Whether the job may start: it is READY and its due time has come."""
    return job.status is JobStatus.READY and job.due_at <= now


def is_stalled(job: Job, now: datetime) -> bool:
    """Whether the job's lease has expired. At its last instant it has not."""
    return job.lease is not None and job.lease.until < now


_EXHAUSTED = frozenset({Ending.EXHAUSTED, Ending.LOST})


def is_dead_letter(job: Job) -> bool:
    """Whether the job failed for good, and was not discarded or cancelled."""
    return job.status is JobStatus.FAILED and job.ending in _EXHAUSTED


def select_next(
    ready_jobs: Iterable[Job],
    running_count: int,
    max_concurrent: int,
    now: datetime | None = None,
) -> list[Job]:
    """The jobs to start, in order, at most as many as there are free places.

    With ``now``, jobs that are due later, such as retries, are skipped.
    """
    places = max_concurrent - running_count
    if places <= 0:
        return []
    if now is not None:
        ready_jobs = (job for job in ready_jobs if job.due_at <= now)
    return order_jobs(ready_jobs)[:places]
