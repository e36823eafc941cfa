"""Gates decide whether a job may run now and, if not, when to ask again.

Gates are values that compose. They read no clock and use no randomness.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from rota.jobs.record import Instant, Job, JobId
from rota.policy.windows import refuse, require


class Open(msgspec.Struct, frozen=True, gc=False):
    """The job may run now."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The job may not run now.

    ``reopens_at`` is the first instant at which it may, as far as the gate knows. With
    ``is_recheck`` the gate does not know, and it is the instant to ask again. It is always later
    than the instant in question. ``reason`` is stored with the job, for people.
    """

    reopens_at: Instant
    reason: str
    is_recheck: bool = False


Verdict: TypeAlias = Open | Closed

OPEN = Open()


class Gate(Protocol):
    """Something that may hold a job back for a while.

    A gate is a value: it does not wait, reads no clock and gives the same verdict for the same
    arguments, so it can be asked about any instant, also a future one.
    """

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Whether the job may start at ``now``. ``notifies``: its handler notifies people."""
        ...


@runtime_checkable
class Refreshed(Protocol):
    """A gate that reads its state before it judges the next jobs."""

    async def refresh(self, now: datetime) -> object:
        """Read the state if it is time to. On an error the last state still applies."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """``gate`` for jobs of these tenants, queues and kinds; None means all. Other jobs pass."""

    gate: Gate
    tenants: Collection[str] | None = None
    queues: Collection[str] | None = None
    kinds: Collection[str] | None = None

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """The gate's verdict, if it applies to the job."""
        concerned = (
            (self.tenants is None or job.tenant in self.tenants)
            and (self.queues is None or job.queue in self.queues)
            and (self.kinds is None or job.kind in self.kinds)
        )
        return self.gate.judge(job, now, notifies=notifies) if concerned else OPEN


_NO_TIME = timedelta(0)
_ATTEMPT_LIMIT = 8
_DIVISOR = 1 << 64


@dataclass(frozen=True, slots=True)
class Spread:
    """How jobs that wait for the same instant are spread after it.

    The first ``exact_count`` jobs, counted per worker, start when the gates open. The others follow
    within ``over_for``, and no job waits longer than it was held back anyway.
    ``over_for=timedelta(0)`` turns spreading off.
    """

    over_for: timedelta = timedelta(minutes=5)
    exact_count: int = 10

    def __post_init__(self) -> None:
        if require(timedelta, self.over_for, "over_for", "a timedelta") < _NO_TIME:
            raise refuse("over_for", f"must not be negative, got {self.over_for}")
        if require(int, self.exact_count, "exact_count", "an integer") < 0:
            raise refuse("exact_count", f"must not be negative, got {self.exact_count}")


def share_of(job_id: JobId) -> float:
    """A number from 0 to below 1 derived from the id, uniform over many ids."""
    return int.from_bytes(sha256(job_id.encode()).digest()[:8]) / _DIVISOR


def spread_out(
    gate: Gate, job: Job, held: Closed, now: datetime, *, notifies: bool, over_for: timedelta
) -> Closed:
    """The verdict with the job's own instant, at or after the reopening, and open as well.

    The same arguments always give the same instant. When the gate closes again too soon, the jobs
    move closer to the reopening, which is the last resort.
    """
    room = min(over_for, held.reopens_at - now) * share_of(job.id)
    for _ in range(_ATTEMPT_LIMIT):
        at = held.reopens_at + room
        if isinstance(gate.judge(job, at, notifies=notifies), Open):
            return Closed(at, held.reason)
        room /= 4
    return held
