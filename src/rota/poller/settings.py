"""What can be said about a poller: its hooks, its delays, and what tells it the time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypeAlias, TypedDict

from rota.clock.protocol import Clock, later
from rota.clock.system import SystemClock
from rota.errors import InvalidInputError
from rota.poller.protocol import PolledJob

Hook: TypeAlias = Callable[[], object]
DocumentHook: TypeAlias = Callable[[PolledJob], object]
ErrorHook: TypeAlias = Callable[[BaseException], object]

_NO_TIME = timedelta(0)
_TEN_MINUTES = timedelta(minutes=10)
_SHORTEST_LOCK = timedelta(milliseconds=1)
_HOOKS = ("on_document", "on_start", "on_stop", "on_idle", "on_error")
_DELAYS = ("next_delay", "reprocess_delay", "idle_delay", "lock_duration")


class PollerOptions(TypedDict, total=False):
    """The options of a Poller. A hook is a function or a coroutine function.

    - ``on_document``: is given each job that is due, locked. ``on_start``, ``on_stop``: once per
      run. ``on_idle``: when there is nothing to do, once until there is something again.
      ``on_error``: is given whatever went wrong; left out, it is logged.
    - ``next_delay``: the wait before each document. ``idle_delay``: the wait when there was none.
      ``reprocess_delay``: how long after its last time a document may recur at the earliest.
    - ``lock_duration``: how long nobody else gets a document that is being processed.
    - ``clock``: tells the time. ``zone``: that of intervals whose documents name none.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSettings:
    """The options, checked, and those left out at their defaults."""

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

    def __post_init__(self) -> None:
        for name in _HOOKS:
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise _refusal(name, f"must be callable, got {hook!r:.40}")
        for name in _DELAYS:
            _check_delay(name, getattr(self, name))
        if self.lock_duration < _SHORTEST_LOCK:
            raise _refusal("lock_duration", "must be a millisecond or longer")
        if not isinstance(self.zone, tzinfo):
            raise _refusal("zone", f"must be a tzinfo, got {self.zone!r:.40}")

    def lock_until(self, now: datetime) -> datetime:
        return later(now, self.lock_duration)


def _check_delay(name: str, value: object) -> None:
    if not isinstance(value, timedelta):
        raise _refusal(name, f"must be a timedelta, got {value!r:.40}")
    if value < _NO_TIME:
        raise _refusal(name, f"must not be less than no time, got {value}")


def _refusal(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{name} {reason}", {"field": name, "reason": reason})
