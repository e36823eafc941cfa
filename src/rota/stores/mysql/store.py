"""The store in a MariaDB or MySQL database: documents and jobs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from rota.clock.protocol import to_utc
from rota.jobs import Change, Job
from rota.stores.keeper import keeper_on
from rota.stores.kernel.records import check_ids
from rota.stores.kernel.settlement import check_paths
from rota.stores.kernel.unit import Committed, Plan
from rota.stores.kernel.verbs import SingleInserts, SqlVerbs, Work
from rota.stores.mysql import documents, lease, unit
from rota.stores.mysql.address import MysqlSettings
from rota.stores.mysql.connections import (
    Database,
    Session,
    is_about_values,
    statements_on,
    translated,
)
from rota.stores.mysql.queries import QUERIES
from rota.stores.mysql.read import Reads
from rota.stores.mysql.schema import open_database
from rota.stores.mysql.wakeups import Notices, encode_places
from rota.stores.protocol import (
    Applied,
    DocumentWrite,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Reach,
    checked,
)
from rota.stores.rows import Row, made_ready

Result = TypeVar("Result")


class MysqlStore(SingleInserts, SqlVerbs[Session]):
    """Documents and jobs in a database, for every process that can reach it.

    A call that has started runs to its end, even if its caller is cancelled while waiting. A store
    belongs to the process and the event loop that opened it. For the verbs, see the protocol.
    """

    reach = Reach.NETWORK
    _reads = _records = Reads()
    _leases = lease
    _notices: Notices
    _documents = documents
    _needs_uuids = True
    uses_native_paths = True
    """False sends every insert, lease and change through the kernel; tests compare the two."""

    def __init__(self, database: Database, settings: MysqlSettings) -> None:
        """See ``open``."""
        super().__init__()
        self._database = database
        self._settings = settings
        self._notices = Notices(database)
        self._group_singles(database.calls, is_about_values)

    @classmethod
    async def open(cls, settings: MysqlSettings) -> Self:
        """The store in a database; missing tables are created."""
        return cls(await open_database(settings), settings)

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        accepted = tuple(checked(writes))
        return await self._run(lambda session: documents.write_each(session, accepted))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """A long stream cannot be read twice: after a deadlock its caller repeats the call."""
        self._refuse_when_unusable()
        stream = checked(writes)
        first = documents.next_batch(stream)
        run = self._database.run if first.is_last else self._database.run_once
        await run(lambda session: documents.write_all(session, documents.replay(first, stream)))

    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        asked, rows, now = _submit(jobs, now)
        is_native = self.uses_native_paths
        return await self._commit(
            lambda session: unit.insert(session, asked, rows, now, is_native=is_native)
        )

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in the caller's transaction on a connection of asyncmy.

        The wake-up is a row in the same transaction: listeners of all processes poll it.
        """
        asked, rows, now = _submit(jobs, now)
        with self._joined(connection) as session:
            inserted = await unit.insert(
                session, asked, rows, now, is_native=self.uses_native_paths
            )
            if inserted.ready:
                places = encode_places(inserted.ready)
                await session.write(QUERIES.add_wakeup, [("", places)])
        return inserted.answer

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        now, is_native = to_utc(now, "now"), self.uses_native_paths
        return await self._run(
            lambda session: lease.lease(session, request, now, is_native=is_native)
        )

    def make_keeper(self) -> LeaseKeeper:
        self._refuse_when_unusable()
        settings = replace(self._settings, connection_count=1)
        return keeper_on(Database(settings), lease.extend)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        now, decided, is_native = to_utc(now, "now"), tuple(changes), self.uses_native_paths
        check_paths(decided)
        return await self._commit(
            lambda session: unit.apply(session, decided, now, is_native=is_native)
        )

    async def read_clock(self) -> datetime:
        """The server's clock."""
        ((now,),) = await self._run(lambda session: session.fetch(QUERIES.read_clock))
        server_time: datetime = now
        return server_time.replace(tzinfo=UTC)

    async def _run_plan(self, make_plan: Callable[[], Plan[Result]]) -> Result:
        return await self._commit(lambda session: unit.run_plan(session, make_plan()))

    async def _commit(self, work: Work[Session, Committed[Result]]) -> Result:
        """Do the work, and wake listeners once it is committed."""
        committed = await self._run(work)
        self._notices.notify(committed.ready, committed.ended)
        return committed.answer

    async def _run(self, work: Work[Session, Result]) -> Result:
        self._refuse_when_unusable()
        return await self._database.run(work)

    async def _release(self) -> None:
        await self._notices.close()
        await self._database.close()

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[Session]:
        self._refuse_when_unusable()
        session = statements_on(connection, self._database.most_bytes)
        with translated(self._settings.label):
            yield session


def _submit(jobs: Sequence[Job], now: datetime) -> tuple[list[Job], list[Row], datetime]:
    """The jobs and their rows as of the call. Without dependencies a job is READY."""
    now = to_utc(now, "now")
    check_ids([job.id for job in jobs])
    ready = made_ready(jobs)
    return ready, [unit.encode(job, now) for job in ready], now
