"""The state of a job in one word: finer than its status, and the same on pages and in commands.

A status is what the store keeps. A state also says why a READY job does not run yet, whether the
worker of a RUNNING job is still there, and how a FAILED job failed.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from rota.errors import InvalidInputError
from rota.jobs.record import Job
from rota.jobs.states import Ending, JobStatus


class JobState(StrEnum):
    """The words for the state of a job, in the order of its life."""

    PENDING = "pending"
    """It waits for other jobs."""
    SCHEDULED = "scheduled"
    """It is due later."""
    HELD = "held"
    """A gate holds it back."""
    RETRYING = "retrying"
    """An attempt failed, and the next one is due later."""
    PAUSED = "paused"
    """Its series waits until a person resumes it."""
    DUE = "due"
    """It waits for a worker."""
    RUNNING = "running"
    STALLED = "stalled"
    """Its lease has expired, and no worker has rescued it yet."""
    COMPLETED = "completed"
    DEAD = "dead"
    """It used up its attempts: a dead letter."""
    DISCARDED = "discarded"
    """The handler said that no attempt can succeed."""
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    """A job that it depends on did not complete."""

    @property
    def status(self) -> JobStatus:
        """The status that every job in this state has."""
        return _STATUSES[self]


_STATUSES = {
    JobState.PENDING: JobStatus.PENDING,
    JobState.SCHEDULED: JobStatus.READY,
    JobState.HELD: JobStatus.READY,
    JobState.RETRYING: JobStatus.READY,
    JobState.PAUSED: JobStatus.READY,
    JobState.DUE: JobStatus.READY,
    JobState.RUNNING: JobStatus.RUNNING,
    JobState.STALLED: JobStatus.RUNNING,
    JobState.COMPLETED: JobStatus.COMPLETED,
    JobState.DEAD: JobStatus.FAILED,
    JobState.DISCARDED: JobStatus.FAILED,
    JobState.CANCELLED: JobStatus.FAILED,
    JobState.BLOCKED: JobStatus.BLOCKED,
}

NOT_DUE = (JobState.SCHEDULED, JobState.HELD, JobState.RETRYING, JobState.PAUSED)
"""The states of a READY job that is not due yet."""

STATES_OF = {
    status: frozenset(state for state in JobState if _STATUSES[state] is status)
    for status in JobStatus
}

_WORDS: dict[str, frozenset[JobState]] = {
    "ready": STATES_OF[JobStatus.READY],
    "failed": STATES_OF[JobStatus.FAILED],
    **{state.value: frozenset({state}) for state in JobState},
}
"""A word names one state. Two statuses of the API are not states: they stand for all of theirs."""

_BY_ENDING = {Ending.CANCELLED: JobState.CANCELLED, Ending.DISCARDED: JobState.DISCARDED}


class StateFacts(NamedTuple):
    """What the state of a job follows from."""

    status: JobStatus
    due_at: datetime
    attempt_count: int = 0
    is_paused: bool = False
    ending: Ending | None = None
    lease_until: datetime | None = None
    held_until: datetime | None = None


def find_state(job: Job, now: datetime) -> JobState:
    """The state of the job at this instant."""
    return judge_state(
        StateFacts(
            job.status,
            job.due_at,
            job.attempt_count,
            job.is_paused,
            job.ending,
            None if job.lease is None else job.lease.until,
            None if job.deferral is None else job.deferral.until,
        ),
        now,
    )


def judge_state(facts: StateFacts, now: datetime) -> JobState:
    """The state that follows from the facts."""
    if facts.status is JobStatus.READY:
        return _judge_ready(facts, now)
    if facts.status is JobStatus.RUNNING:
        has_expired = facts.lease_until is not None and facts.lease_until < now
        return JobState.STALLED if has_expired else JobState.RUNNING
    if facts.status is JobStatus.FAILED:
        return (
            JobState.DEAD if facts.ending is None else _BY_ENDING.get(facts.ending, JobState.DEAD)
        )
    return JobState(facts.status.lower())


def _judge_ready(facts: StateFacts, now: datetime) -> JobState:
    if facts.is_paused:
        return JobState.PAUSED
    if facts.due_at <= now:
        return JobState.DUE
    if facts.held_until is not None and facts.held_until >= facts.due_at:
        return JobState.HELD
    return JobState.RETRYING if facts.attempt_count else JobState.SCHEDULED


def parse_states(text: str) -> frozenset[JobState]:
    """The states that a filter names: one word or several with commas between, in any case.

    InvalidInputError names a word that is not a state.
    """
    found: set[JobState] = set()
    for word in text.split(","):
        states = _WORDS.get(word.strip().lower())
        if states is None:
            known = ", ".join(JobState)
            raise InvalidInputError(
                f'state must be one of {known}, or several with commas between, got "{word[:40]}"',
                {"field": "state"},
            )
        found |= states
    return frozenset(found)
