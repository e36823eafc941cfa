"""Counters and timings derived from events, under the names of specification 3."""

from collections.abc import Callable
from threading import Lock
from typing import Literal, NamedTuple, get_args

import msgspec

from rota.events import (
    Event,
    EventEmitter,
    JobDeferred,
    JobFailed,
    JobSettled,
    JobsLeased,
    JobStalled,
)

OTHER = "other"


class BoundedLabel:
    """Keeps the first ``limit`` distinct values; all others become ``other``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return OTHER
        self._known[value] = value
        return value


Counter = Literal[
    "jobs.picked", "jobs.succeeded", "jobs.failed", "jobs.deferred", "jobs.dlq", "jobs.stalled"
]
TimingName = Literal["handler.duration_ms", "lease.wait_ms"]

COUNTERS: tuple[Counter, ...] = get_args(Counter)
TIMINGS: tuple[TimingName, ...] = get_args(TimingName)

NO_HANDLER = "NoHandler"
"""The error code of an attempt without a handler, which has no duration."""

_SUCCEEDED: tuple[Counter, ...] = ("jobs.succeeded",)
_FAILED: tuple[Counter, ...] = ("jobs.failed",)
_FAILED_LAST: tuple[Counter, ...] = ("jobs.failed", "jobs.dlq")
_DEFERRED: tuple[Counter, ...] = ("jobs.deferred",)
_STALLED: tuple[Counter, ...] = ("jobs.stalled",)
_STALLED_LAST: tuple[Counter, ...] = ("jobs.stalled", "jobs.dlq")
_DEAD = "dlq"


def counted_by(event: Event) -> tuple[Counter, ...]:
    """The counters that the event increments.

    ``JobsLeased`` covers many jobs and is not counted here.

    An attempt ends in one of succeeded, failed, deferred and stalled, or in none when it was
    snoozed or released. The last failed attempt of a job also counts as dlq.
    """
    if isinstance(event, JobFailed):
        return _FAILED_LAST if event.state == _DEAD else _FAILED
    if isinstance(event, JobSettled):
        return _SUCCEEDED if event.outcome == "succeeded" else ()
    if isinstance(event, JobDeferred):
        return _DEFERRED
    if isinstance(event, JobStalled):
        return _STALLED_LAST if event.state == _DEAD else _STALLED
    return ()


class Durations(NamedTuple):
    """The durations of an attempt in milliseconds; None for a handler that was never called."""

    handler_ms: float | None
    wait_ms: float


def timed_by(event: Event) -> Durations | None:
    """The durations of an ended attempt."""
    if not isinstance(event, JobSettled):
        return None
    is_uncalled = isinstance(event, JobFailed) and event.err_code == NO_HANDLER
    return Durations(None if is_uncalled else event.duration_ms, event.wait_ms)


class Timing(msgspec.Struct, frozen=True):
    """Durations in milliseconds: count, sum and maximum."""

    count: int = 0
    sum_ms: float = 0.0
    longest_ms: float = 0.0

    def with_one_more(self, milliseconds: float) -> "Timing":
        longest = max(self.longest_ms, milliseconds)
        return Timing(self.count + 1, self.sum_ms + milliseconds, longest)


class Counters:
    """Specification 3's counters and timings, for programs without Prometheus.

    Call ``counters.follow(worker.events)`` for any number of workers, in any threads; then read
    ``counters["jobs.succeeded"]`` and ``counters.timing("lease.wait_ms")``.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Counter, int] = dict.fromkeys(COUNTERS, 0)
        self._timings: dict[TimingName, Timing] = dict.fromkeys(TIMINGS, Timing())

    def follow(self, events: EventEmitter) -> Callable[[], None]:
        """Count events from now on. The returned function stops counting."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            if isinstance(event, JobsLeased):
                self._counts["jobs.picked"] += event.count
            for name in counted_by(event):
                self._counts[name] += 1
            timed = timed_by(event)
            if timed is None:
                return
            self._add("lease.wait_ms", timed.wait_ms)
            if timed.handler_ms is not None:
                self._add("handler.duration_ms", timed.handler_ms)

    def __getitem__(self, name: Counter) -> int:
        return self._counts[name]

    def timing(self, name: TimingName) -> Timing:
        return self._timings[name]

    def counts(self) -> dict[Counter, int]:
        """All counters, as of one moment."""
        with self._lock:
            return dict(self._counts)

    def _add(self, name: TimingName, milliseconds: float) -> None:
        self._timings[name] = self._timings[name].with_one_more(milliseconds)
