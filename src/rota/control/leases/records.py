"""What a worker outside asks of the desk, and what it is told."""

from datetime import timedelta

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, JobId, Outcome
from rota.jobs.validation.fields import read_name, read_queue, read_word
from rota.stores.jobs import HeldLease

MOST_LEASED = 100
LONGEST_LEASE = timedelta(hours=1)
SHORTEST_LEASE = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=30)
_NO_TIME = timedelta(0)


class LeaseWish(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants how many jobs, from where and for how long.

    ``wait_for`` is how long to wait when there are none. Jobs whose kind is in ``notifies`` tell
    people something, and quiet hours hold them back. ``kinds`` is what the worker can do, for
    operators to see: which jobs it is given is a matter of queues alone.
    """

    worker: str
    limit: int = 1
    lease_for: timedelta = timedelta(seconds=60)
    wait_for: timedelta = _NO_TIME
    queues: tuple[str, ...] | None = None
    notifies: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        read_name(self.worker, "worker")
        if type(self.limit) is not int or not 1 <= self.limit <= MOST_LEASED:
            raise refuse("limit", f"must be an integer from 1 to {MOST_LEASED}, got {self.limit}")
        check_lease(self.lease_for, "lease_seconds")
        if not _NO_TIME <= self.wait_for <= LONGEST_WAIT:
            most = LONGEST_WAIT // timedelta(seconds=1)
            raise refuse("wait_seconds", f"must be from 0 to {most}")
        if self.queues is not None and not self.queues:
            raise refuse("queues", "must name at least one queue, or be left out for all")
        for queue in self.queues or ():
            read_queue(queue)
        for kind in (*self.notifies, *self.kinds):
            read_word(kind, "kinds" if kind in self.kinds else "notifies")


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one job, as whoever held it says."""

    held: HeldLease
    outcome: Outcome


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was written about one job; ``is_stale``: nothing, for another has it, or nobody."""

    job_id: JobId
    is_stale: bool
    job: Job | None = None


def check_lease(lease_for: timedelta, field: str) -> None:
    """Refuse a lease that is too short to be kept, or too long to be given up on."""
    if not SHORTEST_LEASE <= lease_for <= LONGEST_LEASE:
        most = LONGEST_LEASE // timedelta(seconds=1)
        raise refuse(field, f"must be from 1 to {most}")


def refuse(field: str, reason: str) -> InvalidInputError:
    """A refusal that names the field."""
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})
