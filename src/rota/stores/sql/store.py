"""The verbs of a store in an SQL database on a server."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from rota.clock.protocol import to_utc
from rota.jobs import Change, Job
from rota.stores.keeper import keeper_on
from rota.stores.kernel.records import check_ids
from rota.stores.kernel.unit import Committed, Plan
from rota.stores.kernel.verbs import SingleInserts, SqlVerbs, Work
from rota.stores.protocol import (
    Applied,
    DocumentWrite,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Reach,
    checked,
)
from rota.stores.rows import made_ready
from rota.stores.sql import documents, lease
from rota.stores.sql.locking import LockingUnit
from rota.stores.sql.server import Database, ServerSession
from rota.stores.sql.wakeups import Notices, announce
from rota.stores.statements import Statements

Result = TypeVar("Result")


class SqlStore(SingleInserts, SqlVerbs[ServerSession]):
    """Documents and jobs in a database, for every process that can reach it.

    A call that has started runs to its end, even if its caller is cancelled while waiting. A store
    belongs to the process and the event loop that opened it. For the verbs, see the protocol.
    """

    reach = Reach.NETWORK
    _leases = lease
    _documents = documents
    _notices: Notices
    _needs_uuids = True
    uses_native_paths = True
    """False sends every insert, lease and change through the kernel; tests compare the two."""
    _unit: ClassVar[type[LockingUnit]]

    def __init__(self, database: Database, queries: Statements) -> None:
        super().__init__()
        self._database = database
        self._queries = queries
        self._notices = Notices(database, queries)
        self._group_singles(database.calls, database.is_about_values)

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        accepted = tuple(checked(writes))
        return await self._run(lambda session: documents.write_each(session, accepted))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """A long stream cannot be read twice: after a deadlock its caller repeats the call."""
        self._refuse_when_unusable()
        stream = checked(writes)
        first = documents.next_batch(stream)
        run = self._database.run if first.is_last else self._database.run_once
        await run(lambda session: documents.write_all(session, stream, first))

    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        return await self._commit(self._insertion(jobs, now))

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in the caller's transaction on a connection of the same driver.

        The wake-up is a row in the same transaction: listeners of all processes poll it.
        """
        insert = self._insertion(jobs, to_utc(now, "now"))
        with self._joined(connection) as session:
            inserted = await insert(session)
            if inserted.ready:
                await announce(session, inserted.ready)
        return inserted.answer

    def _insertion(
        self, jobs: Sequence[Job], now: datetime
    ) -> Work[ServerSession, Committed[list[Inserted]]]:
        """Inserts the jobs as they are now. Without dependencies a job is READY."""
        check_ids([job.id for job in jobs])
        ready, is_native = made_ready(jobs), self.uses_native_paths
        rows = [self._unit.encode_job(job, now) for job in ready]
        return lambda session: self._unit(session).insert(ready, rows, now, is_native=is_native)

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        now, is_native = to_utc(now, "now"), self.uses_native_paths
        return await self._run(
            lambda session: lease.lease(session, request, now, is_native=is_native)
        )

    def make_keeper(self) -> LeaseKeeper:
        self._refuse_when_unusable()
        return keeper_on(self._database.reopened(), lease.extend)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        now, decided, is_native = to_utc(now, "now"), tuple(changes), self.uses_native_paths
        return await self._commit(
            lambda session: self._unit(session).apply(decided, now, is_native=is_native)
        )

    async def read_clock(self) -> datetime:
        """The server's clock."""
        ((now,),) = await self._run(lambda session: session.fetch(self._queries.read_clock))
        server_time: datetime = now
        return server_time.replace(tzinfo=UTC)

    async def _run_plan(self, make_plan: Callable[[], Plan[Result]]) -> Result:
        return await self._commit(lambda session: self._unit(session).run(make_plan()))

    async def _commit(self, work: Work[ServerSession, Committed[Result]]) -> Result:
        """Do the work, and wake listeners once it is committed."""
        committed = await self._run(work)
        self._notices.notify(committed.ready, committed.ended)
        return committed.answer

    async def _run(self, work: Work[ServerSession, Result]) -> Result:
        self._refuse_when_unusable()
        return await self._database.run(work)

    async def _release(self) -> None:
        await self._notices.close()
        await self._database.close()

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[ServerSession]:
        self._refuse_when_unusable()
        session = self._database.join(connection)
        with self._database.translated():
            yield session
