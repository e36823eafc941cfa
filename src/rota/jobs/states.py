"""The states of a job, and the table of allowed transitions."""

from enum import StrEnum
from typing import Literal, Self


class JobStatus(StrEnum):
    """The status of a job."""

    is_terminal: bool

    def __new__(cls, word: str, is_terminal: bool = False) -> Self:  # noqa: FBT001, FBT002 - so members give it
        status = str.__new__(cls, word)
        status._value_, status.is_terminal = word, is_terminal
        return status

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED", True
    FAILED = "FAILED", True
    BLOCKED = "BLOCKED", True


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


TERMINAL = frozenset(status for status in JobStatus if status.is_terminal)

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
