"""What is asked of a store of jobs."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, JobId
from rota.stores.jobs.caps import Cap
from rota.stores.naming import check_name


class HeldLease(NamedTuple):
    """A lease as its holder knows it."""

    job_id: JobId
    token: int


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants how many jobs, for how long, and from where.

    ``queues`` and ``tenants`` left out are all there are. ``after_tenant`` is the tenant of the
    last job that the caller was given before, so that the next tenant's turn comes first.

    ``caps`` say how many jobs of a tenant, a queue or both may run, or be handed out; jobs for
    which there is no place are passed over. ``ageing`` names queues in which jobs count for more
    the longer they have waited, and the time that makes one priority.
    """

    worker: str
    limit: int
    lease_for: timedelta
    queues: Collection[str] | None = None
    tenants: Collection[str] | None = None
    after_tenant: str = ""
    caps: tuple[Cap, ...] = ()
    ageing: Mapping[str, timedelta] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether more is asked for than the next jobs, whoever they are."""
        return bool(self.caps or self.ageing)

    def __post_init__(self) -> None:
        check_name("worker", self.worker)
        check_count(self.limit)
        check_choice(self.queues, "queues")
        check_choice(self.tenants, "tenants")
        if self.lease_for <= timedelta(0):
            raise _refusal("lease_for", f"must be longer than no time, got {self.lease_for}")
        for queue, step in (self.ageing or {}).items():
            if step <= timedelta(0):
                raise _refusal("ageing", f"must be longer than no time, got {step} for {queue!r}")


def check_count(limit: int) -> int:
    """The limit itself, if there is any sense in it."""
    if type(limit) is not int or limit < 1:
        raise _refusal("limit", f"must be an integer from 1 on, got {limit!r}")
    return limit


def check_choice(chosen: Collection[str] | None, field: str) -> None:
    """Refuse a single name where several are expected: its letters would pass for names."""
    if isinstance(chosen, str):
        raise _refusal(field, "must be a collection of names, got a text")


def is_chosen(name: str, chosen: Collection[str] | None) -> bool:
    """Whether the name is among those chosen; no choice is all of them."""
    return chosen is None or name in chosen


def expiry_key(job: Job) -> tuple[datetime, JobId]:
    """Where a job that was leased stands among those whose leases have run out."""
    if job.lease is None:
        raise _refusal("after", "must be a job that was found expired, and has a lease")
    return job.lease.until, job.id


def _refusal(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})
