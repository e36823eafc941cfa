"""The state of a job as a word, a shape and a tone."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Ending, Job, JobStatus, is_stalled
from rota.ops.explanation import name_error
from rota.stores.survey import is_dead


class Sign(NamedTuple):
    """``word`` names the state, ``shape`` an icon and ``tone`` a colour. Each alone is enough."""

    word: str
    shape: str
    tone: str


WAITING = Sign("pending", "dashed", "quiet")
LATER = Sign("scheduled", "clock", "quiet")
DEFERRED = Sign("held back", "pause", "amber")
RETRYING = Sign("retrying", "again", "amber")
PAUSED = Sign("paused", "pause", "quiet")
DUE = Sign("due", "ring", "blue")
RUNNING = Sign("running", "play", "blue")
STALLED = Sign("stalled", "alert", "red")
COMPLETED = Sign("completed", "check", "green")
FAILED = Sign("failed", "cross", "red")
DEAD = Sign("dead letter", "cross", "red")
DISCARDED = Sign("discarded", "cross", "red")
CANCELLED = Sign("cancelled", "slash", "quiet")
BLOCKED = Sign("blocked", "bar", "amber")

STATUS_SIGNS = {
    JobStatus.PENDING: WAITING,
    JobStatus.READY: Sign("ready", "ring", "blue"),
    JobStatus.RUNNING: RUNNING,
    JobStatus.COMPLETED: COMPLETED,
    JobStatus.FAILED: FAILED,
    JobStatus.BLOCKED: BLOCKED,
}
"""For places where only the status is known."""

_BY_ENDING = {Ending.CANCELLED: CANCELLED, Ending.DISCARDED: DISCARDED}


class Row(NamedTuple):
    """A job in a list: its state, and the most telling line of its last error."""

    job: Job
    sign: Sign
    error: str = ""
    at: datetime | None = None
    note: str = ""


def make_rows(jobs: Iterable[Job], now: datetime) -> list[Row]:
    return [Row(job, sign_of(job, now), name_error(job.last_error)) for job in jobs]


def sign_of(job: Job, now: datetime) -> Sign:
    """The state of the job, finer than its status."""
    if job.status is JobStatus.READY:
        return _sign_of_ready(job, now)
    if job.status is JobStatus.RUNNING:
        return STALLED if is_stalled(job, now) else RUNNING
    if job.status is JobStatus.FAILED:
        ending = None if job.ending is None else _BY_ENDING.get(job.ending)
        return DEAD if is_dead(job) or ending is None else ending
    return STATUS_SIGNS[job.status]


def _sign_of_ready(job: Job, now: datetime) -> Sign:
    if job.is_paused:
        return PAUSED
    if job.due_at <= now:
        return DUE
    if job.deferral is not None and job.deferral.until >= job.due_at:
        return DEFERRED
    return RETRYING if job.attempt_count else LATER
