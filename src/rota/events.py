"""Events as records: one vocabulary for logs, metrics and traces, and their emitter.

The names and fields of the records are a contract (specification 2, "Stable log events"): other
programs rely on them. Attributes use Python names, ``fields()`` the contract's names. Times are
instants in UTC; durations are milliseconds.
"""

import json
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import msgspec

from rota.escape import escape

__all__ = [
    "DEBUG",
    "INFO",
    "WARNING",
    "AlertEnded",
    "AlertNotSent",
    "AlertRaised",
    "ClockMovedBack",
    "EntriesPruned",
    "Event",
    "HandlerLeaked",
    "JobDeferred",
    "JobEvent",
    "JobFailed",
    "JobNotSettled",
    "JobSetApart",
    "JobSettled",
    "JobStalled",
    "JobStarted",
    "JobsLeased",
    "JobsPruned",
    "LeaseLost",
    "LoopBlocked",
    "PollCompleted",
    "PollDelayed",
    "PollStarted",
    "PollingStarted",
    "PollingStopRequested",
    "PollingStopped",
    "RequestRefused",
    "SchedulerInitializationCompleted",
    "SchedulerInitializationFailed",
    "SchedulerInitializationStarted",
    "SchedulerReinitializationStarted",
    "SchedulerStopRequested",
    "SchedulerStopped",
    "StoreFailed",
    "StoreRecovered",
    "TaskAdded",
    "TaskBlockedLoop",
    "TaskOrphaned",
    "TaskOverridden",
    "TaskPreserved",
    "TaskRecordSetAside",
    "TaskRetryPreempted",
    "TaskRetryStarted",
    "TaskRunCompleted",
    "TaskRunDiscarded",
    "TaskRunFailed",
    "TaskRunStarted",
    "TaskScheduled",
    "TaskSkipped",
    "TasksOverridden",
    "WorkerStarted",
    "WorkerStopped",
    "WorkerStopping",
]

DEBUG, INFO, WARNING = 10, 20, 30


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event."""

    level: ClassVar[int] = DEBUG
    undescribed: ClassVar[frozenset[str]] = frozenset()
    """The fields that ``describe`` leaves out, because they have many lines."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def fields(self) -> dict[str, Any]:
        """The contract's fields as plain values; instants are ISO 8601 text."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def describe(self) -> str:
        """One line for people, with every control character escaped."""
        shown = [each for each in self.fields().items() if each[0] not in self.undescribed]
        parts = [f"{key}={_on_one_line(value)}" for key, value in shown]
        return " ".join((self.name, *parts))


def _on_one_line(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


class SchedulerInitializationStarted(Event, frozen=True):
    total_registrations: int


class SchedulerInitializationCompleted(Event, frozen=True):
    total_registrations: int
    scheduled_count: int
    skipped_count: int


class SchedulerInitializationFailed(Event, frozen=True):
    level = WARNING
    error: str


class SchedulerReinitializationStarted(Event, frozen=True):
    total_registrations: int


class SchedulerStopRequested(Event, frozen=True):
    level = INFO


class SchedulerStopped(Event, frozen=True):
    level = INFO


class TaskRunStarted(Event, frozen=True):
    """``scheduled_time`` is the occurrence, or the retry's instant, of this run."""

    level = INFO
    task_name: str
    scheduled_time: datetime
    actual_time: datetime
    is_retry: bool = False


class TaskRunCompleted(Event, frozen=True, omit_defaults=False):
    level = INFO
    task_name: str
    duration: float
    success: bool = True


class TaskRunFailed(Event, frozen=True, omit_defaults=False):
    level = WARNING
    task_name: str
    duration: float
    error: str
    next_retry_at: datetime
    success: bool = False


class TaskRetryStarted(Event, frozen=True):
    level = INFO
    task_name: str
    retry_count: int


class TaskRetryPreempted(Event, frozen=True):
    level = INFO
    task_name: str
    reason: str


class PollStarted(Event, frozen=True):
    poll_time: datetime
    scheduled_task_count: int


class PollCompleted(Event, frozen=True):
    poll_time: datetime
    tasks_evaluated: int
    tasks_executed: int
    duration: float


class PollingStarted(Event, frozen=True):
    pass


class PollingStopped(Event, frozen=True):
    pass


class PollingStopRequested(Event, frozen=True):
    pass


class TaskAdded(Event, frozen=True):
    level = INFO
    task_name: str
    cron_expression: str
    retry_delay_ms: int


class TaskPreserved(Event, frozen=True):
    task_name: str


class TaskOverridden(Event, frozen=True):
    """``change_type`` lists the changed fields, comma-separated."""

    level = INFO
    task_name: str
    change_type: str
    old_state: dict[str, Any]
    new_state: dict[str, Any]


class TasksOverridden(Event, frozen=True):
    """A summary of the override, when anything was added, removed or changed."""

    level = INFO
    removed_tasks: list[str]
    added_tasks: list[str]
    modified_tasks: list[dict[str, Any]]
    total_changes: int


class TaskOrphaned(Event, frozen=True, omit_defaults=False):
    level = WARNING
    task_name: str
    last_execution_time: datetime | None
    scheduler_identifier: str | None


class TaskScheduled(Event, frozen=True):
    task_name: str
    cron_expression: str
    retry_delay_ms: int


class TaskSkipped(Event, frozen=True):
    task_name: str
    reason: str


class TaskRecordSetAside(Event, frozen=True):
    """A stored record could not be read; its bytes are kept under ``kept_as``."""

    level = WARNING
    task_name: str
    error: str
    kept_as: str


class TaskRunDiscarded(Event, frozen=True):
    """A run ended, but another instance had taken over the task meanwhile."""

    level = WARNING
    task_name: str
    reason: str


class TaskBlockedLoop(Event, frozen=True):
    """A callback blocked the event loop."""

    level = WARNING
    task_name: str
    duration: float
    location: str


class ClockMovedBack(Event, frozen=True):
    """The host's clock was set back by this many milliseconds; nothing runs twice."""

    level = WARNING
    by: float
    now: datetime


class PollDelayed(Event, frozen=True):
    """A poll came late: the host was asleep, its clock was set, or the event loop was blocked."""

    level = WARNING
    by: float
    now: datetime


class StoreFailed(Event, frozen=True):
    """The store stopped answering.

    Emitted once per outage; the store is retried until it recovers.
    """

    level = WARNING
    error: str


class StoreRecovered(Event, frozen=True):
    level = INFO


class WorkerStarted(Event, frozen=True):
    level = INFO
    worker: str
    kinds: list[str]
    concurrency: int


class WorkerStopping(Event, frozen=True, omit_defaults=False):
    """The worker leases no more jobs; running jobs may go on for ``grace_ms``."""

    level = INFO
    worker: str
    running_count: int
    grace_ms: float


class WorkerStopped(Event, frozen=True, omit_defaults=False):
    """``unwritten_count`` jobs could not be settled; other workers will rescue them."""

    level = INFO
    worker: str
    manner: str
    handed_back_count: int
    unwritten_count: int


class JobsLeased(Event, frozen=True):
    """Jobs were leased in one call."""

    worker: str
    count: int


class JobEvent(Event, frozen=True):
    """An event about one job. ``attempt`` is the number of the attempt, counted from 1."""

    tenant: str
    job_id: str
    kind: str
    queue: str
    attempt: int


class JobStarted(JobEvent, frozen=True, omit_defaults=False):
    """A handler is about to be called; ``wait_ms`` is the time from due to leased."""

    wait_ms: float


class JobSettled(JobEvent, frozen=True, omit_defaults=False):
    """An attempt has ended, and its outcome is written.

    ``state`` is the job's, in the rail's words.

    ``outcome`` is succeeded, snoozed or handed back; of a ``JobFailed``, failed or discarded.
    """

    level = INFO
    outcome: str
    state: str
    wait_ms: float
    duration_ms: float


class JobFailed(JobSettled, frozen=True, omit_defaults=False):
    """A failed attempt. With the state ``queued`` there is a retry, at ``due_at``.

    ``err_code`` is the name of the exception, or NoHandler, TimedOut or Discarded. A ``traceback``,
    of at most 16 KiB, is only in logs as JSON.
    """

    level = WARNING
    undescribed = frozenset({"traceback"})
    err_code: str
    error: str
    due_at: datetime
    traceback: str | None = None


class JobDeferred(JobEvent, frozen=True):
    """A gate held the job back, or it could not run alone. No attempt is spent."""

    level = INFO
    until: datetime
    reason: str


class JobStalled(JobEvent, frozen=True):
    """The lease of a job expired; the job was taken from its worker."""

    level = WARNING
    worker: str
    lease_until: datetime
    state: str
    loss_count: int


class JobSetApart(JobEvent, frozen=True):
    """The job lost its last workers in a row and runs in quarantine."""

    level = INFO
    loss_count: int


class LeaseLost(JobEvent, frozen=True):
    """This worker lost the lease; its handler's outcome is not written."""

    level = WARNING
    token: int
    reason: str


class HandlerLeaked(JobEvent, frozen=True):
    """A handler went on after its cancellation; another may run in its place."""

    level = WARNING
    reason: str
    leaked_count: int


class JobNotSettled(JobEvent, frozen=True):
    """The store refuses the job's outcome; its lease will expire."""

    level = WARNING
    error: str


class ChildStarted(Event, frozen=True):
    """A worker started a child process for handlers that run in one."""

    level = DEBUG
    pid: int


class ChildEnded(Event, frozen=True):
    """A child process has ended: recycled, stopped with its worker, killed, or crashed."""

    level = INFO
    pid: int
    reason: str
    job_count: int


class LoopBlocked(Event, frozen=True):
    """The worker's event loop was blocked; ``job_id`` is set when a handler blocked it.

    Leases are kept meanwhile. ``duration`` is in milliseconds, so far.
    """

    level = WARNING
    duration: float
    location: str
    job_id: str | None = None
    kind: str | None = None
    is_over: bool = False


class RequestRefused(Event, frozen=True, omit_defaults=False):
    """A server refused a request. The token or password that came with it is not part of this.

    ``reason`` is unauthorized, forbidden, sign_in_failed, cross_site, unknown_host or rate_limited.
    ``route`` is the path with the names of its parameters. ``token_id`` names the caller's token,
    or a well-formed one that is not valid: ``rota tokens list`` shows the same id.
    """

    level = WARNING
    reason: str
    status: int
    method: str
    route: str
    remote: str
    caller: str | None
    tenant: str | None
    token_id: str | None
    request_id: str | None


class AlertRaised(Event, frozen=True):
    """A condition began that a person should know of; ``text`` says which."""

    level = WARNING
    concern: str
    source: str
    alert_name: str
    text: str
    tenant: str = ""
    since: datetime | None = None


class AlertEnded(Event, frozen=True):
    """The condition of an ``AlertRaised`` is over."""

    level = INFO
    concern: str
    source: str
    alert_name: str
    tenant: str = ""


class AlertNotSent(Event, frozen=True):
    """The webhook for alerts could not be called; it is tried again."""

    level = WARNING
    error: str
    alert_count: int


class JobsPruned(Event, frozen=True):
    count: int
    ended_before: datetime


class EntriesPruned(Event, frozen=True):
    """Retention has removed entries of the audit log (``audit``) or the once-ledger."""

    source: str
    count: int


Listener: TypeAlias = Callable[[Event], object]


class EventEmitter:
    """Emits the events of one engine, in order, to the log and to subscribers.

    A log record has the event name as ``record.event`` and the fields as ``record.fields``; its
    message is one line in which user-supplied text is escaped. An event without subscribers or log
    is never created.
    """

    def __init__(self, logger_name: str) -> None:
        self._logger = logging.getLogger(logger_name)
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener(event)`` for every event. The returned function unsubscribes it.

        It is called in the event loop's thread, except for events about a blocked loop.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def wants(self, kind: type[Event]) -> bool:
        """Whether the event has subscribers or a log. If not, it need not be created."""
        return bool(self._listeners) or self._logger.isEnabledFor(kind.level)

    def emit(self, event: Event, *, is_logged: bool = True) -> None:
        """Log the event and call every listener.

        A failing listener is logged and does not affect others.
        """
        if is_logged and self._logger.isEnabledFor(event.level):
            self._logger.log(
                event.level,
                "%s",
                event.describe(),
                extra={"event": event.name, "fields": event.fields()},
            )
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._logger.exception("A subscriber failed on %s", event.name)
