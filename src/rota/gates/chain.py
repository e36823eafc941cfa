"""Several gates at once: a job may run when none of them is closed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from rota.gates.maintenance import recheck_after
from rota.gates.verdict import OPEN, Closed, Gate, Verdict
from rota.jobs.record import Job
from rota.triggers.zone import to_utc

STEP_LIMIT = 100
"""So many times the gates are asked on the way to an instant that suits them all."""

_REASONS_KEPT = 3


@dataclass(frozen=True, slots=True)
class Chain:
    """A gate that is open when all its gates are, and reopens at the first such instant.

    A chain within a chain is the same as its gates.
    """

    gates: tuple[Gate, ...]

    def __init__(self, gates: Iterable[Gate]) -> None:
        links = (each.gates if isinstance(each, Chain) else (each,) for each in gates)
        object.__setattr__(self, "gates", tuple(chain.from_iterable(links)))

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """What ``first_open`` says."""
        return first_open(self.gates, job, now, notifies=notifies)


def first_open(gates: Sequence[Gate], job: Job, now: datetime, *, notifies: bool) -> Verdict:
    """Open when all gates are; else closed until the first instant that passes all of them.

    Every gate is asked about every instant that another one names, until none objects. One that
    cannot tell when it opens is waited for once: a later instant at which only such gates are
    closed is the one to ask again. So it is with gates that between them never open: after
    ``STEP_LIMIT`` steps the instant reached is the one to ask again, for until then at least one
    of them is known to be closed. The reason names the gates in the order they were met.
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
    """A gate that is closed and names an instant that has been cannot tell when it opens."""
    if to_utc(closed.reopens_at, "reopens_at") > at:
        return closed
    return Closed(recheck_after(at), closed.reason, is_recheck=True)


def _held_until(at: datetime, reasons: Iterable[str], *, is_recheck: bool) -> Closed:
    told = [*reasons]
    kept = told if len(told) <= _REASONS_KEPT else [*told[:_REASONS_KEPT], "…"]
    return Closed(at, "; ".join(kept), is_recheck)
