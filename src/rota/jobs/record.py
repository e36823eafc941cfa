"""What a job is: frozen records, without a word about what may become of them."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from rota.jobs.states import Ending, JobStatus
from rota.triggers.zone import Fold, Gap

JobId: TypeAlias = str
"""A UUID as text, in lower case; those that Rota makes are of version 7."""

Instant = Annotated[datetime, msgspec.Meta(tz=True)]

DEFAULT_TENANT = "default"
DEFAULT_PRIORITY = 5
HIGHEST_PRIORITY = 10

PAUSED_UNTIL = datetime(9999, 12, 31, tzinfo=UTC)
"""When a job is due whose series is paused: later than anybody waits for."""

Overlap = Literal["skip", "queue", "allow"]
"""What becomes of an occurrence that comes while the one before it still runs.

``skip``: it is passed over. ``queue``: the first such one starts when the run has ended, the others
are passed over. ``allow``: it starts beside the run.
"""


class BackoffStrategy(StrEnum):
    """How the delay before a retry grows."""

    FIXED = "FIXED"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"
    LADDER = "LADDER"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often a job is attempted, and how long it waits in between.

    LADDER takes its delays from ``ladder_seconds``, the last one again and again, each a little
    later by chance so that what failed together is not tried together. The others are exact.
    """

    max_attempts: int = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: int = 10
    max_delay_seconds: int = 300
    ladder_seconds: tuple[int, ...] = (60, 300, 900, 3600)


_USUAL_RETRIES = RetryPolicy()
"""One object for requests and jobs: where they are the very same, nothing is compared."""

RAIL_RETRIES = RetryPolicy(max_attempts=5, backoff_strategy=BackoffStrategy.LADDER)
"""Specification 3's: after 1, 5, 15 and 60 minutes, with jitter; the fifth failure is the last."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to run a job until an instant. Of two tokens the greater is the later lease."""

    token: int
    worker: str
    taken_at: Instant
    until: Instant


class Deferral(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A gate held the job back: until when and why, and how often that has happened to it."""

    until: Instant
    reason: str
    count: int = 1


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A series of jobs, one at a time; exactly one of the first three fields says when.

    ``cron`` is an expression of the extended dialect, ``rrule`` an RFC 5545 rule and ``interval``
    a length of real time such as ``1h30m``. ``start`` fixes the phase of all occurrences and never
    changes; none is later than ``until``. ``count`` is how many are left, this one among them.
    ``gap`` and ``fold`` left out are those that suit the kind of trigger. ``overlap`` says what
    becomes of an occurrence that comes while the one before it still runs.
    """

    cron: str | None = None
    rrule: str | None = None
    interval: str | None = None
    zone: str = "UTC"
    start: Instant
    until: Instant | None = None
    count: int | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"

    @property
    def text(self) -> str:
        """What was written to say when."""
        return self.cron or self.rrule or self.interval or ""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as it is asked for. Nothing in it has been checked."""

    name: str
    queue: str
    kind: str | None = None
    payload: Any = {}
    priority: int = DEFAULT_PRIORITY
    due_at: datetime | None = None
    dependencies: tuple[JobId, ...] = ()
    retry_policy: RetryPolicy = _USUAL_RETRIES
    idempotency_key: str | None = None
    occurrence: str | None = None
    recurrence: Recurrence | None = None
    auto_remove: bool = False
    replaces: JobId | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A piece of work that is kept until it has ended.

    - ``kind`` says which handler runs it. ``due_at`` is the first instant it may start; a retry, a
      snooze and a deferral move it. Of two jobs the higher ``priority`` comes first.
    - ``attempt_count`` counts attempts that were spent, that is, failed; ``loss_count`` those of
      them that ended, without any other in between, with the worker gone.
    - ``last_token`` is the greatest lease token the job ever had, also when it has no lease.
    - ``idempotency_key`` and ``occurrence`` make a job the only one of its tenant and kind.
    - In a series, ``occurrence_at`` is the instant the job stands for, whatever becomes of
      ``due_at``, and ``origin`` the id of the first job. ``missed_count`` is how many occurrences
      were passed over that nobody has been told of: they came while the job before it ran.
      ``is_paused``: those that follow wait until the series is resumed.
    - ``trace`` says in which trace the job was asked for: a ``traceparent`` of W3C Trace Context.
    """

    id: JobId
    tenant: str = DEFAULT_TENANT
    queue: str
    name: str
    kind: str
    payload: Any = {}
    priority: int = DEFAULT_PRIORITY
    due_at: Instant
    status: JobStatus
    dependencies: tuple[JobId, ...] = ()
    retry_policy: RetryPolicy = _USUAL_RETRIES
    attempt_count: int = 0
    loss_count: int = 0
    last_error: str | None = None
    ending: Ending | None = None
    lease: Lease | None = None
    last_token: int = 0
    deferral: Deferral | None = None
    idempotency_key: str | None = None
    occurrence: str | None = None
    occurrence_at: Instant | None = None
    origin: JobId | None = None
    recurrence: Recurrence | None = None
    missed_count: int = 0
    is_paused: bool = False
    auto_remove: bool = False
    replaces: JobId | None = None
    trace: str | None = None
    created_at: Instant
    updated_at: Instant


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt that did not succeed: whose it was, when, and what went wrong."""

    job_id: JobId
    number: int
    token: int
    worker: str
    started_at: Instant
    ended_at: Instant
    outcome: str
    error: str

    @property
    def lasted_for(self) -> timedelta:
        return self.ended_at - self.started_at
