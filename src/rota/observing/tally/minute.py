"""What is counted of one tenant in one minute."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from rota.events import Event
from rota.observing.counters import Counter, counted_by, timed_by
from rota.observing.tally.durations import DurationCount, DurationTally

NO_DURATIONS = DurationTally()

_FIELDS: Mapping[Counter, str] = {
    "jobs.succeeded": "succeeded",
    "jobs.failed": "failed",
    "jobs.dlq": "dead",
    "jobs.deferred": "deferred",
    "jobs.stalled": "stalled",
}


class DepthSample(msgspec.Struct, frozen=True, array_like=True, order=True):
    """How many jobs of a tenant were due, and how many ran, when somebody looked."""

    due: int = 0
    running: int = 0


class MinuteTally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many attempts of a tenant's jobs ended how, in the minute that begins ``at``.

    Each is one of ``succeeded``, ``failed``, ``deferred`` and ``stalled``; those that were a job's
    last are ``dead`` besides. ``handler`` is how long handlers took, ``wait`` how long jobs had
    been due when they were leased. ``depth`` is the highest that was seen when somebody looked.
    """

    at: datetime
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    deferred: int = 0
    stalled: int = 0
    handler: DurationTally = NO_DURATIONS
    wait: DurationTally = NO_DURATIONS
    depth: DepthSample | None = None

    def __add__(self, other: "MinuteTally") -> "MinuteTally":
        """Both together; ``at`` is the earlier's, so that minutes add up to longer times."""
        return MinuteTally(
            at=min(self.at, other.at),
            succeeded=self.succeeded + other.succeeded,
            failed=self.failed + other.failed,
            dead=self.dead + other.dead,
            deferred=self.deferred + other.deferred,
            stalled=self.stalled + other.stalled,
            handler=self.handler + other.handler,
            wait=self.wait + other.wait,
            depth=max_depth(self.depth, other.depth),
        )


class MinuteCount:
    """A tally while it is being counted."""

    __slots__ = ("_counts", "_depth", "_handler", "_wait")

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_FIELDS.values(), 0)
        self._handler = DurationCount()
        self._wait = DurationCount()
        self._depth: DepthSample | None = None

    def note_depth(self, depth: DepthSample) -> None:
        self._depth = max_depth(self._depth, depth)

    def add(self, event: Event) -> None:
        for name in counted_by(event):
            self._counts[_FIELDS[name]] += 1
        timed = timed_by(event)
        if timed is None:
            return
        self._wait.add(timed.wait_ms)
        if timed.handler_ms is not None:
            self._handler.add(timed.handler_ms)

    def freeze(self, at: datetime) -> MinuteTally:
        handler, wait = self._handler.freeze(), self._wait.freeze()
        return MinuteTally(at=at, handler=handler, wait=wait, depth=self._depth, **self._counts)


def max_depth(one: DepthSample | None, other: DepthSample | None) -> DepthSample | None:
    """The one with more jobs due; of several who look in the same minute, none counts twice."""
    return max((it for it in (one, other) if it is not None), default=None)
