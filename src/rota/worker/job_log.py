"""The log of an attempt: what its handler logs, kept with the attempt.

``Context.log`` and the loggers of the standard library both count. A context variable says which
attempt a record belongs to, so threads and tasks that the handler starts count as well.
"""

import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeAlias

import msgspec

from rota.clock.protocol import Clock
from rota.errors import describe_error
from rota.jobs import Job

LARGEST_LOG = 16 * 1024
"""The number of bytes of a log that are kept; a longer one is cut in the middle."""

JOB_LOGGER = "rota.job"
"""The logger behind ``Context.log``."""

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


def make_job_logger(job: Job, attempt: int) -> JobLogger:
    """The logger of one attempt at a job."""
    fields = {
        "job_id": job.id,
        "kind": job.kind,
        "queue": job.queue,
        "tenant": job.tenant,
        "attempt": attempt,
    }
    return JobLogger(_job_logger, fields)


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
