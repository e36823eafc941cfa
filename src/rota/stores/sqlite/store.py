"""The store on a SQLite file: documents and jobs."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, TypeVar

import apsw

from rota.jobs import Attempt, Change, Job, JobFilter, JobId, JobStatus, Page, check_limit
from rota.stores.kernel.limits import counts_running
from rota.stores.kernel.records import JobPortion, check_portion, load_jobs, walk
from rota.stores.kernel.settlement import check_path
from rota.stores.kernel.unit import Plan
from rota.stores.kernel.verbs import EditVerbs, narrow
from rota.stores.protocol import (
    Applied,
    HeldLease,
    Inserted,
    KeptDocument,
    LeaseKeeper,
    LeasePreview,
    LeaseRequest,
    Listener,
    Portion,
    QueueDepth,
    Reach,
    Record,
    check_choice,
    check_count,
    check_name,
    expiry_key,
)
from rota.stores.sqlite import read
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.documents import DocumentVerbs
from rota.stores.sqlite.lease import Keeper, extend_leases, lease_jobs, preview_jobs
from rota.stores.sqlite.read import DueCache, NextDue, make_choice
from rota.stores.sqlite.records import load_documents, read_document_portion, read_job_portion
from rota.stores.sqlite.threads import Reader, Writer
from rota.stores.sqlite.unit import (
    Committed,
    Submitted,
    apply_changes,
    commit_plan,
    insert_at_once,
    insert_jobs,
)
from rota.stores.wakeups import Wakeups
from rota.triggers.zone import to_utc

Answer = TypeVar("Answer")
_USUAL_PATH = (JobStatus.RUNNING, JobStatus.COMPLETED)


class SqliteStore(DocumentVerbs, EditVerbs):
    """A store in one file, for every process on this host that opens it.

    It belongs to the process that opened it: a forked child is refused and opens its own. A
    submitted call is carried out even if its caller is cancelled meanwhile.
    """

    reach = Reach.HOST
    uses_native_paths = True
    """False sends every insert and change through the kernel; tests compare the two."""

    def __init__(self, settings: SqliteSettings, writer: Writer, reader: Reader) -> None:
        super().__init__(settings, writer, reader)
        self._wakeups = Wakeups()
        self._due_cache = DueCache()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """See ``JobStore.insert``."""
        self._refuse_when_unusable()
        submitted = Submitted.of(jobs, to_utc(now, "now"))
        is_native = self.uses_native_paths
        is_plain = is_native and len(jobs) == 1 and not jobs[0].dependencies
        return await self._commit(
            lambda connection: insert_jobs(connection, submitted, is_native=is_native),
            len(jobs),
            (lambda connection: insert_at_once(connection, submitted)) if is_plain else None,
        )

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in a transaction on the caller's own ``apsw.Connection`` to the file.

        The connection is used at once, in the caller's thread. Listeners are not woken: SQLite does
        not report the commits of others. ``read_version`` shows them.
        """
        submitted = Submitted.of(jobs, to_utc(now, "now"))
        with self._joined(connection) as joined:
            return insert_jobs(joined, submitted, is_native=self.uses_native_paths).answer

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
        if not self._due_cache:
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
        self._refuse_when_unusable()
        now, decided, is_native = to_utc(now, "now"), tuple(changes), self.uses_native_paths
        for change in decided:
            if change.path != _USUAL_PATH:
                check_path(change)
        return await self._commit(
            lambda connection: apply_changes(connection, decided, now, is_native=is_native),
            len(decided),
        )

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """See ``JobStore.find_expired``."""
        reader = self._open_reader()
        now = to_utc(now, "now")
        check_count(limit)
        if after is not None:
            expiry_key(after)
        return await reader.run(lambda connection: read.find_expired(connection, now, limit, after))

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """See ``JobStore.next_due_at``."""
        reader = self._open_reader()
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        now = to_utc(now, "now")
        version, choice = reader.read_version(), make_choice(queues, tenants)
        due = self._due_cache.find(version, choice, now)
        if due is None:
            due = NextDue(
                await reader.run(
                    lambda connection: read.next_due_at(connection, now, queues, tenants)
                )
            )
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

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """See ``JobStore.get``."""
        wanted = tuple(job_ids)
        return await self._open_reader().run(
            lambda connection: read.get(connection, tenant, wanted)
        )

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        """See ``JobStore.results``."""
        wanted = tuple(job_ids)
        return await self._open_reader().run(
            lambda connection: read.read_results(connection, tenant, wanted)
        )

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """See ``JobStore.find``."""
        reader = self._open_reader()
        check_limit(limit)
        narrowed = narrow(wanted, tenant)
        return await reader.run(lambda connection: read.find(connection, narrowed, cursor, limit))

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        """See ``JobStore.count``."""
        narrowed = narrow(wanted, tenant)
        reader = self._open_reader()
        return await reader.run(lambda connection: read.count(connection, narrowed, limit))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """See ``JobStore.attempts``."""
        return await self._open_reader().run(
            lambda connection: read.read_attempts(connection, tenant, job_id)
        )

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """See ``JobStore.find_dependents``."""
        check_count(limit)
        named = tuple(job_ids)
        return await self._open_reader().run(
            lambda connection: read.find_dependents(connection, tenant, named, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """See ``JobStore.survey``."""
        reader = self._open_reader()
        now = to_utc(now, "now")
        return await reader.run(lambda connection: read.survey(connection, now, tenant))

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """See ``PortableStore.dump``."""
        reader = self._open_reader()
        check_portion(limit)

        async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
            return await reader.run(
                lambda connection: read_document_portion(connection, collection, key, limit)
            )

        async def read_jobs(place: str) -> JobPortion:
            return await reader.run(lambda connection: read_job_portion(connection, place, limit))

        return await walk(cursor, read_documents, read_jobs)

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """See ``PortableStore.load``; one call is one step."""
        now, kept = to_utc(now, "now"), tuple(records)

        def load(connection: apsw.Connection) -> int:
            new_count = commit_plan(connection, load_jobs(kept, now)).answer
            return new_count + load_documents(connection, kept)

        return await self._open_writer().run(load, len(kept))

    async def read_clock(self) -> datetime | None:
        """None: a file uses the clock of its host."""
        return None

    async def close(self) -> None:
        """Release the file, and end the waits of listeners."""
        await super().close()
        self._wakeups.close()

    async def _run_plan(self, make_plan: Callable[[], Plan[Answer]]) -> Answer:
        return await self._commit(lambda connection: commit_plan(connection, make_plan()))

    async def _commit(
        self,
        work: Callable[[apsw.Connection], Committed[Answer]],
        write_count: int = 1,
        at_once: Callable[[apsw.Connection], Committed[Answer] | None] | None = None,
    ) -> Answer:
        """Do the work in a transaction, and wake listeners once it is durable."""
        committed = await self._open_writer().run(work, write_count, self._wake, at_once)
        return committed.answer

    def _wake(self, committed: Committed[Any]) -> None:
        self._wakeups.ring_partitions(committed.ready)
        self._wakeups.ring_ends(committed.ended)
