"""The verbs of a store that are passed on as they are."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any

from rota.jobs import Attempt, Job, JobFilter, JobId, Page
from rota.stores.protocol import Document, DocumentWrite, Listener, QueueDepth


class PassedQuestions:
    """Questions about jobs: they leave no trace, since they change nothing."""

    _store: Any

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        found: list[Job] = await self._store.find_expired(now, limit, after)
        return found

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        due_at: datetime | None = await self._store.next_due_at(now, queues, tenants)
        return due_at

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        listener: AbstractAsyncContextManager[Listener] = self._store.listen(queues, tenants)
        return listener

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        listener: AbstractAsyncContextManager[Listener]
        listener = self._store.listen_for_end(tenant, job_ids)
        return listener

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        found: dict[JobId, bytes] = await self._store.results(tenant, job_ids)
        return found

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        found: dict[JobId, Job] = await self._store.get(tenant, job_ids)
        return found

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        page: Page = await self._store.find(tenant, wanted, cursor, limit)
        return page

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        job_count: int = await self._store.count(tenant, wanted, limit)
        return job_count

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        attempts: list[Attempt] = await self._store.attempts(tenant, job_id)
        return attempts

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        dependents: list[Job] = await self._store.find_dependents(tenant, job_ids, limit)
        return dependents

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        depths: list[QueueDepth] = await self._store.survey(now, tenant)
        return depths

    async def read_clock(self) -> datetime | None:
        clock: datetime | None = await self._store.read_clock()
        return clock


class PassedDocuments:
    """The document verbs, of which a history of jobs says nothing."""

    _store: Any

    def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        pages: AsyncIterator[Sequence[Document]] = self._store.scan(collection)
        return pages

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = await self._store.read(collection, keys)
        return found

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        written: list[int | None] = await self._store.write_each(writes)
        return written

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._store.write_all(writes)

    async def read_within(
        self, connection: Any, collection: str, keys: Sequence[str]
    ) -> dict[str, Document]:
        found: dict[str, Document] = await self._store.read_within(connection, collection, keys)
        return found

    async def write_within(self, connection: Any, writes: Sequence[DocumentWrite]) -> None:
        await self._store.write_within(connection, writes)
