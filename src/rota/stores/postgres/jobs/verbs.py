"""The verbs of ``JobStore`` on a database."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from rota.jobs import Attempt, Change, Job, JobFilter, JobId, JobStatus, Page
from rota.stores.opened import ClosableStore
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import Database
from rota.stores.postgres.jobs import leasing, reading
from rota.stores.postgres.jobs.changes import amendment, removal, settling
from rota.stores.postgres.jobs.connections.foreign import statements_on
from rota.stores.postgres.jobs.connections.keeper import PostgresKeeper
from rota.stores.postgres.jobs.connections.wakeups import Notices
from rota.stores.postgres.jobs.insertion import insert, insert_one, is_plain
from rota.stores.postgres.jobs.limited.leasing import lease_limited
from rota.stores.postgres.jobs.pinned.hand import Hands
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.postgres.translation import translated
from rota.stores.protocol import (
    Applied,
    HeldLease,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Listener,
    check_choice,
    check_count,
    expiry_key,
)
from rota.triggers.zone import to_utc

Result = TypeVar("Result")

CONNECTIONS_OF_A_WORKER = 3
"""It leases, settles and looks when the next job is due, now and then all at once."""


class JobVerbs(ClosableStore):
    """Jobs, for every process that can reach the database.

    A call that has begun is carried out even when its caller is cancelled while waiting for it.
    """

    def __init__(self, database: Database, settings: PostgresSettings) -> None:
        super().__init__()
        self._database = database
        self._settings = settings
        self._notices = Notices(database, settings)
        self._only_lane = leasing.OnlyLane()
        self._hands = Hands()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none; see the protocol."""
        now = to_utc(now, "now")
        is_one = len(jobs) == 1 and is_plain(jobs[0])
        if is_one and await self._insert_one(jobs[0], now):
            return [Inserted(jobs[0])]
        answers = await self._repeat(
            lambda session: insert(session, jobs, now, may_be_new=not is_one)
        )
        self._notices.tell(_ready_among(answers))
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out due jobs, each to one caller only; see the protocol."""
        now = to_utc(now, "now")
        if request.is_limited:
            return await self._repeat(lambda session: lease_limited(session, request, now))

        async def lease(session: Session) -> list[Job]:
            return await self._hands.lease(
                session,
                request,
                now,
                lambda: leasing.lease(session, request, now, self._only_lane),
            )

        return await self._repeat(lease)

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        to_utc(now, "now")
        until = to_utc(until, "until")
        return await self._repeat(lambda session: leasing.extend(session, held, until))

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a connection of its own."""
        self._refuse_when_unusable()
        return PostgresKeeper(self._settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds; see the protocol."""
        now = to_utc(now, "now")
        settling.check_paths(changes)
        settled = await self._repeat(lambda session: settling.apply(session, changes, now))
        self._notices.tell(settled.ready)
        return settled.answers

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in the caller's transaction; listeners are told when it commits.

        ``connection`` is one of asyncpg or psycopg 3, to the database of the store.
        """
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        statements = statements_on(connection, self._settings.schema)
        with translated(self._settings.label):
            async with statements.transaction():
                answers = await insert(statements, jobs, now)
                if ready := _ready_among(answers):
                    message = self._notices.message_about(ready)
                    await statements.fetch(QUERIES.notify_at_commit, *message)
        return answers

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out, the longest ago first."""
        now = to_utc(now, "now")
        check_count(limit)
        key = None if after is None else expiry_key(after)
        return await self._repeat(lambda session: leasing.find_expired(session, now, limit, key))

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due."""
        now = to_utc(now, "now")
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")

        async def look(session: Session) -> datetime | None:
            again_at = await self._hands.next_due_at(session, now, queues, tenants)
            return again_at or await leasing.next_due_at(session, now, queues, tenants)

        return await self._repeat(look)

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen, to this process and to others, for as long as the context lasts."""
        self._refuse_when_unusable()
        self._database.acquaint(leasing.get_to_know, CONNECTIONS_OF_A_WORKER)
        return self._notices.listen(queues, tenants)

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these."""
        return await self._repeat(lambda session: reading.get(session, tenant, job_ids))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs."""
        wanted = _narrowed(wanted, tenant)
        return await self._repeat(
            lambda session: reading.find(session, tenant, wanted, cursor, limit)
        )

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        wanted = _narrowed(wanted, tenant)
        return await self._repeat(lambda session: reading.count(session, tenant, wanted))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        return await self._repeat(lambda session: reading.attempts(session, tenant, job_id))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job; see the protocol."""
        wanted = amendment.Amendment(tenant, job_id, fields, to_utc(now, "now"))
        job = await self._repeat(lambda session: amendment.amend(session, wanted))
        self._notices.tell([job] if job.status is JobStatus.READY else [])
        return job

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage; see the protocol."""
        return await self._repeat(lambda session: removal.delete(session, tenant, job_id))

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove jobs that ended before then and on which none depends."""
        before = to_utc(ended_before, "ended_before")
        check_count(limit)
        return await self._repeat(lambda session: removal.prune(session, before, limit))

    async def read_clock(self) -> datetime:
        """The server's clock."""

        async def read(session: Session) -> datetime:
            ((now,),) = await session.fetch(QUERIES.read_clock)
            return to_utc(now)

        return await self._repeat(read)

    async def _insert_one(self, job: Job, now: datetime) -> bool:
        """Whether it was new, is kept, and everybody knows."""
        with self._notices.telling_within(job) as notice:
            is_new = await self._repeat(lambda session: insert_one(session, job, now, notice))
        if is_new:
            self._notices.tell([job], is_known_elsewhere=notice is not None)
        return is_new

    async def _repeat(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Carry out a call, again if the server gave it up in favour of another."""
        self._refuse_when_unusable()
        return await self._database.run_repeatably(work)


def _ready_among(answers: Sequence[Inserted]) -> list[Job]:
    """Those that were not there before and can be leased, now or later."""
    return [
        answer.job
        for answer in answers
        if not answer.is_existing and answer.job.status is JobStatus.READY
    ]


def _narrowed(wanted: JobFilter | None, tenant: str) -> JobFilter:
    return replace(wanted or JobFilter(), tenant=tenant)
