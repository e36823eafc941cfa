"""The verbs of jobs, struck by faults: those that work on jobs, and those that look at them."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from rota.jobs import Attempt, Change, Job, JobFilter, JobId, Page
from rota.stores.jobs import (
    Applied,
    HeldLease,
    Inserted,
    JobStore,
    LeaseKeeper,
    LeaseRequest,
    Listener,
    QueueDepth,
)
from rota.testing.faults.striking import Striker


class JobVerbs:
    """As the other store, unless struck."""

    _striker: Striker
    _jobs: JobStore

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        return await self._striker.suffer("insert", lambda: self._jobs.insert(jobs, now))

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        return await self._striker.suffer(
            "insert_within", lambda: self._jobs.insert_within(connection, jobs, now)
        )

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        return await self._striker.suffer("lease", lambda: self._jobs.lease(request, now))

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return await self._striker.suffer("extend", lambda: self._jobs.extend(held, until, now))

    def make_keeper(self) -> LeaseKeeper:
        """The other store's keeper; its ``extend`` is struck as the verb ``keep``."""
        return _FaultyKeeper(self._jobs.make_keeper(), self._striker)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        return await self._striker.suffer("apply", lambda: self._jobs.apply(changes, now))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        return await self._striker.suffer(
            "amend", lambda: self._jobs.amend(tenant, job_id, fields, now)
        )

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        return await self._striker.suffer("delete", lambda: self._jobs.delete(tenant, job_id))

    async def prune(self, ended_before: datetime, limit: int) -> int:
        return await self._striker.suffer("prune", lambda: self._jobs.prune(ended_before, limit))


class JobQuestions:
    """As the other store, unless struck."""

    _striker: Striker
    _jobs: JobStore

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        return await self._striker.suffer(
            "find_expired", lambda: self._jobs.find_expired(now, limit, after)
        )

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        return await self._striker.suffer(
            "next_due_at", lambda: self._jobs.next_due_at(now, queues, tenants)
        )

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator[Listener]:
        """The other store's listener. A wake-up is a call ``wake``; one that fails is lost."""
        async with self._jobs.listen(queues, tenants) as listener:
            yield _FaultyListener(listener, self._striker)

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        return await self._striker.suffer("get", lambda: self._jobs.get(tenant, job_ids))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        return await self._striker.suffer(
            "find", lambda: self._jobs.find(tenant, wanted, cursor, limit)
        )

    async def count(self, tenant: str, wanted: JobFilter | None = None) -> int:
        return await self._striker.suffer("count", lambda: self._jobs.count(tenant, wanted))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        return await self._striker.suffer("attempts", lambda: self._jobs.attempts(tenant, job_id))

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        return await self._striker.suffer(
            "find_dependents", lambda: self._jobs.find_dependents(tenant, job_ids, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        return await self._striker.suffer("survey", lambda: self._jobs.survey(now, tenant))


class _FaultyKeeper:
    def __init__(self, keeper: LeaseKeeper, striker: Striker) -> None:
        self._keeper = keeper
        self._striker = striker

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        return self._striker.suffer_at_once("keep", lambda: self._keeper.extend(held, until, now))

    def close(self) -> None:
        self._keeper.close()


class _FaultyListener:
    def __init__(self, listener: Listener, striker: Striker) -> None:
        self._listener = listener
        self._striker = striker

    async def wait(self) -> None:
        """Until a wake-up comes that is not struck: who waits cannot know of the others."""
        is_lost = True
        while is_lost:
            await self._listener.wait()
            _, fault = self._striker.meet("wake")
            is_lost = fault.failure is not None
