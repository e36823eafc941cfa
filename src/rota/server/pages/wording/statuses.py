"""The status of a job as a word, a shape and a tone: none of them is needed to know the others."""

from datetime import datetime
from typing import NamedTuple

from rota.jobs import Ending, Job, JobStatus, is_stalled
from rota.stores.survey import is_dead


class Sign(NamedTuple):
    """``word`` is what is read; ``shape`` names a drawing, ``tone`` a colour that repeats it."""

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
DEAD = Sign("dead letter", "cross", "red")
DISCARDED = Sign("given up", "cross", "red")
CANCELLED = Sign("cancelled", "slash", "quiet")
BLOCKED = Sign("blocked", "bar", "amber")

_BY_STATUS = {
    JobStatus.PENDING: WAITING,
    JobStatus.COMPLETED: COMPLETED,
    JobStatus.BLOCKED: BLOCKED,
}
_BY_ENDING = {Ending.CANCELLED: CANCELLED, Ending.DISCARDED: DISCARDED}

STATUS_SIGNS = {
    JobStatus.PENDING: Sign("pending", "dashed", "quiet"),
    JobStatus.READY: Sign("ready", "ring", "blue"),
    JobStatus.RUNNING: Sign("running", "play", "blue"),
    JobStatus.COMPLETED: Sign("completed", "check", "green"),
    JobStatus.FAILED: Sign("failed", "cross", "red"),
    JobStatus.BLOCKED: Sign("blocked", "bar", "amber"),
}
"""Where only the status is known."""


def sign_of(job: Job, now: datetime) -> Sign:
    """What a person would call the state that the job is in."""
    if job.status is JobStatus.READY:
        return _sign_of_ready(job, now)
    if job.status is JobStatus.RUNNING:
        return STALLED if is_stalled(job, now) else RUNNING
    if job.status is JobStatus.FAILED:
        ending = None if job.ending is None else _BY_ENDING.get(job.ending)
        return DEAD if is_dead(job) or ending is None else ending
    return _BY_STATUS[job.status]


def _sign_of_ready(job: Job, now: datetime) -> Sign:
    if job.is_paused:
        return PAUSED
    if job.due_at <= now:
        return DUE
    if job.deferral is not None and job.deferral.until >= job.due_at:
        return DEFERRED
    return RETRYING if job.attempt_count else LATER
