"""Jobs in dictionaries. What the other stores promise is written here as plainly as it can be said.

Every call checks first and writes afterwards, without a pause in between: it is carried out as a
whole or not at all, and no other call sees it half done. The lock is there for keepers of leases,
which come from other threads.
"""

import heapq
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rota.errors import DuplicateJobError, JobNotFoundError, UnsupportedConnectionError
from rota.jobs import (
    Attempt,
    Change,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Page,
    amend_job,
    check_deletion,
    decide_dependents,
    decide_lease,
    is_stalled,
    list_jobs,
)
from rota.stores.jobs.duplicates import identity_of
from rota.stores.jobs.moves import check_path, is_current, make_successor, write_move
from rota.stores.jobs.placement import Kept, plan_insertion
from rota.stores.jobs.protocol import LeaseKeeper, Listener
from rota.stores.jobs.requests import HeldLease, LeaseRequest, check_choice, check_count, expiry_key
from rota.stores.jobs.results import STALE, Applied, Inserted
from rota.stores.jobs.turns import order_turns, take_turns
from rota.stores.jobs.wakeups import Wakeups
from rota.stores.memory.closing import Closable
from rota.stores.memory.limited import lease_limited
from rota.stores.memory.shelf import Shelf, copied
from rota.triggers.zone import to_utc


class JobVerbs(Closable):
    """The verbs of ``JobStore``. Only a listener's ``wait`` suspends its caller."""

    def __init__(self) -> None:
        super().__init__()
        self._shelf = Shelf()
        self._wakeups = Wakeups()
        self._lock = threading.RLock()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none; see the protocol."""
        self._refuse_when_closed()
        to_utc(now, "now")
        with self._lock:
            answers = plan_insertion([copied(job) for job in jobs], self._look_up(jobs))
            self._write([answer.job for answer in answers if not answer.is_existing])
        return [Inserted(copied(answer.job), answer.is_existing) for answer in answers]

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out due jobs, each to one caller only; see the protocol."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        if request.is_limited:
            with self._lock:
                return lease_limited(self._shelf, request, now)

        def take(tenant: str, count: int) -> list[Job]:
            taken: list[Job] = []
            while len(taken) < count:
                job = self._shelf.ready.first_due(tenant, request.queues, now)
                if job is None:
                    break
                leased = decide_lease(job, request.worker, request.lease_for, now).job
                self._shelf.put(leased)
                taken.append(copied(leased))
            return taken

        with self._lock:
            due = self._shelf.ready.tenants_due(now, request.queues, request.tenants)
            return take_turns(order_turns(due, request.after_tenant), request.limit, take)

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        self._refuse_when_closed()
        return self._extend_each(held, until, now)

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread."""
        self._refuse_when_closed()
        return _Keeper(self._extend_each)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds; see the protocol."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        for change in changes:
            check_path(change)
        with self._lock:
            return [self._carry_out(change, now) for change in changes]

    async def insert_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        jobs: Sequence[Job],  # noqa: ARG002 - as the protocol has it
        now: datetime,  # noqa: ARG002 - as the protocol has it
    ) -> list[Inserted]:
        """Refused: there is no database whose transaction could be shared."""
        raise UnsupportedConnectionError("a store in memory takes part in no transaction")

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out, the longest ago first."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        found = [job for job in self._shelf.leased.values() if is_stalled(job, now)]
        if after is not None:
            found = [job for job in found if expiry_key(job) > expiry_key(after)]
        found.sort(key=expiry_key)
        return [copied(job) for job in found[: check_count(limit)]]

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due."""
        self._refuse_when_closed()
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        return self._shelf.ready.next_due_at(to_utc(now, "now"), queues, tenants)

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen for as long as the context lasts."""
        self._refuse_when_closed()
        return self._wakeups.listen(queues, tenants)

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these."""
        self._refuse_when_closed()
        found = ((job_id, self._shelf.find(tenant, job_id)) for job_id in job_ids)
        return {job_id: copied(job) for job_id, job in found if job is not None}

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs."""
        self._refuse_when_closed()
        page = list_jobs(self._shelf.jobs.values(), _narrowed(wanted, tenant), cursor, limit)
        return Page([copied(job) for job in page.items], page.next_cursor)

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        self._refuse_when_closed()
        wanted = _narrowed(wanted, tenant)
        return sum(wanted.accepts(job) for job in self._shelf.jobs.values())

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        self._refuse_when_closed()
        if self._shelf.find(tenant, job_id) is None:
            return []
        return list(self._shelf.attempts.get(job_id, ()))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job; see the protocol."""
        self._refuse_when_closed()
        now = to_utc(now, "now")
        with self._lock:
            return self._amend(tenant, job_id, fields, now)

    def _amend(self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime) -> Job:
        others = self._of_tenant(tenant) if "dependencies" in fields else []
        amended = amend_job(
            self._existing(tenant, job_id),
            fields,
            now,
            dependency_statuses={job.id: job.status for job in others},
            existing_jobs={job.id: job.dependencies for job in others},
        )
        twin = self._shelf.find_twin(amended)
        if twin is not None and twin.id != job_id:
            raise DuplicateJobError(twin.id, "with the same idempotency key under that kind")
        self._write([amended])
        self._settle_dependents(amended, now)
        return copied(amended)

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage; see the protocol."""
        self._refuse_when_closed()
        with self._lock:
            job = self._existing(tenant, job_id)
            check_deletion(job_id, self._shelf.dependents(job_id))
            self._shelf.remove(job_id)
            return job

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove jobs that ended before then and on which none depends."""
        self._refuse_when_closed()
        ended_before = to_utc(ended_before, "ended_before")
        check_count(limit)
        jobs = self._shelf.jobs
        found = [_end_key(job) for job in jobs.values() if self._may_go(job, ended_before)]
        heapq.heapify(found)
        count = 0
        while found and count < limit:
            gone = jobs[heapq.heappop(found)[1]]
            self._shelf.remove(gone.id)
            count += 1
            freed = (jobs[each] for each in gone.dependencies)
            for job in freed:
                if self._may_go(job, ended_before):
                    heapq.heappush(found, _end_key(job))
        return count

    async def close(self) -> None:
        """Refuse all later calls, and tell whoever listens."""
        await super().close()
        self._wakeups.close()

    def _look_up(self, jobs: Sequence[Job]) -> Kept:
        """Whatever the new jobs may clash with or depend on."""
        kept = self._shelf
        twins = [twin for job in jobs if (twin := kept.find_twin(job)) is not None]
        named = {each for job in jobs for each in (job.id, *job.dependencies)}
        present = {job_id: kept.jobs[job_id] for job_id in named if job_id in kept.jobs}
        return Kept(
            by_id=present,
            by_identity={identity: twin for twin in twins if (identity := identity_of(twin))},
            statuses={(job.tenant, job.id): job.status for job in present.values()},
        )

    def _existing(self, tenant: str, job_id: JobId) -> Job:
        job = self._shelf.find(tenant, job_id)
        if job is None:
            raise JobNotFoundError(job_id)
        return job

    def _of_tenant(self, tenant: str) -> list[Job]:
        return [job for job in self._shelf.jobs.values() if job.tenant == tenant]

    def _extend_each(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        until = to_utc(until, "until")
        to_utc(now, "now")
        with self._lock:
            return [self._extend(lease, until) for lease in held]

    def _extend(self, held: HeldLease, until: datetime) -> bool:
        job = self._shelf.leased.get(held.job_id)
        if job is None or job.lease is None or job.lease.token != held.token:
            return False
        lasting = replace(job.lease, until=max(job.lease.until, until))
        self._shelf.put(replace(job, lease=lasting))
        return True

    def _carry_out(self, change: Change, now: datetime) -> Applied:
        kept = self._shelf.jobs.get(change.job_id)
        if kept is None or not is_current(change, kept, now):
            return STALE
        moved = write_move(change, kept)
        self._write([moved])
        if change.attempt is not None:
            self._shelf.attempts[moved.id].append(change.attempt)
        successor = self._continue_series(make_successor(change, kept))
        concerned = self._settle_dependents(moved, now)
        is_removed = change.is_removed and not self._shelf.dependents(moved.id)
        if is_removed:
            self._shelf.remove(moved.id)
        return Applied(
            change.job,
            successor,
            released=_ids_at(JobStatus.READY, concerned),
            blocked=_ids_at(JobStatus.BLOCKED, concerned),
            is_removed=is_removed,
        )

    def _continue_series(self, successor: Job | None) -> Job | None:
        """Keep the successor, unless there is one already under its id or its key."""
        if successor is None or successor.id in self._shelf.jobs:
            return None
        if self._shelf.find_twin(successor) is not None:
            return None
        self._write([copied(successor)])
        return copied(successor)

    def _settle_dependents(self, job: Job, now: datetime) -> list[Job]:
        """Whoever waited for the job, as its end leaves them; nobody if it has not ended."""
        if not job.status.is_terminal:
            return []
        changes = decide_dependents(job, self._shelf.concerned_by(job), now)
        moved = [change.job for change in changes]
        self._write(moved)
        return moved

    def _write(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._shelf.put(job)
        self._wakeups.ring(job for job in jobs if job.status is JobStatus.READY)

    def _may_go(self, job: Job, ended_before: datetime) -> bool:
        has_ended = job.status.is_terminal and job.updated_at < ended_before
        return has_ended and not self._shelf.dependents(job.id)


class _Keeper:
    """Extends as the store itself does; there is nothing to open or to let go."""

    def __init__(
        self, extend: Callable[[Sequence[HeldLease], datetime, datetime], list[bool]]
    ) -> None:
        self._extend = extend

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return self._extend(held, until, now)

    def close(self) -> None:
        """Nothing was opened."""


def _end_key(job: Job) -> tuple[datetime, JobId]:
    return job.updated_at, job.id


def _narrowed(wanted: JobFilter | None, tenant: str) -> JobFilter:
    return replace(wanted or JobFilter(), tenant=tenant)


def _ids_at(status: JobStatus, jobs: Sequence[Job]) -> tuple[JobId, ...]:
    return tuple(job.id for job in jobs if job.status is status)
