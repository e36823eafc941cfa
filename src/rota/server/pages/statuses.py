"""The state of a job as a word, a shape and a tone."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rota.jobs import Ending, Job, JobState, JobStatus, find_state
from rota.jobs.job_state import StateFacts, judge_state
from rota.ops.bulk import list_actions
from rota.ops.explanation import name_error

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Sign(NamedTuple):
    """``word`` names the state, ``shape`` an icon and ``tone`` a colour. Each alone is enough."""

    word: str
    shape: str
    tone: str


_LOOKS = {
    JobState.PENDING: ("dashed", "quiet"),
    JobState.SCHEDULED: ("clock", "quiet"),
    JobState.HELD: ("hand", "amber"),
    JobState.RETRYING: ("again", "amber"),
    JobState.PAUSED: ("pause", "quiet"),
    JobState.DUE: ("ring", "blue"),
    JobState.RUNNING: ("play", "blue"),
    JobState.STALLED: ("alert", "red"),
    JobState.COMPLETED: ("check", "green"),
    JobState.DEAD: ("cross", "red"),
    JobState.DISCARDED: ("bin", "red"),
    JobState.CANCELLED: ("slash", "quiet"),
    JobState.BLOCKED: ("bar", "amber"),
}
SIGNS = {state: Sign(state.value, *look) for state, look in _LOOKS.items()}
FAILED = Sign("failed", "cross", "red")
"""For an attempt, or a run of a task: a job that has failed for good is in a state of its own."""


class Row(NamedTuple):
    """A job in a list: its state, and the most telling line of its last error.

    ``lasted_for`` is how long the attempt of a completed job took, or how long a running one has
    been running; ``worker`` is who runs it or completed it. ``allows`` are the bulk actions that
    apply to it. ``payload`` is the beginning of its payload, where a list shows it.
    """

    job: Job
    sign: Sign
    error: str = ""
    at: datetime | None = None
    note: str = ""
    lasted_for: timedelta | None = None
    worker: str = ""
    allows: Sequence[str] = ()
    payload: str = ""

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


def sign_of_end(status: JobStatus, ending: Ending | None = None) -> Sign:
    """The state of a job of which only the status and the ending are known."""
    return SIGNS[judge_state(StateFacts(status, _LONG_AGO, ending=ending), _LONG_AGO)]


def _measure(job: Job, now: datetime) -> timedelta | None:
    if job.completion is not None:
        return job.completion.lasted_for
    return None if job.lease is None else now - job.lease.taken_at


def _find_worker(job: Job) -> str:
    if job.completion is not None:
        return job.completion.worker
    return "" if job.lease is None else job.lease.worker
