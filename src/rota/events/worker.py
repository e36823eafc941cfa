"""What happens to a worker and its jobs."""

from datetime import datetime

from rota.events.event import INFO, WARNING, Event


class WorkerStarted(Event, frozen=True):
    level = INFO
    worker: str
    kinds: list[str]
    concurrency: int


class WorkerStopping(Event, frozen=True, omit_defaults=False):
    """No job is leased any more; those that run may go on for ``grace_ms``."""

    level = INFO
    worker: str
    running_count: int
    grace_ms: float


class WorkerStopped(Event, frozen=True, omit_defaults=False):
    """``unwritten_count`` jobs could not be settled, and will be rescued by others."""

    level = INFO
    worker: str
    manner: str
    handed_back_count: int
    unwritten_count: int


class JobsLeased(Event, frozen=True):
    """Jobs were taken from the store, in one go."""

    worker: str
    count: int


class JobEvent(Event, frozen=True):
    """Something about one job. ``attempt`` is the number of the attempt, counted from 1."""

    tenant: str
    job_id: str
    kind: str
    queue: str
    attempt: int


class JobStarted(JobEvent, frozen=True, omit_defaults=False):
    """A handler is about to be called; ``wait_ms`` is from when the job was due to its lease."""

    wait_ms: float


class JobSettled(JobEvent, frozen=True, omit_defaults=False):
    """An attempt has ended, and it is written. ``state`` is the job's, in the rail's words.

    ``outcome`` is succeeded, snoozed or handed back; of a ``JobFailed``, failed or discarded.
    """

    level = INFO
    outcome: str
    state: str
    wait_ms: float
    duration_ms: float


class JobFailed(JobSettled, frozen=True, omit_defaults=False):
    """An attempt that did not succeed. With the state ``queued`` there is another, at ``due_at``.

    ``err_code`` is the name of the exception, or NoHandler, TimedOut or Discarded.
    """

    level = WARNING
    err_code: str
    error: str
    due_at: datetime


class JobDeferred(JobEvent, frozen=True):
    """A gate held the job back, or it could not be alone; it has not begun, nothing is spent."""

    level = INFO
    until: datetime
    reason: str


class JobStalled(JobEvent, frozen=True):
    """The lease of a job ran out; it was taken from the worker that held it."""

    level = WARNING
    worker: str
    lease_until: datetime
    state: str
    loss_count: int


class JobSetApart(JobEvent, frozen=True):
    """The workers that last ran the job were lost, so many in a row: this one runs it alone."""

    level = INFO
    loss_count: int


class LeaseLost(JobEvent, frozen=True):
    """This worker no longer has the job, and what its handler did or does is not written."""

    level = WARNING
    token: int
    reason: str


class HandlerLeaked(JobEvent, frozen=True):
    """A handler went on although it was cut short; another may run in its place."""

    level = WARNING
    reason: str
    leaked_count: int


class JobNotSettled(JobEvent, frozen=True):
    """The store refuses what became of the job; its lease will run out."""

    level = WARNING
    error: str


class LoopBlocked(Event, frozen=True):
    """Something kept the worker's event loop from turning; ``job_id`` when it was a handler.

    Leases are kept meanwhile. ``duration`` is in milliseconds, so far.
    """

    level = WARNING
    duration: float
    location: str
    job_id: str | None = None
    kind: str | None = None
    is_over: bool = False


class JobsPruned(Event, frozen=True):
    count: int
    ended_before: datetime
