"""Attempts, what came of them, and how the parts of a worker pass them on.

The producer leases jobs, the executor runs them, and the completer writes the outcomes. Attempts go
from one to the next. What an earlier part must know about a later one, such as free room, it reads
from the ``Flow`` they share.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import NamedTuple

import msgspec

from rota.errors import ResultTooLargeError, describe_error
from rota.jobs import (
    Change,
    Discarded,
    Failed,
    Interrupted,
    Job,
    Outcome,
    Snoozed,
    Succeeded,
    shorten_report,
)
from rota.policy.gates import Closed
from rota.stores.protocol import HeldLease
from rota.worker.context import CancelReason, Context, Discard, Reply, Snooze
from rota.worker.job_log import LogCapture
from rota.worker.registry import Encode

LARGEST_RESULT = 64 * 1024
"""The number of bytes of JSON that are kept of a result."""

DISCARDED = "Discarded"

_OURS = ("rota.worker.", "rota.task")


_NOT_YET = datetime.max.replace(tzinfo=UTC)


class Stage(Enum):
    """How far an attempt has come."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Attempt(msgspec.Struct, eq=False):
    """One leased job.

    ``lease_until`` is how long the lease lasts, as far as is known. ``cancel_reason`` says why the
    attempt is cut short; ``is_interrupted``: its handler is running and was cancelled.
    """

    job: Job
    lease_until: datetime
    stage: Stage = Stage.WAITING
    started_at: datetime = _NOT_YET
    ended_at: datetime = _NOT_YET
    context: Context | None = None
    cancel_reason: CancelReason | None = None
    cancel_detail: str = ""
    is_interrupted: bool = False
    log: LogCapture | None = None

    def __repr__(self) -> str:
        return f"<Attempt at job {self.job.id}, {self.stage.value}>"

    @property
    def lease(self) -> HeldLease:
        return HeldLease(self.job.id, self.job.last_token)

    @property
    def can_be_cancelled(self) -> bool:
        return self.cancel_reason is None and self.stage is not Stage.ENDED


class Result(NamedTuple):
    """What came of an attempt. ``Closed``: a gate held the job back."""

    outcome: Outcome | Closed
    error_code: str = ""


HANDED_BACK = Result(Interrupted())
_SUCCEEDED = Result(Succeeded())


def classify(returned: object, encode: Encode | None = None) -> Result:
    """What a handler's return value means: a Snooze, a Discard, or a result to keep as JSON."""
    if isinstance(returned, Reply):
        if isinstance(returned, Snooze):
            return Result(Snoozed(returned.delay))
        if isinstance(returned, Discard):
            return Result(Discarded(returned.reason), DISCARDED)
    if encode is None:
        return _SUCCEEDED
    result = encode(returned)
    if result is None:
        return _SUCCEEDED
    if len(result) > LARGEST_RESULT:
        raise ResultTooLargeError(len(result), LARGEST_RESULT)
    return Result(Succeeded(result))


def failed(error: BaseException) -> Result:
    """What an exception of the handler means."""
    outcome = Failed(describe_error(error), traceback=format_traceback(error))
    return Result(outcome, type(error).__name__)


def format_traceback(error: BaseException) -> str | None:
    """The traceback as Python prints it, without the frames of Rota at its start; shortened."""
    frames = _skip_worker(error.__traceback__)
    try:
        report = traceback.TracebackException(type(error), error, frames)
        return shorten_report("".join(report.format()))
    except Exception:  # noqa: BLE001 - the code of a handler's error may raise anything
        return None


def _skip_worker(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first that is not Rota's; all of them if there is none."""
    first = frames
    while first is not None and first.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        first = first.tb_next
    return frames if first is None else first


class Settlement(msgspec.Struct, gc=False, eq=False):
    """An ended attempt whose change is to be written.

    ``is_doubtful``: the change may have been written, but the answer was lost. ``is_stale``: it was
    not, because another worker has the job.
    """

    attempt: Attempt
    result: Result
    change: Change | None = None
    is_doubtful: bool = False
    is_stale: bool = False


class Flow:
    """The attempts of one run, from their lease until their outcome is written.

    ``held`` are all of them, ``ready`` those that wait for a slot, ``ended`` those that wait to be
    written. ``changed`` is set whenever an attempt ends or is written, ``called`` when there may be
    a job to lease, ``alarm`` when the run should look whether to go on. ``is_limited``: limits hold
    jobs back, so that each end may make room for another.
    """

    def __init__(self) -> None:
        self.held: set[Attempt] = set()
        self.ready: deque[Attempt] = deque()
        self.ended: list[Settlement] = []
        self.running_count = 0
        self.finished_count = 0
        self.is_limited = False
        self.has_ended = asyncio.Event()
        self.changed = asyncio.Event()
        self.called = asyncio.Event()
        self.alarm = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self.ready) or self.running_count > 0

    def end(self, attempt: Attempt, result: Result, now: datetime) -> None:
        """The attempt has ended: pass it to the completer."""
        attempt.stage, attempt.ended_at = Stage.ENDED, now
        self.ended.append(Settlement(attempt, result))
        self.finished_count += 1
        self.has_ended.set()
        self.changed.set()

    def drop(self, attempt: Attempt, now: datetime) -> None:
        """The lease is lost: write nothing."""
        attempt.stage, attempt.ended_at = Stage.ENDED, now
        self.held.discard(attempt)
        self.finished_count += 1
        self.changed.set()

    def release(self, attempts: Iterable[Attempt]) -> None:
        """The outcomes of these are written."""
        self.held.difference_update(attempts)
        self.changed.set()
        if self.is_limited:
            self.called.set()

    async def wait_while(self, condition: Callable[[], bool]) -> None:
        """Return when the condition no longer holds; it is checked after each change."""
        while condition():
            self.changed.clear()
            await self.changed.wait()
