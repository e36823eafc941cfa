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

    ``reopens_at`` is the first instant at which it may, as far as the gate can tell. A gate that
    cannot tell says so with ``is_recheck``: then it is merely the instant to ask again. Either way
    it is later than the instant that was asked about. ``reason`` is kept with the job, for people.
    """

    reopens_at: Instant
    reason: str
    is_recheck: bool = False


Verdict: TypeAlias = Open | Closed

OPEN = Open()


class Gate(Protocol):
    """Something that may hold a job back for a while.

    A value: it waits for nothing, reads no clock and gives the same verdict for the same arguments,
    so that it may be asked about any instant, also one to come.
    """

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Whether the job may start at ``now``; ``notifies`` says that its handler tells people."""
        ...


@runtime_checkable
class Refreshed(Protocol):
    """A gate that wants to look somewhere before it is asked about the next jobs."""

    async def refresh(self, now: datetime) -> object:
        """Look, if it is time to. What it raises is passed on, and the last look still holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """``gate`` for jobs of these tenants, queues and kinds; None means all. Others pass."""

    gate: Gate
    tenants: Collection[str] | None = None
    queues: Collection[str] | None = None
    kinds: Collection[str] | None = None

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """What the gate says, if it concerns the job."""
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

    The first ``exact_count`` of them, as each worker counts, start when the gates open: a few jobs
    need no spreading. The others follow within ``over_for``, and no job waits for longer than it
    was held back anyway. ``over_for=timedelta(0)`` turns spreading off.
    """

    over_for: timedelta = timedelta(minutes=5)
    exact_count: int = 10

    def __post_init__(self) -> None:
        if require(timedelta, self.over_for, "over_for", "a timedelta") < _NO_TIME:
            raise refuse("over_for", f"must not be negative, got {self.over_for}")
        if require(int, self.exact_count, "exact_count", "an integer") < 0:
            raise refuse("exact_count", f"must not be negative, got {self.exact_count}")


def share_of(job_id: JobId) -> float:
    """A number from 0 to below 1 that only the id decides, and that is even over many ids."""
    return int.from_bytes(sha256(job_id.encode()).digest()[:8]) / _DIVISOR


def spread_out(
    gate: Gate, job: Job, held: Closed, now: datetime, *, notifies: bool, over_for: timedelta
) -> Closed:
    """The verdict, with an instant of the job's own, at or after the reopening and open as well.

    It is the same whenever and wherever it is asked for with the same arguments. Where the gate
    closes again too soon, the jobs move closer to the reopening, which is the last resort.
    """
    room = min(over_for, held.reopens_at - now) * share_of(job.id)
    for _ in range(_ATTEMPT_LIMIT):
        at = held.reopens_at + room
        if isinstance(gate.judge(job, at, notifies=notifies), Open):
            return Closed(at, held.reason)
        room /= 4
    return held
