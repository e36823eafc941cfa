"""Specification 4's words about the one job record, as pure functions.

A job sleeps while it is READY, until ``due_at``; it is locked while it is RUNNING, until its lease
runs out, and then it is awake again; it sleeps for good when it is COMPLETED.
"""

from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from rota.jobs import Job, JobStatus, Lease
from rota.poller.protocol import JobUpdate, PolledJob


def wakes_at(job: Job) -> datetime | None:
    """From when on the job can be locked; None when never again."""
    if job.status is JobStatus.READY:
        return job.due_at
    return None if job.lease is None else job.lease.until


def lock_job(job: Job, owner: str, until: datetime, now: datetime) -> Job:
    """The job in the hands of ``owner``, under a token greater than any that it had before."""
    token = job.last_token + 1
    lease = Lease(token=token, worker=owner, taken_at=now, until=until)
    return replace(job, status=JobStatus.RUNNING, lease=lease, last_token=token, updated_at=now)


def is_locked_by(job: Job, token: int) -> bool:
    """Whether the lock of that token is the last that was given; it may have run out."""
    return job.lease is not None and job.lease.token == token


def update_job(job: Job, update: JobUpdate, now: datetime) -> Job:
    """The job as the update has it, not locked any longer."""
    updated = replace(job, lease=None, status=JobStatus.READY, updated_at=now)
    if update.auto_remove is not UNSET:
        updated = replace(updated, auto_remove=update.auto_remove)
    if update.sleep_until is UNSET:
        return updated
    if update.sleep_until is None:
        return replace(updated, status=JobStatus.COMPLETED)
    return replace(updated, due_at=update.sleep_until)


def as_polled(before: Job, token: int) -> PolledJob:
    """The job as its poller is given it: as it was before it was locked."""
    recurrence = before.recurrence
    return PolledJob(
        id=before.id,
        sleep_until=wakes_at(before),
        interval=None if recurrence is None else recurrence.text,
        repeat_until=None if recurrence is None else recurrence.until,
        auto_remove=before.auto_remove,
        zone=None if recurrence is None else recurrence.zone,
        payload=before.payload,
        lock=token,
    )
