"""What a handler is given, what it may return, and what may be around it."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import wraps
from threading import Lock
from typing import Any, Protocol, TypeAlias

import msgspec

from rota.clock.duration import Duration, read_duration
from rota.errors import InvalidInputError, invalid
from rota.jobs import Job, JobId, Punctuality, assess_punctuality
from rota.policy.audit import AuditedAction, TenantAudit, record_action
from rota.policy.once import Action, Ledger, OnCrash, effect_key

JOB_LOGGER = "rota.job"
"""The logger behind ``Context.log``."""


class _ParentLevel(logging.Filter):
    """Passes on what the parent's level allows: ``Context.log`` is captured from INFO on anyway."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _job_logger.level != logging.INFO or _job_logger.parent is None:
            return True  # the program has set a level of its own
        return record.levelno >= _job_logger.parent.getEffectiveLevel()


_job_logger = logging.getLogger(JOB_LOGGER)
if _job_logger.level == logging.NOTSET:
    _job_logger.setLevel(logging.INFO)
    _job_logger.addFilter(_ParentLevel())


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs with the fields of one job: ``job_id``, ``kind``, ``queue``, ``tenant``, ``attempt``."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class CancelReason(StrEnum):
    """Why an attempt was cut short."""

    LOST = "lease lost"
    """Another worker has the job, or it was deleted; this worker writes nothing more."""
    LAPSED = "lease ran out"
    """The lease could not be extended in time."""
    TIMED_OUT = "timed out"
    STOPPING = "worker stopping"


class Reply:
    """What a handler may return in place of a result.

    A plain class: every job asks for it, and ``isinstance`` with a Struct takes twice as long.
    """

    __slots__ = ()


class Snooze(Reply, msgspec.Struct, frozen=True):
    """Returned by a handler to be called again after this time; no attempt is spent."""

    for_: Duration

    def __post_init__(self) -> None:
        read_duration(self.for_, "for_")

    @property
    def delay(self) -> timedelta:
        """The time, whether it was given as text or not."""
        return read_duration(self.for_, "for_")


class Discard(Reply, msgspec.Struct, frozen=True):
    """Returned by a handler that knows that no attempt can succeed."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise invalid("reason", f"must be a text, got {self.reason!r:.40}")


class ProgressSink(Protocol):
    """Takes the reports of attempts."""

    def report(self, job: Job, done: float, total: float | None, message: str | None) -> None:
        """Show this instead of what was reported before."""
        ...

    def end(self, job_id: JobId) -> None:
        """The attempt has ended: show nothing more."""
        ...

    async def close(self) -> None:
        """No attempt is left."""
        ...


class ProcessRunner(Protocol):
    """Calls functions in child processes, and counts those that it started and had to kill."""

    started_count: int
    killed_count: int

    async def call(self, target: Any, context: "Context", payload: Any) -> Any:
        """What the function returns: JSON as bytes, a Snooze, a Discard or None."""
        ...

    async def close(self) -> None:
        """No attempt is left: end all of them."""
        ...


@dataclass(slots=True)
class Facilities:
    """What the attempts of one run share: ``state`` is the value of the worker's lifespan.

    Everything else is opened when a handler first needs it.
    """

    open_progress: Callable[[], ProgressSink]
    open_processes: Callable[[], ProcessRunner] | None = None
    open_ledger: Callable[[], Ledger] | None = None
    open_audit: Callable[[str], TenantAudit] | None = None
    state: Any = None
    progress: ProgressSink | None = None
    processes: ProcessRunner | None = None
    _lock: Lock = field(default_factory=Lock)

    def report(self, job: Job, done: float, total: float | None, message: str | None) -> None:
        """Show this progress. Handlers in threads may be the first to report."""
        with self._lock:
            self.progress = self.progress or self.open_progress()
        self.progress.report(job, done, total, message)


class AttemptFacts(msgspec.Struct, eq=False):
    """What is known about an attempt when it starts. ``now`` is that instant."""

    job: Job
    now: datetime

    @property
    def tenant(self) -> str:
        return self.job.tenant

    @property
    def payload(self) -> Any:
        return self.job.payload

    @property
    def attempt(self) -> int:
        """The number of this attempt, counted from 1; attempts that were not spent do not count."""
        return self.job.attempt_count + 1

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is dead if this attempt fails."""
        return self.attempt >= self.job.retry_policy.max_attempts

    @property
    def token(self) -> int:
        """Greater than that of every earlier attempt; use it to fence writes elsewhere."""
        return self.job.last_token

    @property
    def effect_key(self) -> str:
        """A key for ``once`` that is the same for every attempt at this job.

        It consists of the job's kind, its idempotency key or else its id, and its occurrence. A job
        that replaces a dead one has the dead one's key.
        """
        return effect_key(self.job)


class Context(AttemptFacts, eq=False):
    """One attempt at one job.

    ``now`` is when the attempt started. A handler that is cut short gets a ``CancelledError`` where
    it awaits, and ``cancel_reason`` says why. A handler in a thread cannot be interrupted: let it
    check ``cancel_reason`` from time to time. Its attempt did not succeed, whatever it returns.
    """

    _facilities: Facilities | None = None
    cancel_reason: CancelReason | None = None
    _punctuality: Punctuality | None = None
    _log: JobLogger | None = None

    def __repr__(self) -> str:
        return f"<Context of job {self.job.id}, attempt {self.attempt}>"

    @property
    def scheduled_for(self) -> datetime:
        """The occurrence of the job, or else the instant it was due."""
        return self.punctuality.scheduled_for

    @property
    def late_for(self) -> timedelta:
        """How long after ``scheduled_for`` the attempt started; never negative."""
        return self.punctuality.late_for

    @property
    def punctuality(self) -> Punctuality:
        """How late the attempt is, and which occurrences were missed."""
        if self._punctuality is None:
            self._punctuality = assess_punctuality(self.job, self.now)
        return self._punctuality

    @property
    def is_lost(self) -> bool:
        """Whether the job no longer belongs to this worker."""
        return self.cancel_reason is CancelReason.LOST

    @property
    def state(self) -> Any:
        """What the lifespan of the worker has opened; None without a lifespan."""
        return None if self._facilities is None else self._facilities.state

    @property
    def log(self) -> JobLogger:
        """A logger whose records have the job's fields and are kept with the attempt."""
        if self._log is None:
            job = self.job
            fields = {"job_id": job.id, "kind": job.kind, "queue": job.queue, "tenant": job.tenant}
            self._log = JobLogger(_job_logger, {**fields, "attempt": self.attempt})
        return self._log

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the handler is, from any thread and as often as is convenient.

        Pages and commands show the latest report. It is written about once a second, and removed
        when the attempt ends.
        """
        if self._facilities is None:
            raise InvalidInputError("this context was made without a worker", {"field": "progress"})
        if self.cancel_reason is None:
            self._facilities.report(self.job, done, total, message)

    async def audit(
        self, action: str, *, why: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        """Append an entry to the tenant's audit log, with this job and its kind as the author.

        An attempt that is made again writes its entries again; use ``once`` around it if that
        matters. ``details`` are JSON.
        """
        open_audit = None if self._facilities is None else self._facilities.open_audit
        if open_audit is None:
            raise InvalidInputError("this context was made without a worker", {"field": "action"})
        act = AuditedAction(
            action=action,
            who=self.job.kind,
            why=why,
            job_ids=(self.job.id,),
            details=details or {},
        )
        await record_action(open_audit(self.tenant), act)

    async def call_in_process(self, target: Any, payload: Any = None) -> Any:
        """Call a function by name in a child process, with this payload or else the job's.

        ``target`` comes from ``rota.worker.processes.ProcessCall``. A cancelled call kills the
        child if it does not end within a second.
        """
        facilities = self._facilities
        if facilities is None or facilities.open_processes is None:
            raise InvalidInputError("this context was made without a worker", {"field": "target"})
        payload = self.payload if payload is None else payload
        facilities.processes = facilities.processes or facilities.open_processes()
        return await facilities.processes.call(target, self, payload)

    async def once(
        self,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
        wait_for: timedelta | None = None,
    ) -> Any:
        """Perform the action effectively once for this tenant and key, and return its result.

        See ``rota.policy.Ledger.once``.
        """
        return await self._open_ledger().once(
            self.tenant, key, action, on_crash=on_crash, wait_for=wait_for
        )

    async def once_within(
        self,
        connection: Any,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
    ) -> Any:
        """The same within the handler's own transaction: committed with it, or not at all.

        See ``rota.policy.Ledger.once_within``.
        """
        return await self._open_ledger().once_within(
            connection, self.tenant, key, action, on_crash=on_crash
        )

    def _open_ledger(self) -> Ledger:
        open_ledger = None if self._facilities is None else self._facilities.open_ledger
        if open_ledger is None:
            raise InvalidInputError("this context was made without a ledger", {"field": "ledger"})
        return open_ledger()


CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Runs the next middleware, or the handler. It returns or raises what that returns or raises."""

Middleware: TypeAlias = Callable[[Context, CallNext], Awaitable[Any]]
"""An ``async`` callable around a run: ``return await call_next()`` runs the handler.

An exception of the handler passes through it as it is. What the middleware returns or raises
decides about the attempt. Its context variables are seen by the handler.
"""

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens what handlers share, such as a connection pool; its value is ``Context.state``."""

Answer = Snooze | Discard | None
AsyncWork = Callable[[Context], Awaitable[object]]


class _NotDoneError(Exception):
    """The handler returned a Snooze or a Discard: its effect did not happen."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def effectively_once(work: AsyncWork) -> Callable[[Context], Awaitable[Answer]]:
    """A handler that does not run when the effect of its job has happened already.

    The job is then settled as done: a second attempt, made because the worker died before it could
    settle the first, does nothing. ``Context.effect_key`` identifies the effect.
    """

    @wraps(work)
    async def guarded(context: Context) -> Answer:
        async def act() -> None:
            answer = await work(context)
            if isinstance(answer, Snooze | Discard):
                raise _NotDoneError(answer)

        try:
            await context.once(context.effect_key, act)
        except _NotDoneError as not_done:
            return not_done.answer
        return None

    return guarded
