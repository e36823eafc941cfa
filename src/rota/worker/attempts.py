"""Attempts, their logs and outcomes, and how the parts of a worker pass them on.

The producer leases jobs, the executor runs them, and the completer writes the outcomes. Attempts go
from one to the next. What an earlier part must know about a later one, such as free room, it reads
from the ``Flow`` they share.

What a handler logs is kept with its attempt: ``Context.log`` and the loggers of the standard
library both count. A context variable says which attempt a record belongs to, so threads and tasks
that the handler starts count as well.
"""

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rota.clock.protocol import Clock
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
from rota.worker.context import JOB_LOGGER, CancelReason, Context, Discard, Reply, Snooze

LARGEST_RESULT = 64 * 1024
"""The number of bytes of JSON that are kept of a result."""

LARGEST_LOG = 16 * 1024
"""The number of bytes of a log that are kept; a longer one is cut in the middle."""

DISCARDED = "Discarded"

_OURS = ("rota.worker.", "rota.task")


_HALF = LARGEST_LOG // 2
_ROOM_FOR_MARK = 40
_OWN_LOGGERS = "rota."

_MakeRecord: TypeAlias = Callable[..., logging.LogRecord]
_lock = Lock()  # of all captures, and of the hook: it is held for microseconds


class LogCapture(msgspec.Struct, eq=False):
    """The log of one attempt. Any thread may add to it.

    Most attempts log nothing, so an empty one is as small as can be, and a Struct is made fast.
    """

    _clock: Clock
    _lines: "_Lines | None" = None

    def add(self, record: logging.LogRecord) -> None:
        """Keep one record, with its traceback if it has one."""
        at = self._clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.add_text(f"{at} {record.levelname} {record.name}: {_describe(record)}\n")

    def add_text(self, text: str) -> None:
        """Keep text that is formatted already."""
        line = text.encode(errors="replace")
        with _lock:
            if self._lines is None:
                self._lines = _Lines()
            self._lines.add(line)

    def text(self) -> str | None:
        """The log, or None if it is empty."""
        if self._lines is None:
            return None
        with _lock:
            return self._lines.text()


class _Lines:
    """The first and the last 8 KiB of the lines."""

    __slots__ = ("_cut_size", "_head", "_head_size", "_tail", "_tail_size")

    def __init__(self) -> None:
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._head_size = self._tail_size = self._cut_size = 0

    def add(self, line: bytes) -> None:
        if not self._tail and self._head_size + len(line) <= _HALF:
            self._head.append(line)
            self._head_size += len(line)
        else:
            self._tail.append(line)
            self._tail_size += len(line)
            self._cut()

    def text(self) -> str:
        mark = f"… {self._cut_size} bytes cut …\n" if self._cut_size else ""
        head, tail = b"".join(self._head), b"".join(self._tail)
        return head.decode(errors="ignore") + mark + tail.decode(errors="ignore")

    def _cut(self) -> None:
        largest = _HALF - _ROOM_FOR_MARK
        while self._tail_size > largest:
            first = self._tail.popleft()
            size = min(self._tail_size - largest, len(first))
            self._cut_size += size
            self._tail_size -= size
            if size < len(first):
                self._tail.appendleft(first[size:])


current_capture: ContextVar[LogCapture | None] = ContextVar("rota_log_capture", default=None)
"""Where the log of the current context goes; None if it is not captured."""


class _Hook:
    """The factory of log records, which shows each new record to the capture of its context."""

    user_count = 0
    inner: _MakeRecord = logging.LogRecord

    def __call__(self, *arguments: Any, **options: Any) -> logging.LogRecord:
        record = self.inner(*arguments, **options)
        capture = current_capture.get()
        if capture is not None and _is_captured(record.name):
            capture.add(record)
        return record


_hook = _Hook()


@contextmanager
def log_captured() -> Iterator[None]:
    """Let log records reach the captures while the context lasts.

    Records are seen when they are made: the program's handlers, levels and formats stay as they
    are.
    """
    with _lock:
        _hook.user_count += 1
        if _hook.user_count == 1 and logging.getLogRecordFactory() is not _hook:
            _hook.inner = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_hook)
    try:
        yield
    finally:
        with _lock:
            _hook.user_count -= 1
            # A factory that the program has set meanwhile stays.
            if not _hook.user_count and logging.getLogRecordFactory() is _hook:
                logging.setLogRecordFactory(_hook.inner)


def _is_captured(name: str) -> bool:
    """Rota's own loggers report about the worker, not about the job."""
    return name == JOB_LOGGER or not name.startswith(_OWN_LOGGERS)


def _describe(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception as error:  # noqa: BLE001 - a message that cannot be formatted is still logged
        text = f"{record.msg!r:.200} ({describe_error(error)})"
    if record.exc_info and record.exc_info[1] is not None:
        text += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip()
    return text


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


def classify(returned: object, encode: Callable[[Any], bytes | None] | None = None) -> Result:
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


@dataclass(slots=True, eq=False)
class Flow:
    """The attempts of one run, from their lease until their outcome is written.

    ``held`` are all of them, ``ready`` those that wait for a slot, ``ended`` those that wait to be
    written. ``changed`` is set whenever an attempt ends or is written, ``called`` when there may be
    a job to lease, ``alarm`` when the run should look whether to go on. ``is_limited``: limits hold
    jobs back, so that each end may make room for another.
    """

    held: set[Attempt] = field(default_factory=set)
    ready: deque[Attempt] = field(default_factory=deque)
    ended: list[Settlement] = field(default_factory=list)
    running_count: int = 0
    finished_count: int = 0
    is_limited: bool = False
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    alarm: asyncio.Event = field(default_factory=asyncio.Event)

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
