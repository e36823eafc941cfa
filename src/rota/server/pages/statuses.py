"""The state of a job as a word, a shape and a tone."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.jobs import Job, JobState, JobStatus, find_state
from rota.ops.bulk import list_actions
from rota.ops.explanation import name_error


class Sign(NamedTuple):
    """``word`` names the state, ``shape`` an icon and ``tone`` a colour. Each alone is enough."""

    word: str
    shape: str
    tone: str


WAITING = Sign(JobState.PENDING, "dashed", "quiet")
LATER = Sign(JobState.SCHEDULED, "clock", "quiet")
DEFERRED = Sign(JobState.HELD, "hand", "amber")
RETRYING = Sign(JobState.RETRYING, "again", "amber")
PAUSED = Sign(JobState.PAUSED, "pause", "quiet")
DUE = Sign(JobState.DUE, "ring", "blue")
RUNNING = Sign(JobState.RUNNING, "play", "blue")
STALLED = Sign(JobState.STALLED, "alert", "red")
COMPLETED = Sign(JobState.COMPLETED, "check", "green")
DEAD = Sign(JobState.DEAD, "cross", "red")
DISCARDED = Sign(JobState.DISCARDED, "bin", "red")
CANCELLED = Sign(JobState.CANCELLED, "slash", "quiet")
BLOCKED = Sign(JobState.BLOCKED, "bar", "amber")
FAILED = Sign("failed", "cross", "red")

SIGNS = {
    JobState(sign.word): sign
    for sign in (
        WAITING,
        LATER,
        DEFERRED,
        RETRYING,
        PAUSED,
        DUE,
        RUNNING,
        STALLED,
        COMPLETED,
        DEAD,
        DISCARDED,
        CANCELLED,
        BLOCKED,
    )
}

STATUS_SIGNS = {
    JobStatus.PENDING: WAITING,
    JobStatus.READY: Sign("ready", "ring", "blue"),
    JobStatus.RUNNING: RUNNING,
    JobStatus.COMPLETED: COMPLETED,
    JobStatus.FAILED: FAILED,
    JobStatus.BLOCKED: BLOCKED,
}
"""For places where only the status is known."""


class Row(NamedTuple):
    """A job in a list: its state, and the most telling line of its last error.

    ``lasted_for`` is how long the attempt of a completed job took, or how long a running one has
    been running; ``worker`` is who runs it or completed it. ``allows`` are the bulk actions that
    apply to it.
    """

    job: Job
    sign: Sign
    error: str = ""
    at: datetime | None = None
    note: str = ""
    lasted_for: timedelta | None = None
    worker: str = ""
    allows: Sequence[str] = ()

    @property
    def attempt_count(self) -> int:
        """The attempts so far, with the one that runs and the one that succeeded."""
        has_one_more = self.job.status in {JobStatus.RUNNING, JobStatus.COMPLETED}
        return self.job.attempt_count + has_one_more


def make_rows(jobs: Iterable[Job], now: datetime) -> list[Row]:
    return [
        Row(
            job,
            sign_of(job, now),
            name_error(job.last_error),
            lasted_for=_measure(job, now),
            worker=_find_worker(job),
            allows=list_actions(job, now),
        )
        for job in jobs
    ]


def sign_of(job: Job, now: datetime) -> Sign:
    """The state of the job, finer than its status."""
    return SIGNS[find_state(job, now)]


def _measure(job: Job, now: datetime) -> timedelta | None:
    if job.completion is not None:
        return job.completion.lasted_for
    return None if job.lease is None else now - job.lease.taken_at


def _find_worker(job: Job) -> str:
    if job.completion is not None:
        return job.completion.worker
    return "" if job.lease is None else job.lease.worker
