"""What was held back together is not let go in the same second."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from rota.gates.verdict import Closed, Gate, Open
from rota.gates.window import refuse, require
from rota.jobs.record import Job, JobId

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
