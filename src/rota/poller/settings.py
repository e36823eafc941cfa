"""The options of a poller, and how it calls its hooks."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, TypeAlias, TypedDict

from rota.clock.protocol import Clock, later
from rota.clock.system import SystemClock
from rota.errors import invalid
from rota.poller.protocol import PolledJob
from rota.poller.report import Report
from rota.stores.protocol import DocumentStore

Hook: TypeAlias = Callable[[], object]
DocumentHook: TypeAlias = Callable[[PolledJob], object]
ErrorHook: TypeAlias = Callable[[BaseException], object]

_NO_TIME = timedelta(0)
_TEN_MINUTES = timedelta(minutes=10)
_SHORTEST_LOCK = timedelta(milliseconds=1)
_HOOKS = ("on_document", "on_start", "on_stop", "on_idle", "on_error")
_DELAYS = ("next_delay", "reprocess_delay", "idle_delay", "lock_duration")

logger = logging.getLogger("rota.poller")


class PollerOptions(TypedDict, total=False):
    """The options of a Poller. A hook is a function or a coroutine function.

    - ``on_document`` gets each due job, locked. ``on_start`` and ``on_stop`` are called once per
      run, ``on_idle`` once each time the poller runs out of documents. ``on_error`` gets every
      error; without it, errors are logged.
    - ``next_delay``: the wait before each document. ``idle_delay``: the wait when there was none.
      ``reprocess_delay``: the least time between two occurrences of a document.
    - ``lock_duration``: how long a document that is being processed is locked.
    - ``clock``: the source of time. ``zone``: for intervals whose documents have none.
    - ``reports_to``: a store of Rota whose pages, metrics and ``why`` show the poller. The jobs of
      a store are reported to that store anyway.
    """

    on_document: DocumentHook | None
    on_start: Hook | None
    on_stop: Hook | None
    on_idle: Hook | None
    on_error: ErrorHook | None
    next_delay: timedelta
    reprocess_delay: timedelta
    idle_delay: timedelta
    lock_duration: timedelta
    clock: Clock
    zone: tzinfo
    reports_to: DocumentStore | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSettings:
    """The validated options, with defaults for those that were left out."""

    on_document: DocumentHook | None = None
    on_start: Hook | None = None
    on_stop: Hook | None = None
    on_idle: Hook | None = None
    on_error: ErrorHook | None = None
    next_delay: timedelta = _NO_TIME
    reprocess_delay: timedelta = _NO_TIME
    idle_delay: timedelta = _NO_TIME
    lock_duration: timedelta = _TEN_MINUTES
    clock: Clock = field(default_factory=SystemClock)
    zone: tzinfo = UTC
    reports_to: DocumentStore | None = None

    def __post_init__(self) -> None:
        for name in _HOOKS:
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise invalid(name, f"must be callable, got {hook!r:.40}")
        for name in _DELAYS:
            _check_delay(name, getattr(self, name))
        if self.lock_duration < _SHORTEST_LOCK:
            raise invalid("lock_duration", "must be a millisecond or longer")
        if not isinstance(self.zone, tzinfo):
            raise invalid("zone", f"must be a tzinfo, got {self.zone!r:.40}")
        if self.reports_to is not None and not hasattr(self.reports_to, "write_each"):
            reason = (
                f"must be a store of Rota, such as open_store opens, got {self.reports_to!r:.40}"
            )
            raise invalid("reports_to", reason)

    def lock_until(self, now: datetime) -> datetime:
        return later(now, self.lock_duration)


def _check_delay(name: str, value: object) -> None:
    if not isinstance(value, timedelta):
        raise invalid(name, f"must be a timedelta, got {value!r:.40}")
    if value < _NO_TIME:
        raise invalid(name, f"must not be negative, got {value}")


class Hooks:
    """Calls the hooks of one run. A missing hook does nothing; a plain function is called as it is.

    An exception of a hook is raised to the caller, except that of ``on_error``, which is logged.
    """

    def __init__(self, settings: PollerSettings, report: Report) -> None:
        self.report = report
        self._settings = settings

    @property
    def are_calling(self) -> bool:
        """Whether the caller is one of these hooks, or a task started by one that still runs."""
        call = _current.get()
        while call is not None and (call.is_over or call.hooks is not self):
            call = call.outer
        return call is not None

    async def error(self, error: BaseException) -> None:
        """Report an error. Without a hook it is logged, so that it is never lost."""
        if self._settings.on_error is None:
            logger.error("%s", error, exc_info=error)
            return
        try:
            await self.call(self._settings.on_error, error)
        except Exception:  # the loop continues, whatever it is
            logger.exception("on_error failed while it reported %r", error)

    async def call(self, hook: Callable[..., object] | None, *arguments: object) -> None:
        """Call a hook of this run, if there is one."""
        if hook is None:
            return
        call = _Call(self, _current.get())
        _current.set(call)
        try:
            await carry_out(partial(hook, *arguments))
        finally:
            _current.set(call.outer)
            call.is_over = True


class _Call:
    """A running hook. The tasks that it starts inherit this, and may outlive it."""

    def __init__(self, hooks: Hooks, outer: "_Call | None") -> None:
        self.hooks = hooks
        self.outer = outer
        self.is_over = False


_current: ContextVar[_Call | None] = ContextVar("rota_poller_hook", default=None)


async def carry_out(work: Callable[[], Awaitable[Any] | object]) -> Any:
    """The result of ``work``, awaited if necessary. Every failure is raised as an Exception.

    This includes a CancelledError when the poller itself is not being cancelled, and a
    BaseException of the work's own. Only exceptions that end the program pass through.
    """
    try:
        result = work()
        return await result if inspect.isawaitable(result) else result
    except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("It was cancelled, but the poller was not") from error
    except BaseException as error:
        raise RuntimeError(f"It raised {error!r:.200}, which is not an Exception") from error
