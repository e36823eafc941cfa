"""Tasks and now: whether one is due, and why. Pure; the loop carries it out."""

from datetime import datetime
from enum import Enum
from typing import NamedTuple

from rota.scheduler.tasks.state import TaskState


class StartReason(Enum):
    """Why a task starts. The values are stored and shown."""

    OCCURRENCE = "occurrence"
    CATCH_UP = "catch-up"
    RETRY = "retry"
    INTERRUPTED = "interrupted"
    REQUESTED = "requested"


class Start(NamedTuple):
    """A decided start. ``scheduled_at`` is what it answers; ``preempts`` a retry it supersedes."""

    reason: StartReason
    scheduled_at: datetime
    preempts: datetime | None = None


def decide_start(
    state: TaskState, last_due_at: datetime | None, now: datetime, *, is_interrupted: bool = False
) -> Start | None:
    """Whether the task is to start now; None while there is nothing to answer.

    ``last_due_at`` is the latest occurrence at or before ``now``. However many were missed, one
    start answers them all. A start also cancels any retry that was pending, for good.
    """
    if is_interrupted:
        return Start(StartReason.INTERRUPTED, state.last_attempt_at or now)
    if state.running:
        return None
    occurrence_at = _open_occurrence(state, last_due_at)
    retry_at = state.retry_due_at
    if occurrence_at is not None and not _is_retry_answer(state, occurrence_at, now):
        return Start(_occurrence_reason(occurrence_at, now), occurrence_at, preempts=retry_at)
    if retry_at is not None and retry_at <= now:
        return Start(StartReason.RETRY, retry_at)
    return None


def _open_occurrence(state: TaskState, last_due_at: datetime | None) -> datetime | None:
    answered_until = state.answered_until
    if last_due_at is None or answered_until is None or last_due_at <= answered_until:
        return None
    return last_due_at


def _is_retry_answer(state: TaskState, occurrence_at: datetime, now: datetime) -> bool:
    """A due retry also answers an occurrence that was reached before the failure."""
    return (
        state.retry_due_at is not None
        and state.retry_due_at <= now
        and state.last_failure_at is not None
        and occurrence_at <= state.last_failure_at
    )


def _occurrence_reason(occurrence_at: datetime, now: datetime) -> StartReason:
    is_this_minute = occurrence_at >= now.replace(second=0, microsecond=0)
    return StartReason.OCCURRENCE if is_this_minute else StartReason.CATCH_UP
