"""What is remembered of a task, and the moves between its three phases. All of it is pure."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_INSTANT_BEFORE = timedelta(microseconds=1)
SHORTEST_PAUSE = timedelta(seconds=1)
"""Between a failure and a retry whose delay is zero."""
END_OF_TIME = datetime(9999, 12, 30, tzinfo=UTC)
"""The last day that every zone's calendar still has: a retry so far off is never."""


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

    ``running`` and ``scheduler_identifier`` together are the claim: who runs it now. ``running`` is
    always written; a record without it was made by another program. An attempt is dated by its
    start, always, so an occurrence reached during a run is never forgotten.
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
        """Occurrences up to here are answered: the last start, or the minute of registration.

        A task registered within a minute that it matches owes that minute a run, hence the instant
        just before it. None when neither is known: nothing was owed before the task is looked at.
        """
        if self.last_attempt_at is not None:
            return self.last_attempt_at
        if self.registered_at is not None:
            return self.registered_at.replace(second=0, microsecond=0) - _INSTANT_BEFORE
        return None

    @property
    def retry_due_at(self) -> datetime | None:
        """When a pending retry may start: at its instant, but a delay of zero is no busy loop."""
        retry_at = self.pending_retry_until
        if retry_at is not None and retry_at == self.last_failure_at:
            return retry_at + SHORTEST_PAUSE
        return retry_at

    def retry_at(self, failed_at: datetime) -> datetime:
        """When a run that failed then is to be tried again."""
        try:
            return failed_at + timedelta(milliseconds=self.retry_delay_ms)
        except OverflowError:
            return END_OF_TIME


def begin_attempt(state: TaskState, at: datetime, identifier: str, reason: str) -> TaskState:
    """The claim: from here until it ends, or its instance dies, the task is running."""
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
