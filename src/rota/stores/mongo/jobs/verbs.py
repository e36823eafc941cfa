"""The verbs of ``JobStore``."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rota.errors import UnsupportedConnectionError
from rota.jobs import Attempt, Change, Job, JobFilter, JobId, JobStatus, Page, check_limit
from rota.stores.kernel.settlement import check_path
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.jobs import editing, reading
from rota.stores.mongo.jobs.insertion import insert_alone, insert_together
from rota.stores.mongo.jobs.leasing.keeper import MongoKeeper
from rota.stores.mongo.jobs.leasing.leases import extend_leases, lease_next
from rota.stores.mongo.jobs.leasing.limited import lease_limited
from rota.stores.mongo.jobs.settling import apply_plain, apply_together
from rota.stores.opened import ClosableStore
from rota.stores.protocol import (
    Applied,
    HeldLease,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Listener,
    QueueDepth,
    check_choice,
    check_count,
    expiry_key,
)
from rota.stores.wakeups import Wakeups
from rota.triggers.zone import to_utc

NO_TRANSACTIONS = "a store in MongoDB takes part in no transaction"


class JobVerbs(ClosableStore):
    """Jobs in a collection of a database."""

    def __init__(self, connection: Connection, settings: MongoSettings) -> None:
        super().__init__()
        self._connection = connection
        self._gateway = connection.gateway
        self._settings = settings
        self._wakeups = Wakeups()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none; see the protocol."""
        self._refuse_when_unusable()
        now, asked = to_utc(now, "now"), tuple(jobs)
        if not asked:
            return []
        answers = await self._connection.run(lambda: insert_alone(self._gateway, asked, now))
        if answers is None:
            answers = await self._connection.run_alone(
                lambda: insert_together(self._gateway, asked, now)
            )
        self._ring(answer.job for answer in answers if not answer.is_existing)
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out due jobs, each to one caller only; see the protocol.

        At most ``MOST_PROMOTED`` of the jobs that have become due join in with each call.
        """
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        if request.is_limited:
            return await self._connection.run_alone(
                lambda: lease_limited(self._gateway, request, now)
            )
        return await self._connection.run(lambda: lease_next(self._gateway, request, now))

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        self._refuse_when_unusable()
        to_utc(now, "now")
        until, leases = to_utc(until, "until"), tuple(held)
        return await self._connection.run(lambda: extend_leases(self._gateway, leases, until))

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a client of its own."""
        self._refuse_when_unusable()
        return MongoKeeper(self._settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds, with all that follows from it; see the protocol.

        What concerns its job alone is one write each, sent with one command; all the others are one
        step. When the server is lost in between, or in the midst of that command, some have been
        carried out and the others not: each is whole, and handing all of them in again is safe.
        """
        self._refuse_when_unusable()
        now, decided = to_utc(now, "now"), tuple(changes)
        for change in decided:
            check_path(change)
        answers = await self._connection.run(lambda: apply_plain(self._gateway, decided, now))
        if any(answer.job.status is JobStatus.READY for answer in answers.values() if answer.job):
            self._wakeups.ring_everywhere()  # where they are now, others may have said
        left = {place: each for place, each in enumerate(decided) if place not in answers}
        if left:
            settled = await self._connection.run_alone(
                lambda: apply_together(self._gateway, tuple(left.values()), now)
            )
            self._ring(settled.ready)
            answers |= zip(left, settled.answers, strict=True)
        return [answers[place] for place in range(len(decided))]

    async def insert_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        jobs: Sequence[Job],  # noqa: ARG002 - as the protocol has it
        now: datetime,  # noqa: ARG002 - as the protocol has it
    ) -> list[Inserted]:
        """Refused: transactions over several documents are not used."""
        raise UnsupportedConnectionError(NO_TRANSACTIONS)

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out, the longest ago first.

        A sweep begins here: what processes that are gone have left undone is completed first.
        """
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        check_count(limit)
        if after is not None:
            expiry_key(after)
        else:
            await self._connection.run_alone(self._connection.sweeper.sweep)
        return await self._connection.run(
            lambda: reading.find_expired(self._gateway, now, limit, after)
        )

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due."""
        self._refuse_when_unusable()
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        now = to_utc(now, "now")
        return await self._connection.run(
            lambda: reading.next_due_at(self._gateway, now, queues, tenants)
        )

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen for as long as the context lasts; what other processes do is not heard."""
        self._refuse_when_unusable()
        return self._wakeups.listen(queues, tenants)

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these, without those that cannot be read."""
        self._refuse_when_unusable()
        wanted = tuple(job_ids)
        return await self._connection.run(lambda: reading.get(self._gateway, tenant, wanted))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs, without those that cannot be read."""
        self._refuse_when_unusable()
        check_limit(limit)
        narrowed = _narrowed(wanted, tenant)
        return await self._connection.run(
            lambda: reading.find(self._gateway, narrowed, cursor, limit)
        )

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        self._refuse_when_unusable()
        narrowed = _narrowed(wanted, tenant)
        return await self._connection.run(lambda: reading.count(self._gateway, narrowed))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        self._refuse_when_unusable()
        return await self._connection.run(
            lambda: reading.read_attempts(self._gateway, tenant, job_id)
        )

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that depend on one of these, by id."""
        self._refuse_when_unusable()
        check_count(limit)
        named = tuple(job_ids)
        return await self._connection.run(
            lambda: reading.find_dependents(self._gateway, tenant, named, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        return await self._connection.run(lambda: reading.survey(self._gateway, now, tenant))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job; see the protocol."""
        self._refuse_when_unusable()
        asked = editing.Amendment(tenant, job_id, dict(fields), to_utc(now, "now"))
        amended = await self._connection.run_alone(lambda: editing.amend(self._gateway, asked))
        self._ring([amended])
        return amended

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage; see the protocol."""
        self._refuse_when_unusable()
        return await self._connection.run_alone(
            lambda: editing.delete(self._gateway, tenant, job_id)
        )

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove jobs that ended before then and on which none depends."""
        self._refuse_when_unusable()
        before = to_utc(ended_before, "ended_before")
        check_count(limit)
        return await self._connection.run_alone(lambda: editing.prune(self._gateway, before, limit))

    async def close(self) -> None:
        """Release the store, and tell whoever listens."""
        await super().close()
        self._wakeups.close()

    def _ring(self, jobs: Iterable[Job]) -> None:
        self._wakeups.ring(job for job in jobs if job.status is JobStatus.READY)


def _narrowed(wanted: JobFilter | None, tenant: str) -> JobFilter:
    return replace(wanted or JobFilter(), tenant=tenant)
