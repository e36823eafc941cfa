"""What the two editions of the declarative scheduler do differently, as values."""

from datetime import timedelta
from typing import Literal

import msgspec

from rota.errors import InvalidInputError
from rota.triggers.parse import Dialect
from rota.triggers.zone import Fold


class SchedulerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The choices on which the two editions disagree. Build one of your own to mix them.

    ``repeated_hour``: a minute the wall clock shows twice runs both times, or only the first.
    ``reinitialize``: ``initialize()`` while running is refused, or brings the tasks in line anew.
    ``override``: a changed task keeps its history, or starts as if it were new.
    ``removed``: a task that is no longer registered is removed silently, or reported as orphaned.
    ``dialect``: which blanks separate the fields of an expression.
    """

    repeated_hour: Fold = "both"
    reinitialize: Literal["refuse", "allow"] = "refuse"
    override: Literal["keep_history", "reset"] = "keep_history"
    removed: Literal["silent", "report"] = "silent"
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


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may tune. The defaults limit nothing.

    ``max_concurrent_runs`` and ``run_timeout`` are off unless given. ``stall_warning_after``: a
    callback that keeps the event loop busy for longer is named in a warning.
    ``peers_checked_every`` and ``peer_silent_for``: how soon the tasks of a crashed instance are
    taken over. ``claim_batch``: how many due tasks are claimed in one write.
    """

    max_concurrent_runs: int | None = None
    run_timeout: timedelta | None = None
    stall_warning_after: timedelta | None = timedelta(seconds=1)
    peers_checked_every: timedelta = timedelta(seconds=10)
    peer_silent_for: timedelta = timedelta(seconds=30)
    claim_batch: int = 2_000

    def __post_init__(self) -> None:
        if self.max_concurrent_runs is not None and self.max_concurrent_runs < 1:
            raise _refused("max_concurrent_runs", self.max_concurrent_runs, "must be at least 1")
        if self.claim_batch < 1:
            raise _refused("claim_batch", self.claim_batch, "must be at least 1")
        for field in (
            "run_timeout",
            "stall_warning_after",
            "peers_checked_every",
            "peer_silent_for",
        ):
            duration = getattr(self, field)
            if duration is not None and duration <= timedelta():
                raise _refused(field, duration, "must be positive")


def _refused(field: str, value: object, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "value": value})
