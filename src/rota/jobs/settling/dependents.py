"""What the end of a job means for those that wait for it."""

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from rota.errors import IllegalMoveError
from rota.jobs.graph import propagate_completion, propagate_failure
from rota.jobs.record import Job
from rota.jobs.settling.change import Change
from rota.jobs.states import JobStatus


def decide_release(job: Job, now: datetime) -> Change:
    """All dependencies are COMPLETED: the job is READY, at its own time."""
    return _decide_waiting(job, JobStatus.READY, now)


def decide_block(job: Job, now: datetime) -> Change:
    """A dependency failed or is blocked: the job will never run, nor any after it."""
    return _decide_waiting(job, JobStatus.BLOCKED, now)


def decide_dependents(ended: Job, all_jobs: Iterable[Job], now: datetime) -> list[Change]:
    """The changes of all that waited for ``ended``, directly or through others; by id.

    Whatever ``all_jobs`` says of the ended job itself, its status is that of ``ended``. A job that
    has not ended changes nothing.
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
