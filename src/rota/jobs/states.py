"""The states of a job, and the table of allowed transitions."""

from enum import StrEnum
from typing import Literal


class JobStatus(StrEnum):
    """The status of a job. The last three are final."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


class Ending(StrEnum):
    """Why a job is FAILED."""

    EXHAUSTED = "exhausted"
    """Its last attempt failed."""
    DISCARDED = "discarded"
    """The handler said that no attempt can succeed."""
    LOST = "lost"
    """It lost its worker again and again."""
    CANCELLED = "cancelled"
    """An operator cancelled it, or it was skipped because a dependency did not complete."""


TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED})

ALLOWED_MOVES = frozenset(
    {
        (JobStatus.PENDING, JobStatus.READY),
        (JobStatus.PENDING, JobStatus.BLOCKED),
        (JobStatus.READY, JobStatus.RUNNING),
        (JobStatus.RUNNING, JobStatus.COMPLETED),
        (JobStatus.RUNNING, JobStatus.READY),
        (JobStatus.RUNNING, JobStatus.FAILED),
    }
)


def can_transition(current: JobStatus, target: JobStatus) -> bool:
    """Whether a job may go from ``current`` to ``target`` in one step."""
    return (current, target) in ALLOWED_MOVES


RailWord = Literal["queued", "processing", "done", "failed", "dlq"]
_RAIL_WORDS: dict[JobStatus, RailWord] = {
    JobStatus.PENDING: "queued",
    JobStatus.READY: "queued",
    JobStatus.RUNNING: "processing",
    JobStatus.COMPLETED: "done",
    JobStatus.FAILED: "dlq",
    JobStatus.BLOCKED: "failed",
}
_FAILED_FOR_GOOD = frozenset({Ending.DISCARDED, Ending.CANCELLED})


def rail_word(status: JobStatus, ending: Ending | None = None) -> RailWord:
    """The state in specification 3's words.

    ``dlq`` is a job that used up its attempts; ``failed`` a job that was discarded or cancelled, or
    whose dependency failed.
    """
    if ending in _FAILED_FOR_GOOD:
        return "failed"
    return _RAIL_WORDS[status]
