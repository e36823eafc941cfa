"""Gates decide whether a job may run now and, if not, when to ask again.

Gates are values that compose. They read no clock and use no randomness.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from rota.clock.protocol import later, to_utc
from rota.errors import invalid
from rota.jobs.record import Instant, Job, JobId

RECHECK_FOR = timedelta(minutes=5)
"""How long a job waits for a gate that does not know when it opens."""

LONGEST_REASON = 500

STEP_LIMIT = 100
"""How often the gates are asked while searching for an instant that passes all of them."""

_REASONS_KEPT = 3
_NO_TIME = timedelta(0)
_ATTEMPT_LIMIT = 8
_DIVISOR = 1 << 64

Kind = TypeVar("Kind")


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


class Only(msgspec.Struct, frozen=True, kw_only=True):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Closed to every job from ``from_at`` until just before ``until``.

    Without ``from_at`` it has always been closed. Without ``until`` it lasts until it is cleared:
    jobs recheck every ``RECHECK_FOR``. ``reason``, ``who`` and ``set_at`` are for people.
    """

    until: datetime | None = None
    reason: str = ""
    who: str = ""
    from_at: datetime | None = None
    set_at: datetime | None = None

    def __post_init__(self) -> None:
        for field in ("from_at", "until", "set_at"):
            object.__setattr__(self, field, _read_instant(getattr(self, field), field))
        for field in ("reason", "who"):
            _check_text(getattr(self, field), field)
        if self.from_at is not None and self.until is not None and self.until <= self.from_at:
            raise invalid("until", "must be later than from_at")

    @property
    def stored_reason(self) -> str:
        """The reason stored with a job that is held back."""
        return f"maintenance: {self.reason}" if self.reason else "maintenance"

    def is_over(self, now: datetime) -> bool:
        return self.until is not None and self.until <= now

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        """Closed during the window, for every job."""
        if self.is_over(now) or (self.from_at is not None and now < self.from_at):
            return OPEN
        if self.until is not None:
            return Closed(self.until, self.stored_reason)
        return Closed(later(now, RECHECK_FOR), self.stored_reason, is_recheck=True)


def _read_instant(value: datetime | None, field: str) -> datetime | None:
    if value is None:
        return None
    try:
        return to_utc(require(datetime, value, field, "an instant"), field)
    except OverflowError as error:
        raise invalid(field, "must be an instant of the calendar") from error


def _check_text(value: object, field: str) -> None:
    text = require(str, value, field, "a text")
    if len(text) > LONGEST_REASON:
        raise invalid(field, f"must have at most {LONGEST_REASON} characters, got {len(text)}")
    if not text.isprintable():
        raise invalid(field, "must not hold control characters")


@dataclass(frozen=True, slots=True)
class Chain:
    """A gate that is open when all its gates are open, and reopens at the first such instant.

    A chain within a chain equals its gates.
    """

    gates: tuple[Gate, ...]

    def __init__(self, gates: Iterable[Gate]) -> None:
        links = (each.gates if isinstance(each, Chain) else (each,) for each in gates)
        object.__setattr__(self, "gates", tuple(chain.from_iterable(links)))

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """The verdict of ``first_open``."""
        return first_open(self.gates, job, now, notifies=notifies)


def first_open(gates: Sequence[Gate], job: Job, now: datetime, *, notifies: bool) -> Verdict:
    """Open when all gates are; else closed until the first instant that passes all of them.

    Every gate judges every instant that another gate names, until none objects. A gate that cannot
    tell when it opens is asked once: a later instant at which only such gates are closed is a
    recheck. Gates that never open together end the search after ``STEP_LIMIT`` steps with a recheck
    at the instant reached. The reason names the gates in the order in which they objected.
    """
    at = now = to_utc(now, "now")
    reasons: dict[str, None] = {}
    for _ in range(STEP_LIMIT):
        closed = _closed_at(gates, job, at, notifies=notifies)
        if not closed:
            return _held_until(at, reasons, is_recheck=False) if reasons else OPEN
        reasons |= dict.fromkeys(each.reason for each in closed)
        named = [each.reopens_at for each in closed if at == now or not each.is_recheck]
        if not named:
            break
        at = max(named)
    return _held_until(at, reasons, is_recheck=True)


def _closed_at(gates: Sequence[Gate], job: Job, at: datetime, *, notifies: bool) -> list[Closed]:
    verdicts = (gate.judge(job, at, notifies=notifies) for gate in gates)
    return [_later_than(at, each) for each in verdicts if isinstance(each, Closed)]


def _later_than(at: datetime, closed: Closed) -> Closed:
    """A closed gate that names a past instant cannot tell when it opens."""
    if to_utc(closed.reopens_at, "reopens_at") > at:
        return closed
    return Closed(later(at, RECHECK_FOR), closed.reason, is_recheck=True)


def _held_until(at: datetime, reasons: Iterable[str], *, is_recheck: bool) -> Closed:
    named = [*reasons]
    shown = named if len(named) <= _REASONS_KEPT else [*named[:_REASONS_KEPT], "…"]
    return Closed(at, "; ".join(shown), is_recheck)


class Spread(msgspec.Struct, frozen=True):
    """How jobs that wait for the same instant are spread after it.

    The first ``exact_count`` jobs, counted per worker, start when the gates open. The others follow
    within ``over_for``, and no job waits longer than it was held back anyway.
    ``over_for=timedelta(0)`` turns spreading off.
    """

    over_for: timedelta = timedelta(minutes=5)
    exact_count: int = 10

    def __post_init__(self) -> None:
        if require(timedelta, self.over_for, "over_for", "a timedelta") < _NO_TIME:
            raise invalid("over_for", f"must not be negative, got {self.over_for}")
        if require(int, self.exact_count, "exact_count", "an integer") < 0:
            raise invalid("exact_count", f"must not be negative, got {self.exact_count}")


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


def require(kind: type[Kind], value: object, field: str, wanted: str) -> Kind:
    """The value, if it is of this type."""
    if not isinstance(value, kind):
        raise invalid(field, f"must be {wanted}, got {value!r:.40}")
    return value
