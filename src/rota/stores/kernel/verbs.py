"""The verbs that every backend does alike: arguments are checked and passed on here."""

from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from rota.clock.protocol import to_utc
from rota.jobs import Attempt, Job, JobFilter, JobId, Page, check_limit
from rota.jobs.retention import Expiry
from rota.stores.calls import Calls, Groups, is_about_none
from rota.stores.kernel import edits
from rota.stores.kernel.records import (
    JobPortion,
    check_ids,
    check_job_ids,
    check_portion,
    load_jobs,
    walk,
)
from rota.stores.kernel.unit import Plan
from rota.stores.opened import ClosableStore
from rota.stores.protocol import (
    Document,
    DocumentWrite,
    EndedPlace,
    HeldLease,
    Inserted,
    KeptDocument,
    LeasePreview,
    LeaseRequest,
    Listener,
    Portion,
    Pruned,
    QueueDepth,
    Record,
    check_choice,
    check_count,
    check_name,
    check_names,
    checked,
    expiry_key,
)

Result = TypeVar("Result")
Handle = TypeVar("Handle")
Handle_contra = TypeVar("Handle_contra", contravariant=True)
Work: TypeAlias = Callable[[Handle], Coroutine[Any, Any, Result]]

PAGE_LENGTH = 1000
"""How many documents are scanned at a time."""


class EditVerbs(ABC):
    """The verbs that the kernel decides alone. For what they mean, see the protocol."""

    _needs_uuids = False
    """Whether the backend can keep only ids that are UUIDs."""

    @abstractmethod
    async def _run_plan(self, make_plan: Callable[[], Plan[Result]]) -> Result:
        """Run a plan in a transaction, again if it must be repeated, and wake listeners."""

    @abstractmethod
    async def _create_documents(self, documents: Sequence[KeptDocument]) -> int:
        """Create those that do not exist, with their versions; how many."""

    async def check_insertion(self, jobs: Sequence[Job], now: datetime) -> None:
        """See ``OpenStore.check_insertion``."""
        now, asked = to_utc(now, "now"), tuple(jobs)
        if self._needs_uuids:
            check_ids([job.id for job in asked])
        await self._run_plan(lambda: edits.check_insertion(asked, now))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """See ``JobStore.amend``."""
        asked = edits.Amendment(tenant, job_id, dict(fields), to_utc(now, "now"))
        return await self._run_plan(lambda: edits.amend(asked))

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """See ``JobStore.delete``."""
        return await self._run_plan(lambda: edits.delete(tenant, job_id))

    async def erase(self, tenant: str, job_ids: Collection[JobId], now: datetime) -> list[JobId]:
        """See ``OpenStore.erase``."""
        now, asked = to_utc(now, "now"), tuple(job_ids)
        return await self._run_plan(lambda: edits.erase(tenant, asked, now))

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """See ``JobStore.prune``."""
        before = to_utc(ended_before, "ended_before")
        asked = edits.Pruning(before, check_count(limit), expiry, after)
        return await self._run_plan(lambda: edits.prune(asked))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """See ``PortableStore.load``. Documents are one step, and jobs another."""
        now, kept = to_utc(now, "now"), tuple(records)
        if self._needs_uuids:
            check_job_ids(kept)
        documents = [each for each in kept if isinstance(each, KeptDocument)]
        new_count = await self._create_documents(documents) if documents else 0
        return new_count + await self._run_plan(lambda: load_jobs(kept, now))


class Reads(Protocol[Handle_contra]):
    """The module of a backend that reads jobs. A filter has a tenant."""

    async def get(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], /
    ) -> dict[JobId, Job]: ...

    async def results(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], /
    ) -> dict[JobId, bytes]: ...

    async def find(
        self, handle: Handle_contra, wanted: JobFilter, cursor: str | None, limit: int, /
    ) -> Page: ...

    async def count(
        self, handle: Handle_contra, wanted: JobFilter, limit: int | None, /
    ) -> int: ...

    async def attempts(
        self, handle: Handle_contra, tenant: str, job_id: JobId, /
    ) -> list[Attempt]: ...

    async def find_dependents(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], limit: int, /
    ) -> list[Job]: ...

    async def survey(
        self, handle: Handle_contra, now: datetime, tenant: str | None, /
    ) -> list[QueueDepth]: ...

    async def find_expired(
        self,
        handle: Handle_contra,
        now: datetime,
        limit: int,
        after: tuple[datetime, JobId] | None,
        /,
    ) -> list[Job]: ...

    async def next_due_at(
        self,
        handle: Handle_contra,
        now: datetime,
        queues: Collection[str] | None,
        tenants: Collection[str] | None,
        /,
    ) -> datetime | None: ...


class Records(Protocol[Handle_contra]):
    """The module of a backend that reads everything, portion by portion."""

    async def read_document_portion(
        self, handle: Handle_contra, collection: str, key: str, limit: int, /
    ) -> Sequence[KeptDocument]: ...

    async def read_job_portion(
        self, handle: Handle_contra, place: str, limit: int, /
    ) -> JobPortion: ...


class Leases(Protocol[Handle_contra]):
    """The module of a backend that leases jobs."""

    async def preview(
        self, handle: Handle_contra, request: LeaseRequest, now: datetime, /
    ) -> LeasePreview: ...

    async def extend(
        self, handle: Handle_contra, held: Sequence[HeldLease], until: datetime, /
    ) -> list[bool]: ...


class Documents(Protocol[Handle_contra]):
    """The module of a backend that reads and writes documents."""

    async def scan_page(
        self, handle: Handle_contra, collection: str, after: str, limit: int, /
    ) -> list[Document]: ...

    async def read_documents(
        self, handle: Handle_contra, collection: str, keys: Sequence[str], /
    ) -> dict[str, Document]: ...

    async def create_documents(
        self, handle: Handle_contra, documents: Sequence[KeptDocument], /
    ) -> int: ...


class Notices(Protocol):
    """Wakes the listeners of this process, also when other processes write."""

    def listen(
        self, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> AbstractAsyncContextManager[Listener]: ...

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]: ...


class ServerVerbs(EditVerbs, ClosableStore, Generic[Handle]):
    """The verbs of a store on a server that only pass their arguments on, once checked."""

    _reads: Reads[Handle]
    _records: Records[Handle]
    _leases: Leases[Handle]
    _documents: Documents[Handle]
    _notices: Notices

    @abstractmethod
    async def _run(self, work: Work[Handle, Result]) -> Result:
        """Do the work with a connection or the like, again if it must be repeated."""

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """See ``JobStore.get``."""
        wanted = tuple(job_ids)
        return await self._run(lambda handle: self._reads.get(handle, tenant, wanted))

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        """See ``JobStore.results``."""
        wanted = tuple(job_ids)
        return await self._run(lambda handle: self._reads.results(handle, tenant, wanted))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """See ``JobStore.find``."""
        check_limit(limit)
        narrowed = narrow(wanted, tenant)
        return await self._run(lambda handle: self._reads.find(handle, narrowed, cursor, limit))

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        """See ``JobStore.count``."""
        narrowed = narrow(wanted, tenant)
        return await self._run(lambda handle: self._reads.count(handle, narrowed, limit))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """See ``JobStore.attempts``."""
        return await self._run(lambda handle: self._reads.attempts(handle, tenant, job_id))

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """See ``JobStore.find_dependents``."""
        check_count(limit)
        named = tuple(job_ids)
        return await self._run(
            lambda handle: self._reads.find_dependents(handle, tenant, named, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """See ``JobStore.survey``."""
        now = to_utc(now, "now")
        return await self._run(lambda handle: self._reads.survey(handle, now, tenant))

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """See ``JobStore.find_expired``."""
        now, key = to_utc(now, "now"), None if after is None else expiry_key(after)
        check_count(limit)
        return await self._run(lambda handle: self._reads.find_expired(handle, now, limit, key))

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """See ``JobStore.next_due_at``."""
        now = to_utc(now, "now")
        check_choice(queues, "queues")
        check_choice(tenants, "tenants")
        return await self._find_next_due(now, queues, tenants)

    async def _find_next_due(
        self, now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
    ) -> datetime | None:
        return await self._run(lambda handle: self._reads.next_due_at(handle, now, queues, tenants))

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        """See ``OpenStore.preview_lease``."""
        now = to_utc(now, "now")
        return await self._run(lambda handle: self._leases.preview(handle, request, now))

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``JobStore.extend``."""
        to_utc(now, "now")
        until, leases = to_utc(until, "until"), tuple(held)
        return await self._run(lambda handle: self._leases.extend(handle, leases, until))

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen``."""
        self._refuse_when_unusable()
        return self._notices.listen(queues, tenants)

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen_for_end``."""
        self._refuse_when_unusable()
        check_name("tenant", tenant)
        return self._notices.listen_for_end(tenant, job_ids)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """See ``DocumentStore.scan``."""
        check_name("collection", collection)
        after, length = "", PAGE_LENGTH
        while length == PAGE_LENGTH:
            page = await self._scan_page(collection, after)
            length = len(page)
            if page:
                after = page[-1].key
                yield page

    async def _scan_page(self, collection: str, after: str) -> list[Document]:
        return await self._run(
            lambda handle: self._documents.scan_page(handle, collection, after, PAGE_LENGTH)
        )

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """See ``DocumentStore.read``."""
        check_names(collection, keys)
        named = tuple(keys)
        return await self._run(
            lambda handle: self._documents.read_documents(handle, collection, named)
        )

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """See ``PortableStore.dump``."""
        check_portion(limit)

        async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
            return await self._run(
                lambda handle: self._records.read_document_portion(handle, collection, key, limit)
            )

        async def read_jobs(place: str) -> JobPortion:
            return await self._run(
                lambda handle: self._records.read_job_portion(handle, place, limit)
            )

        return await walk(cursor, read_documents, read_jobs)

    async def _create_documents(self, documents: Sequence[KeptDocument]) -> int:
        return await self._run(lambda handle: self._documents.create_documents(handle, documents))


MOST_TOGETHER = 200
"""How many jobs of different callers one call inserts."""


class SingleInserts(ClosableStore):
    """``insert`` on a server: single jobs that come while one is being inserted go together."""

    _singles: Groups[tuple[Job, datetime], Inserted]
    _is_inserting = False
    """Whether a job is on its way that came alone."""

    @abstractmethod
    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Store all of these jobs or none."""

    def _group_singles(
        self, calls: Calls, is_about_one: Callable[[Exception], bool] = is_about_none
    ) -> None:
        self._singles = Groups(calls, self._insert_together, MOST_TOGETHER, is_about_one)

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """See ``JobStore.insert``."""
        self._refuse_when_unusable()
        now, asked = to_utc(now, "now"), tuple(jobs)
        if not self._goes_with_others(asked):
            return await self._insert(asked, now)
        if self._is_inserting:
            return [await self._singles.run((asked[0], now))]
        self._is_inserting = True  # alone it needs no group, which costs a tenth of the time
        try:
            return await self._insert(asked, now)
        finally:
            self._is_inserting = False

    def _goes_with_others(self, jobs: Sequence[Job]) -> bool:
        """Whether to insert it together with the jobs of other callers."""
        return len(jobs) == 1 and jobs[0].idempotency_key is None and not jobs[0].dependencies

    async def close(self) -> None:
        """See ``ClosableStore.close``."""
        if self._closing is None:
            self._refuse_when_unusable()  # in a forked child
            await self._singles.finish()
        await super().close()

    async def _insert_together(self, singles: Sequence[tuple[Job, datetime]]) -> list[Inserted]:
        return await self._insert([job for job, _ in singles], max(now for _, now in singles))


class SqlDocuments(Documents[Handle_contra], Protocol[Handle_contra]):
    """The same for an SQL database."""

    async def write_all(
        self, handle: Handle_contra, writes: Iterable[DocumentWrite], /
    ) -> None: ...


class SqlVerbs(ServerVerbs[Handle]):
    """The verbs of a store in an SQL database that only read, or join a caller's transaction."""

    _documents: SqlDocuments[Handle]

    @abstractmethod
    def _joined(self, connection: Any) -> AbstractContextManager[Handle]:
        """The caller's own connection, in its open transaction; errors are translated."""

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        """See ``TransactionalStore.read_within``."""
        check_names(collection, keys)
        with self._joined(connection) as handle:
            return await self._documents.read_documents(handle, collection, tuple(keys))

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        """See ``TransactionalStore.write_within``."""
        accepted = tuple(checked(writes))
        with self._joined(connection) as handle:
            await self._documents.write_all(handle, accepted)


def narrow(wanted: JobFilter | None, tenant: str) -> JobFilter:
    """The filter for the jobs of one tenant."""
    return replace(wanted or JobFilter(), tenant=tenant)
