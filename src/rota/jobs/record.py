"""The records: jobs, requests, policies, leases, attempts, outcomes and changes. All are frozen."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from rota.jobs.states import Ending, JobStatus
from rota.triggers.zone import Fold, Gap

JobId: TypeAlias = str
"""A UUID as text in lower case; those made by Rota have version 7."""

Instant = Annotated[datetime, msgspec.Meta(tz=True)]

DEFAULT_TENANT = "default"
DEFAULT_PRIORITY = 5
HIGHEST_PRIORITY = 10

PAUSED_UNTIL = datetime(9999, 12, 31, tzinfo=UTC)
"""The due time of a job whose series is paused, in the far future."""

Overlap = Literal["skip", "queue", "allow"]
"""What happens to an occurrence that comes due while the previous one still runs.

``skip``: it is skipped. ``queue``: the first one starts when the run has ended; others are skipped.
``allow``: it starts in parallel.
"""

CatchUp = Literal["once", "skip", "all"]
"""What happens to occurrences that came due while no worker could run them.

``once``: one run, late, covers all of them. ``skip``: none of them runs. ``all``: each runs as a
job of its own, in order; with an ``overlap`` of ``allow``, in parallel.
"""


OnParentFailure = Literal["block", "run", "skip"]
"""What a PENDING job does when one of its dependencies ends without COMPLETED.

``block``: it becomes BLOCKED. ``run``: that dependency counts as done. ``skip``: the job is
cancelled; it names the dependency in its error, and to its own dependents it has failed.
"""


class BackoffStrategy(StrEnum):
    """How the delay before a retry grows."""

    FIXED = "FIXED"
    LINEAR = "LINEAR"
    EXPONENTIAL = "EXPONENTIAL"
    LADDER = "LADDER"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How often a job is attempted, and how long it waits in between.

    LADDER takes its delays from ``ladder_seconds``, repeats the last one, and adds jitter so that
    jobs that failed together are not retried together. The other strategies are exact.
    """

    max_attempts: int = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: int = 10
    max_delay_seconds: int = 300
    ladder_seconds: tuple[int, ...] = (60, 300, 900, 3600)


_USUAL_RETRIES = RetryPolicy()
"""One object shared by requests and jobs, so that an identity check suffices."""

RAIL_RETRIES = RetryPolicy(max_attempts=5, backoff_strategy=BackoffStrategy.LADDER)
"""Specification 3's policy: 1, 5, 15 and 60 minutes with jitter; the fifth failure is the last."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to run a job until an instant. A greater token is a later lease."""

    token: int
    worker: str
    taken_at: Instant
    until: Instant


class Completion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The attempt that completed a job: its worker, start and end."""

    worker: str
    started_at: Instant
    ended_at: Instant

    @property
    def lasted_for(self) -> timedelta:
        return self.ended_at - self.started_at


class Deferral(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A gate held the job back: until when, why, and how often so far."""

    until: Instant
    reason: str
    count: int = 1


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A series of jobs. Exactly one of the first three fields says when.

    ``cron`` is an expression in the extended dialect, ``rrule`` an RFC 5545 rule and ``interval`` a
    duration such as ``1h30m``. ``start`` fixes the phase of all occurrences and never changes; none
    is later than ``until``. ``count`` is the number left, including this one. ``gap`` and ``fold``
    default to what suits the trigger. ``overlap`` says what happens to an occurrence that comes due
    while the previous one still runs, ``catch_up`` what happens to those that were missed.
    ``jitter`` is a duration such as ``5m``: each occurrence starts up to that much later, always by
    the same amount. ``alert_after`` is a duration too: there is an alert when no occurrence has
    succeeded that long after one was due. ``unmet_since`` is the first occurrence since the last
    success that has not succeeded; it is kept only for that alert. ``is_continued``: the next job
    of the series was created while this one ran, so its end creates none.
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
    catch_up: CatchUp = "once"
    jitter: str | None = None
    alert_after: str | None = None
    unmet_since: Instant | None = None
    is_continued: bool = False

    @property
    def text(self) -> str:
        """The schedule as it was written."""
        return self.cron or self.rrule or self.interval or ""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request for a job. Nothing in it has been validated."""

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
    on_parent_failure: OnParentFailure = "block"
    notifies: bool | None = None
    label: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A unit of work, stored until it has ended.

    - ``kind`` selects the handler. A job with a ``label`` runs only on workers that offer this
      version label. ``notifies``: it notifies people, so quiet hours hold it back; None: as its
      kind says. A series passes both on.
    - ``due_at`` is the first instant at which it may start; a retry,
      a snooze and a deferral move it. A higher ``priority`` starts first.
    - ``attempt_count`` counts failed attempts; ``loss_count`` the last of them in a row that ended
      with a lost worker.
    - ``last_token`` is the greatest lease token the job ever had, also without a lease.
    - ``idempotency_key`` and ``occurrence`` make a job unique within its tenant and kind.
    - In a series, ``occurrence_at`` is the occurrence of the job, even when ``due_at`` moves, and
      ``origin`` the id of the first job. ``missed_count`` is the number of skipped occurrences that
      no handler has been given yet. ``is_paused``: the following jobs wait until the series is
      resumed.
    - ``trace`` is the trace of the enqueue: a W3C Trace Context ``traceparent``.
    - ``completion`` is the attempt that succeeded; its end is ``updated_at`` of the COMPLETED job.
    """

    id: JobId
    tenant: str = DEFAULT_TENANT
    queue: str
    name: str
    kind: str
    label: str | None = None
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
    on_parent_failure: OnParentFailure = "block"
    notifies: bool | None = None
    completion: Completion | None = None
    created_at: Instant
    updated_at: Instant


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt that has ended.

    ``outcome`` is "failed", "lost", "discarded", "cancelled" or "succeeded"; only a success has no
    ``error``. ``traceback`` and ``log`` are texts of at most 16 KiB each.
    """

    job_id: JobId
    number: int
    token: int
    worker: str
    started_at: Instant
    ended_at: Instant
    outcome: str
    error: str | None = None
    traceback: str | None = None
    log: str | None = None

    @property
    def lasted_for(self) -> timedelta:
        return self.ended_at - self.started_at


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything to write about one job, all of it or nothing.

    A change holds while the job still has ``expected_status`` and the lease token
    ``expected_token``; otherwise it is stale and writes nothing.
    """

    job: Job
    """The job after the change."""
    path: tuple[JobStatus, ...]
    """The statuses it goes through, starting with the current one.

    Each step is an allowed transition. A single status: the job stays as it is, and only the next
    job of its series is created; no other change of the call concerns it.
    """
    expected_token: int
    attempt: Attempt | None = None
    """The attempt to record: one that failed, or one that succeeded and has a log."""
    result: bytes | None = None
    """What the handler returned, as JSON, if it is to be kept. Only a COMPLETED job has one."""
    successor: Job | None = None
    """The next job of the series. If a job with that id exists, it is left alone."""
    missed_count: int = 0
    """How many occurrences of the series are skipped."""
    series_end: str | None = None
    """Why the series ends, if it does."""
    is_removed: bool = False
    """Remove the job after its end."""

    @property
    def job_id(self) -> JobId:
        return self.job.id

    @property
    def expected_status(self) -> JobStatus:
        return self.path[0]


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned. ``result`` is what it returned, as JSON; None: nothing to keep."""

    result: bytes | None = None
    log: str | None = None


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised, ran too long, or there was none."""

    error: str
    traceback: str | None = None
    log: str | None = None


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asked to run again later."""

    for_: timedelta


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """The handler said that no attempt can succeed."""

    reason: str
    traceback: str | None = None
    log: str | None = None


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """An operator cancelled the job while it ran."""

    reason: str


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """The occurrence was missed, and its series does not run missed occurrences."""

    reason: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The lease expired, and what the worker did is unknown."""


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """The worker shut down; no attempt is spent."""


Outcome: TypeAlias = (
    Succeeded | Failed | Snoozed | Discarded | Cancelled | Skipped | Lost | Interrupted
)
