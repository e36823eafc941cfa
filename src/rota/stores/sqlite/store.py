"""The store on a SQLite file: documents and jobs."""

from asyncio import get_running_loop
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from typing import Any, TypeVar

import apsw

from rota.clock.protocol import to_utc
from rota.jobs import Change, Job, JobId
from rota.stores.kernel.limits import counts_running
from rota.stores.kernel.unit import Committed, Plan
from rota.stores.kernel.verbs import SqlVerbs, Work
from rota.stores.protocol import (
    Applied,
    DocumentWrite,
    HeldLease,
    Inserted,
    KeptDocument,
    LeaseKeeper,
    LeasePreview,
    LeaseRequest,
    Listener,
    Reach,
    check_name,
    checked,
)
from rota.stores.rows import encode_job, made_ready
from rota.stores.sqlite import documents
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.documents import apply_all, apply_each, create_documents
from rota.stores.sqlite.lease import Keeper, extend_leases, lease_jobs, preview_jobs
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.read import DueCache, NextDue, Reads, make_choice
from rota.stores.sqlite.session import Session, finish
from rota.stores.sqlite.threads import OneRow, OpenFile, Reader, Writer
from rota.stores.sqlite.unit import apply_changes, commit_plan, insert_jobs
from rota.stores.wakeups import Wakeups

Answer = TypeVar("Answer")


class SqliteStore(OpenFile, SqlVerbs[Session]):
    """A store in one file, for every process on this host that opens it.

    It belongs to the process that opened it: a forked child is refused and opens its own. A
    submitted call is carried out even if its caller is cancelled meanwhile.
    """

    reach = Reach.HOST
    _reads = _records = Reads()
    _documents = documents
    uses_native_paths = True
    """False sends every insert and change through the kernel; tests compare the two."""

    def __init__(self, settings: SqliteSettings, writer: Writer, reader: Reader) -> None:
        super().__init__(settings, writer, reader)
        self._wakeups = Wakeups()
        self._due_cache = DueCache()
        self._loop = get_running_loop()

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """See ``DocumentStore.write_each``.

        Calls that wait at the same time share a transaction; none fails because of another.
        """
        asked = tuple(checked(writes))
        writer = self._open_writer()
        return await writer.run(lambda connection: apply_each(connection, asked), len(asked))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """See ``DocumentStore.write_all``. The writer's thread consumes the stream."""
        writer = self._open_writer()
        await writer.run_alone(lambda connection: apply_all(connection, checked(writes)))

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """See ``JobStore.insert``."""
        now, ready = to_utc(now, "now"), made_ready(jobs)
        rows = [encode_job(job, now) for job in ready]  # the caller may change a payload later
        writer, is_native, one_row = self._open_writer(), self.uses_native_paths, None
        if is_native and len(ready) == 1 and not ready[0].dependencies:
            (job,), (row,) = ready, rows
            created = Committed([Inserted(job)], {(job.tenant, job.queue)})
            if await writer.write_in_turn(QUERIES.insert_job, row):
                self._ring(created)
                return created.answer
            one_row = OneRow(QUERIES.insert_job, row, created)
        return await self._commit(
            lambda connection: insert_jobs(connection, ready, rows, now, is_native=is_native),
            len(ready),
            one_row,
        )

    def insert_here(self, job: Job, now: datetime) -> bool:
        """See ``BlockingStore.insert_here``."""
        if job.dependencies or not self.uses_native_paths:
            return False
        (ready,) = made_ready([job])
        if not self._writer.write_here(QUERIES.insert_job, encode_job(ready, to_utc(now, "now"))):
            return False
        if self._wakeups.listeners:
            created = Committed(None, {(job.tenant, job.queue)})
            with suppress(RuntimeError):  # the loop was closed, and its listeners with it
                self._loop.call_soon_threadsafe(self._ring, created)
        return True

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in a transaction on the caller's own ``apsw.Connection`` to the file.

        The connection is used at once, in the caller's thread. Listeners are not woken: SQLite does
        not report the commits of others. ``read_version`` shows them.
        """
        now, ready, is_native = to_utc(now, "now"), made_ready(jobs), self.uses_native_paths
        rows = [encode_job(job, now) for job in ready]
        with self._joined(connection) as joined:
            return insert_jobs(joined.connection, ready, rows, now, is_native=is_native).answer

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """See ``JobStore.lease``.

        If ``next_due_at`` found nothing due, and nothing has been written since, the file is not
        touched.
        """
        writer = self._open_writer()
        now = to_utc(now, "now")
        if self._is_idle(request, now):
            return []
        return await writer.run(
            lambda connection: lease_jobs(connection, request, now), request.limit
        )

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        """See ``OpenStore.preview_lease``."""
        writer, now = self._open_writer(), to_utc(now, "now")
        if self._is_idle(request, now) and not counts_running(request.caps):
            return LeasePreview([], {})
        return await writer.run(lambda connection: preview_jobs(connection, request, now))

    def _is_idle(self, request: LeaseRequest, now: datetime) -> bool:
        """Whether nothing is due, as far as is known without touching the file."""
        if not self._due_cache.found:
            return False
        choice = make_choice(request.queues, request.tenants)
        return self._due_cache.find(self._reader.read_version(), choice, now) is not None

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``JobStore.extend``."""
        writer = self._open_writer()
        to_utc(now, "now")
        until, leases = to_utc(until, "until"), tuple(held)
        return await writer.run(
            lambda connection: extend_leases(connection, leases, until), len(leases)
        )

    def make_keeper(self) -> LeaseKeeper:
        """A lease keeper with a connection of its own."""
        self._refuse_when_unusable()
        return Keeper(self._settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """See ``JobStore.apply``."""
        now, decided, is_native = to_utc(now, "now"), tuple(changes), self.uses_native_paths
        return await self._commit(
            lambda connection: apply_changes(connection, decided, now, is_native=is_native),
            len(decided),
        )

    async def _find_next_due(
        self, now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> datetime | None:
        version, choice = self._open_reader().read_version(), make_choice(queues, tenants)
        due = self._due_cache.find(version, choice, now)
        if due is None:
            due = NextDue(await super()._find_next_due(now, queues, tenants))
            self._due_cache.put(version, choice, due, now)
        return due.at

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen``; writes of other processes are not heard."""
        self._refuse_when_unusable()
        return self._wakeups.listen(queues, tenants)

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen_for_end``; ends in other processes are not heard."""
        self._refuse_when_unusable()
        check_name("tenant", tenant)
        return self._wakeups.listen_for_end(job_ids)

    def read_version(self) -> int | None:
        """See ``Watchable``: shows that other processes have written."""
        return self._open_reader().read_version()

    async def _create_documents(self, kept: Sequence[KeptDocument]) -> int:
        return await self._open_writer().run(
            lambda connection: finish(create_documents(Session(connection), kept)), len(kept)
        )

    async def read_clock(self) -> datetime | None:
        """None: a file uses the clock of its host."""
        return None

    async def close(self) -> None:
        """Release the file, and end the waits of listeners."""
        await super().close()
        self._wakeups.close()

    async def _run(self, work: Work[Session, Answer]) -> Answer:
        return await self._open_reader().run(lambda connection: finish(work(Session(connection))))

    async def _run_plan(self, make_plan: Callable[[], Plan[Answer]]) -> Answer:
        return await self._commit(lambda connection: commit_plan(connection, make_plan()))

    async def _commit(
        self,
        work: Callable[[apsw.Connection], Committed[Answer]],
        write_count: int = 1,
        one_row: OneRow[Committed[Answer]] | None = None,
    ) -> Answer:
        """Do the work in a transaction, and wake listeners once it is durable."""
        committed = await self._open_writer().run(work, write_count, self._ring, one_row)
        return committed.answer

    def _ring(self, committed: Committed[Any]) -> None:
        if self._wakeups.listeners or self._wakeups.awaited:
            self._wakeups.ring(committed)
