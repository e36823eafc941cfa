"""The store in a PostgreSQL database."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

from rota.clock.protocol import to_utc
from rota.jobs import Change, Job
from rota.stores.calls import Groups
from rota.stores.keeper import keeper_on
from rota.stores.kernel import edits
from rota.stores.kernel.records import check_ids
from rota.stores.kernel.unit import Decision, Plan
from rota.stores.kernel.verbs import SingleInserts, SqlVerbs, Work
from rota.stores.postgres import documents, lease, read, unit
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.callers import statements_on
from rota.stores.postgres.connections import (
    Database,
    Statements,
    is_about_values,
    translated,
)
from rota.stores.postgres.cursor import Cursors
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import is_fresh
from rota.stores.postgres.schema import open_database
from rota.stores.postgres.wakeups import Notices
from rota.stores.protocol import (
    Applied,
    DocumentWrite,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Listener,
    Reach,
    checked,
)

Result = TypeVar("Result")

CONNECTIONS_OF_A_WORKER = 3
"""A worker leases, settles and asks when the next job is due, sometimes all at once."""


class PostgresStore(SingleInserts, SqlVerbs[Statements]):
    """Documents and jobs in a database, for every process that can reach it.

    A call that has started runs to its end, even if its caller is cancelled while waiting. A store
    belongs to the process and the event loop that opened it.
    """

    reach = Reach.NETWORK
    _reads = read
    _leases = lease
    _records = read
    _notices: Notices
    _documents = documents
    _needs_uuids = True
    uses_native_paths = True

    def __init__(self, database: Database, settings: PostgresSettings) -> None:
        """See ``open``."""
        super().__init__()
        self._database = database
        self._settings = settings
        write = partial(documents.write_calls, database)
        self._writes = Groups(database.calls, write, documents.MOST_AT_ONCE, is_about_values)
        self._group_singles(database.calls, is_about_values)
        self._notices = Notices(database, settings)
        self._cursors = Cursors()
        self._fast_path = lease.FastPath()

    @classmethod
    async def open(cls, settings: PostgresSettings) -> Self:
        """The store in a schema of a database; a missing schema is created."""
        database = await open_database(settings)
        return cls(database, database.settings)

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """Apply each write that is still current; calls at the same time share a transaction."""
        self._refuse_when_unusable()
        accepted = tuple(checked(writes))
        return await self._writes.run(accepted, len(accepted)) if accepted else []

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """Apply all writes or none."""
        self._refuse_when_unusable()
        await self._database.run(lambda session: documents.write_all(session, writes))

    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        if self._may_be_new(jobs) and await self._insert_new(jobs, now):
            return [Inserted(job) for job in jobs]
        return await self._run_plan(lambda: edits.insert(jobs, now))

    def _may_be_new(self, jobs: Sequence[Job]) -> bool:
        """Whether to try the native path."""
        check_ids([job.id for job in jobs])
        return self.uses_native_paths and all(map(is_fresh, jobs))

    async def _insert_new(self, jobs: Sequence[Job], now: datetime) -> bool:
        notice = self._notices.notify_within(jobs)
        try:
            is_new = await self._run(lambda session: unit.insert_new(session, jobs, now, notice))
        finally:
            if notice is not None:
                self._notices.pace.end()
        if is_new:
            partitions = {(job.tenant, job.queue) for job in jobs}
            self._notices.notify(partitions, is_sent=notice is not None)
        return is_new

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in the caller's transaction; listeners are woken when it commits.

        ``connection`` is one of asyncpg or psycopg 3, to the database of the store.
        """
        now = to_utc(now, "now")
        with self._joined(connection) as statements:
            async with statements.transaction():
                if self._may_be_new(jobs) and await unit.insert_new(statements, jobs, now):
                    answers = [Inserted(job) for job in jobs]
                    ready = {(job.tenant, job.queue) for job in jobs}
                else:
                    decision = await unit.run_plan(statements, lambda: edits.insert(jobs, now))
                    answers, ready = decision.answer, decision.writes.ready_partitions()
                if ready:
                    message = self._notices.message_about(ready)
                    await statements.fetch(QUERIES.notify_at_commit, *message)
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Lease due jobs, each to one caller only."""
        now = to_utc(now, "now")

        async def run(statements: Statements) -> list[Job]:
            fast_path = self._fast_path if self.uses_native_paths else None
            call = lease.LeaseCall(statements, request, now, fast_path)
            if request.is_limited:
                return await lease.lease_under_limits(call)
            return await self._cursors.lease(call)

        return await self._run(run)

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a connection of its own."""
        self._refuse_when_unusable()
        settings = replace(self._settings, connection_count=1)
        return keeper_on(Database(settings), lease.extend)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds."""
        now = to_utc(now, "now")
        is_native = self.uses_native_paths
        settled = await self._run(
            lambda session: unit.apply(session, changes, now, is_native=is_native)
        )
        self._notices.notify(settled.ready)
        return settled.answer

    async def _find_next_due(
        self, now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> datetime | None:
        async def look(statements: Statements) -> datetime | None:
            again_at = await self._cursors.next_due_at(statements, now, queues, tenants)
            return again_at or await read.next_due_at(statements, now, queues, tenants)

        return await self._run(look)

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen, to this process and to others, for as long as the context lasts."""
        self._refuse_when_unusable()
        self._database.warm_up(lease.warm_up, CONNECTIONS_OF_A_WORKER)
        return super().listen(queues, tenants)

    async def read_clock(self) -> datetime:
        """The server's clock."""
        ((now,),) = await self._run(lambda session: session.fetch(QUERIES.read_clock))
        return to_utc(now)

    async def _run_plan(self, make_plan: Callable[[], Plan[Result]]) -> Result:
        """Run a plan of the kernel, and wake the listeners where it made jobs READY."""
        decision: Decision[Result] = await self._run(
            lambda session: unit.run_plan(session, make_plan)
        )
        self._notices.notify(decision.writes.ready_partitions())
        return decision.answer

    async def _run(self, work: Work[Statements, Result]) -> Result:
        """Run a call, again if the server rolled it back because of another transaction."""
        self._refuse_when_unusable()
        return await self._database.run_repeatably(work)

    async def _release(self) -> None:
        await self._database.calls.finish()  # what they write is notified
        await self._notices.close()
        await self._database.close()

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[Statements]:
        """A connection of asyncpg or psycopg 3. Its ``lock_timeout`` limits waits for others."""
        self._refuse_when_unusable()
        statements = statements_on(connection, self._settings.schema)
        with translated(self._settings.label):
            yield statements
