"""The verbs of ``JobStore`` on a server."""

from asyncio import Lock
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rota.errors import UnsupportedConnectionError
from rota.jobs import Attempt, Change, Job, JobFilter, JobId, Page
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
)
from rota.stores.redis.database import Database
from rota.stores.redis.documents.verbs import NO_TRANSACTION, DocumentVerbs
from rota.stores.redis.jobs.changing import editing, settling
from rota.stores.redis.jobs.changing.insertion import insert
from rota.stores.redis.jobs.keeper import RedisKeeper
from rota.stores.redis.jobs.leasing import leasing
from rota.stores.redis.jobs.leasing.limited import lease_limited
from rota.stores.redis.jobs.reading import reading
from rota.stores.redis.jobs.reading.survey import survey
from rota.stores.redis.jobs.wakeups import Notices
from rota.triggers.zone import to_utc


class JobVerbs(DocumentVerbs):
    """Jobs, for every process that can reach the server."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._notices = Notices(database)
        self._limited = Lock()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        kept = await insert(self._database, jobs, now, self._notices.sender)
        self._notices.tell([kept.places])
        return kept.answers

    async def insert_within(
        self,
        connection: Any,  # noqa: ARG002 - as the protocol has it
        jobs: Sequence[Job],  # noqa: ARG002 - as the protocol has it
        now: datetime,  # noqa: ARG002 - as the protocol has it
    ) -> list[Inserted]:
        """Refused: what is to be kept follows from what is there, and that cannot be asked."""
        raise UnsupportedConnectionError(NO_TRANSACTION)

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out due jobs, each to one caller only; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        if not request.is_limited:
            return await leasing.lease(self._database, request, now)
        async with self._limited:
            return await lease_limited(self._database, request, now)

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        self._refuse_when_unusable()
        to_utc(now, "now")
        return await leasing.extend(self._database, held, to_utc(until, "until"))

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a connection of its own."""
        self._refuse_when_unusable()
        return RedisKeeper(self._database.settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        settling.check_paths(changes)
        settled = await settling.apply(self._database, changes, now, self._notices.sender)
        self._notices.tell(settled.places)
        return settled.answers

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out; first, what a process has left half told is told."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        check_count(limit)
        if after is None:
            sender = self._notices.sender
            self._notices.tell(await settling.resume_cascades(self._database, now, sender))
        return await leasing.find_expired(self._database, now, limit, after)

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        return await leasing.next_due_at(self._database, now, queues, tenants)

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen, to this process and to others, for as long as the context lasts."""
        self._refuse_when_unusable()
        return self._notices.listen(queues, tenants)

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these."""
        self._refuse_when_unusable()
        return await reading.get(self._database, tenant, job_ids)

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs."""
        self._refuse_when_unusable()
        wanted = replace(wanted or JobFilter(), tenant=tenant)
        return await reading.find(self._database, tenant, wanted, cursor, limit)

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        self._refuse_when_unusable()
        wanted = replace(wanted or JobFilter(), tenant=tenant)
        return await reading.count(self._database, tenant, wanted)

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        self._refuse_when_unusable()
        return await reading.read_attempts(self._database, tenant, job_id)

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that depend on one of these, by id."""
        self._refuse_when_unusable()
        check_count(limit)
        return await reading.find_dependents(self._database, tenant, job_ids, limit)

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        wanted = editing.Amendment(tenant, job_id, fields, now, self._notices.sender)
        amended, places = await editing.amend(self._database, wanted)
        self._notices.tell(places)
        return amended

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage; see the protocol."""
        self._refuse_when_unusable()
        return await editing.delete(self._database, tenant, job_id)

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove jobs that ended before then and on which none depends."""
        self._refuse_when_unusable()
        ended_before = to_utc(ended_before, "ended_before")
        return await editing.prune(self._database, ended_before, check_count(limit))

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        self._refuse_when_unusable()
        return await survey(self._database, to_utc(now, "now"), tenant)

    async def _release(self) -> None:
        await self._notices.close()
        await self._database.close()
