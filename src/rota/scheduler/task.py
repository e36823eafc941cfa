"""A task: its stored state, its three phases, its pause, and when it starts. Pure."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, NamedTuple

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_INSTANT_BEFORE = timedelta(microseconds=1)
SHORTEST_PAUSE = timedelta(seconds=1)
"""The pause between a failure and a retry whose delay is zero."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime(9999, 12, 30, tzinfo=UTC)
"""The last day that every zone's calendar has. A retry at this instant never happens."""


class TaskPhase(Enum):
    """A task is in exactly one of these."""

    AWAITING_RUN = "AwaitingRun"
    RUNNING = "Running"
    AWAITING_RETRY = "AwaitingRetry"


class TaskState(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """One task as it is stored, in specification 1's words.

    ``running`` and ``scheduler_identifier`` together are the claim: which instance runs the task
    now. ``running`` is always written; a record without it comes from another program. The time of
    an attempt is its start, so an occurrence during a run is not lost.
    """

    name: str
    cron_expression: str
    retry_delay_ms: Annotated[int, msgspec.Meta(ge=0)]
    registered_at: Instant | None = None
    last_attempt_at: Instant | None = None
    last_success_at: Instant | None = None
    last_failure_at: Instant | None = None
    pending_retry_until: Instant | None = None
    retry_count: int = 0
    running: bool
    scheduler_identifier: str | None = None
    last_reason: str | None = None

    @property
    def phase(self) -> TaskPhase:
        if self.running:
            return TaskPhase.RUNNING
        if self.pending_retry_until is not None:
            return TaskPhase.AWAITING_RETRY
        return TaskPhase.AWAITING_RUN

    @property
    def answered_until(self) -> datetime | None:
        """Occurrences up to here need no run: the last start, or the minute of registration.

        A task registered within a minute that it matches runs in that minute, hence the instant
        just before it. None when neither is known: then no past occurrence needs a run.
        """
        if self.last_attempt_at is not None:
            return self.last_attempt_at
        if self.registered_at is not None:
            return self.registered_at.replace(second=0, microsecond=0) - _INSTANT_BEFORE
        return None

    @property
    def retry_due_at(self) -> datetime | None:
        """When a pending retry may start. A delay of zero still leaves a short pause."""
        retry_at = self.pending_retry_until
        if retry_at is not None and retry_at == self.last_failure_at:
            return retry_at + SHORTEST_PAUSE
        return retry_at

    def retry_at(self, failed_at: datetime) -> datetime:
        """When a run that failed at ``failed_at`` is retried."""
        try:
            return failed_at + timedelta(milliseconds=self.retry_delay_ms)
        except OverflowError:
            return END_OF_TIME


def begin_attempt(state: TaskState, at: datetime, identifier: str, reason: str) -> TaskState:
    """The claim: the task is running until the run ends or its instance dies."""
    return msgspec.structs.replace(
        state,
        last_attempt_at=at,
        pending_retry_until=None,
        running=True,
        scheduler_identifier=identifier,
        last_reason=reason,
    )


def record_success(state: TaskState, at: datetime) -> TaskState:
    return msgspec.structs.replace(
        state, last_success_at=at, pending_retry_until=None, running=False, retry_count=0
    )


def record_failure(state: TaskState, at: datetime) -> TaskState:
    return msgspec.structs.replace(
        state,
        last_failure_at=at,
        pending_retry_until=state.retry_at(at),
        running=False,
        retry_count=state.retry_count + 1,
    )


def reconfigure(state: TaskState, cron_expression: str, retry_delay_ms: int) -> TaskState:
    """New configuration, same history; a pending retry keeps its instant."""
    return msgspec.structs.replace(
        state, cron_expression=cron_expression, retry_delay_ms=retry_delay_ms
    )


class StartReason(Enum):
    """Why a task starts. The values are stored and shown."""

    OCCURRENCE = "occurrence"
    CATCH_UP = "catch-up"
    RETRY = "retry"
    INTERRUPTED = "interrupted"
    REQUESTED = "requested"


class Start(NamedTuple):
    """A decided start: the instant it is for, and the pending retry that it replaces."""

    reason: StartReason
    scheduled_at: datetime
    preempts: datetime | None = None


def decide_start(
    state: TaskState, last_due_at: datetime | None, now: datetime, *, is_interrupted: bool = False
) -> Start | None:
    """Whether the task starts now, and why. None: it does not.

    ``last_due_at`` is the latest occurrence at or before ``now``. One start covers all missed
    occurrences, and cancels a pending retry for good.
    """
    if is_interrupted:
        return Start(StartReason.INTERRUPTED, state.last_attempt_at or now)
    if state.running:
        return None
    occurrence_at = _open_occurrence(state, last_due_at)
    retry_at = state.retry_due_at
    if occurrence_at is not None and not _is_covered_by_retry(state, occurrence_at, now):
        return Start(_occurrence_reason(occurrence_at, now), occurrence_at, preempts=retry_at)
    if retry_at is not None and retry_at <= now:
        return Start(StartReason.RETRY, retry_at)
    return None


def _open_occurrence(state: TaskState, last_due_at: datetime | None) -> datetime | None:
    answered_until = state.answered_until
    if last_due_at is None or answered_until is None or last_due_at <= answered_until:
        return None
    return last_due_at


def _is_covered_by_retry(state: TaskState, occurrence_at: datetime, now: datetime) -> bool:
    """Whether a due retry also covers the occurrence, because it came before the failure."""
    return (
        state.retry_due_at is not None
        and state.retry_due_at <= now
        and state.last_failure_at is not None
        and occurrence_at <= state.last_failure_at
    )


def _occurrence_reason(occurrence_at: datetime, now: datetime) -> StartReason:
    is_this_minute = occurrence_at >= now.replace(second=0, microsecond=0)
    return StartReason.OCCURRENCE if is_this_minute else StartReason.CATCH_UP


class TaskPause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The pause of a task: who paused it, when and why.

    One that has ended is kept until the task starts again. Occurrences up to ``resumed_at``
    need no run.
    """

    at: Instant = _LONG_AGO
    who: str = ""
    why: str = ""
    resumed_at: Instant | None = None

    @property
    def is_active(self) -> bool:
        return self.resumed_at is None

    def end(self, now: datetime) -> "TaskPause":
        return msgspec.structs.replace(self, resumed_at=now)

    def skips(self, occurrence_at: datetime | None) -> bool:
        """Whether the task was resumed later than this, without catching up."""
        if occurrence_at is None or self.resumed_at is None:
            return False
        return occurrence_at <= self.resumed_at
