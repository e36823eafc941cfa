"""The verbs of ``JobStore`` on the two threads of the file."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rota.jobs import (
    Attempt,
    Change,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Page,
    check_limit,
)
from rota.stores.kernel.settlement import check_path
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
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.jobs import editing, reading
from rota.stores.sqlite.jobs.insertion import Asked, insert_jobs
from rota.stores.sqlite.jobs.keeper import Keeper
from rota.stores.sqlite.jobs.leasing.leases import extend_leases, lease_jobs
from rota.stores.sqlite.jobs.leasing.lulls import Lull, Lulls, make_choice
from rota.stores.sqlite.jobs.settling import Settled, apply_changes
from rota.stores.sqlite.threads import OpenFile, Reader, Writer
from rota.stores.wakeups import Wakeups
from rota.triggers.zone import to_utc

_USUAL_PATH = (JobStatus.RUNNING, JobStatus.COMPLETED)


class JobVerbs(OpenFile):
    """What has been handed over is carried out, also when its caller is cancelled meanwhile."""

    def __init__(self, settings: SqliteSettings, writer: Writer, reader: Reader) -> None:
        super().__init__(settings, writer, reader)
        self._wakeups = Wakeups()
        self._lulls = Lulls()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none; see the protocol."""
        writer = self._open_writer()
        asked = Asked.of(jobs, to_utc(now, "now"))
        return await writer.run(
            lambda connection: insert_jobs(connection, asked), len(asked.jobs), self._tell_inserted
        )

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """As ``insert``, in a transaction on the caller's own ``apsw.Connection`` to the file.

        It is used at once, in the caller's thread. Whoever listens is not told: SQLite tells
        nobody that others have committed. ``read_version`` shows it.
        """
        asked = Asked.of(jobs, to_utc(now, "now"))
        with self._joined(connection) as joined:
            return insert_jobs(joined, asked)

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Hand out due jobs, each to one caller only; see the protocol.

        At most ``MOST_PROMOTED`` (in ``leasing.taking``) of the jobs that have become due join in
        with each call. Where nothing has been due since ``next_due_at`` was last asked, and nothing
        has been written, there is nothing to lease, and the file is left alone.
        """
        writer = self._open_writer()
        now = to_utc(now, "now")
        if self._lulls:
            choice = make_choice(request.queues, request.tenants)
            version = self._reader.read_version()
            if self._lulls.find(version, choice, now) is not None:
                return []
        return await writer.run(
            lambda connection: lease_jobs(connection, request, now), request.limit
        )

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        writer = self._open_writer()
        to_utc(now, "now")
        until, leases = to_utc(until, "until"), tuple(held)
        return await writer.run(
            lambda connection: extend_leases(connection, leases, until), len(leases)
        )

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a connection of its own."""
        self._refuse_when_unusable()
        return Keeper(self._settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds; see the protocol."""
        writer = self._open_writer()
        now, decided = to_utc(now, "now"), tuple(changes)
        for change in decided:
            if change.path != _USUAL_PATH:
                check_path(change)
        settled = await writer.run(
            lambda connection: apply_changes(connection, decided, now),
            len(decided),
            self._tell_settled,
        )
        return settled.answers

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has run out, the longest ago first."""
        reader = self._open_reader()
        now = to_utc(now, "now")
        check_count(limit)
        if after is not None:
            expiry_key(after)
        return await reader.run(
            lambda connection: reading.find_expired(connection, now, limit, after)
        )

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """The first instant, from now on, at which a READY job is due."""
        reader = self._open_reader()
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        now = to_utc(now, "now")
        version, choice = reader.read_version(), make_choice(queues, tenants)
        lull = self._lulls.find(version, choice, now)
        if lull is None:
            lull = Lull(
                await reader.run(
                    lambda connection: reading.next_due_at(connection, now, queues, tenants)
                )
            )
            self._lulls.note(version, choice, lull, now)
        return lull.due_at

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """Listen for as long as the context lasts; what other processes do is not heard."""
        self._refuse_when_unusable()
        return self._wakeups.listen(queues, tenants)

    def read_version(self) -> int | None:
        """See ``Watchable``: the way to notice what other processes do."""
        return self._open_reader().read_version()

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """The tenant's jobs that exist among these, without those that cannot be read."""
        wanted = tuple(job_ids)
        return await self._open_reader().run(
            lambda connection: reading.get(connection, tenant, wanted)
        )

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """A page of the tenant's jobs, without those that cannot be read."""
        reader = self._open_reader()
        check_limit(limit)
        narrowed = _narrowed(wanted, tenant)
        return await reader.run(
            lambda connection: reading.find(connection, narrowed, cursor, limit)
        )

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        """How many jobs of the tenant the filter accepts."""
        narrowed = _narrowed(wanted, tenant)
        return await self._open_reader().run(lambda connection: reading.count(connection, narrowed))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """The attempts of a job that did not succeed, the first one first."""
        return await self._open_reader().run(
            lambda connection: reading.read_attempts(connection, tenant, job_id)
        )

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """Change fields of a job; see the protocol."""
        writer = self._open_writer()
        asked = editing.Amendment(tenant, job_id, dict(fields), to_utc(now, "now"))
        return await writer.run(
            lambda connection: editing.amend(connection, asked), 1, self._tell_amended
        )

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """Remove a job at whatever stage; see the protocol."""
        return await self._open_writer().run(
            lambda connection: editing.delete(connection, tenant, job_id)
        )

    async def prune(self, ended_before: datetime, limit: int) -> int:
        """Remove jobs that ended before then and on which none depends."""
        writer = self._open_writer()
        before = to_utc(ended_before, "ended_before")
        check_count(limit)
        return await writer.run(lambda connection: editing.prune(connection, before, limit), limit)

    async def close(self) -> None:
        """Release the file, and tell whoever listens."""
        await super().close()
        self._wakeups.close()

    def _tell_inserted(self, answers: Sequence[Inserted]) -> None:
        self._ring(answer.job for answer in answers if not answer.is_existing)

    def _tell_settled(self, settled: Settled) -> None:
        self._wakeups.ring(settled.ready)

    def _tell_amended(self, job: Job) -> None:
        self._ring([job])

    def _ring(self, jobs: Iterable[Job]) -> None:
        self._wakeups.ring(job for job in jobs if job.status is JobStatus.READY)


def _narrowed(wanted: JobFilter | None, tenant: str) -> JobFilter:
    return replace(wanted or JobFilter(), tenant=tenant)
