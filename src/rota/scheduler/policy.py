"""How a scheduler behaves: the two editions as values, the settings, and what its parts share."""

from datetime import timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError
from rota.events import EventEmitter
from rota.stores.protocol import DocumentStore
from rota.triggers.cron import Dialect
from rota.triggers.zone import Fold

Override = Literal["keep_history", "reset"]
Removed = Literal["silent", "report"]


class SchedulerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The choices on which the two editions disagree. Build your own to mix them.

    ``repeated_hour``: a minute that the wall clock shows twice runs both times, or only the first.
    ``reinitialize``: ``initialize()`` while running is refused, or reconciles the tasks again.
    ``override``: a changed task keeps its history, or starts as a new task.
    ``removed``: a task that is no longer registered is removed silently, or reported as orphaned.
    ``dialect``: which blanks separate the fields of an expression.
    """

    repeated_hour: Fold = "both"
    reinitialize: Literal["refuse", "allow"] = "refuse"
    override: Override = "keep_history"
    removed: Removed = "silent"
    dialect: Dialect = "posix"


DECLARATIVE = SchedulerPolicy()
"""Specification 1."""

POLLING = SchedulerPolicy(
    repeated_hour="first",
    reinitialize="allow",
    override="reset",
    removed="report",
    dialect="posix-multiline",
)
"""Specification 2, the older edition."""

_DURATIONS = (
    "run_timeout",
    "stall_warning_after",
    "peers_checked_every",
    "peer_silent_for",
    "poll_at_least_every",
)

POLICIES = {"declarative": DECLARATIVE, "polling": POLLING}
"""The two editions by name."""


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may tune. The defaults limit nothing.

    ``max_concurrent_runs`` and ``run_timeout`` are off unless given. A callback that blocks the
    event loop for longer than ``stall_warning_after`` is named in a warning.
    ``peers_checked_every`` and ``peer_silent_for`` decide how soon the tasks of a crashed instance
    are taken over. ``claim_batch`` is the number of due tasks claimed in one write. With
    ``poll_at_least_every``, polls are reported that often as a sign of life, even if no task is
    due; otherwise only those that evaluate tasks. The last ``kept_runs`` runs of each task are kept
    for people; 0 keeps none.
    """

    max_concurrent_runs: int | None = None
    run_timeout: timedelta | None = None
    stall_warning_after: timedelta | None = timedelta(seconds=1)
    peers_checked_every: timedelta = timedelta(seconds=10)
    peer_silent_for: timedelta = timedelta(seconds=30)
    claim_batch: int = 2_000
    poll_at_least_every: timedelta | None = None
    kept_runs: int = 50

    def __post_init__(self) -> None:
        if self.max_concurrent_runs is not None and self.max_concurrent_runs < 1:
            raise _refused("max_concurrent_runs", self.max_concurrent_runs, "must be at least 1")
        if self.claim_batch < 1:
            raise _refused("claim_batch", self.claim_batch, "must be at least 1")
        if self.kept_runs < 0:
            raise _refused("kept_runs", self.kept_runs, "must not be negative")
        for field in _DURATIONS:
            duration = getattr(self, field)
            if duration is not None and duration <= timedelta():
                raise _refused(field, duration, "must be positive")


def _refused(field: str, value: object, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "value": value})


class SchedulerContext(NamedTuple):
    """The collaborators that all parts of one scheduler share."""

    store: DocumentStore
    clock: Clock
    zone: tzinfo
    policy: SchedulerPolicy
    settings: SchedulerSettings
    events: EventEmitter
