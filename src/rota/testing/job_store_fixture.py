"""Shared by the tests of the job store contract: an open store and shorthands."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest

from rota.jobs import Job, JobId, JobStatus, Outcome, Succeeded, decide_outcome
from rota.stores.protocol import Applied, JobStore, LeaseRequest

JobStoreFactory: TypeAlias = Callable[[], Awaitable[JobStore]]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
TENANT = "default"


class JobStoreFixture:
    """Opens a store before each test and closes it afterwards."""

    @pytest.fixture
    async def jobs(self, job_store_factory: JobStoreFactory) -> AsyncIterator[JobStore]:
        """An empty store."""
        store = await job_store_factory()
        yield store
        await store.close()


def a_request(**fields: Any) -> LeaseRequest:
    """A request for up to a hundred jobs, for a minute."""
    return LeaseRequest(**{"worker": "worker", "limit": 100, "lease_for": MINUTE, **fields})


async def take(jobs: JobStore, now: datetime = NOW, **fields: Any) -> list[Job]:
    """Lease what is due; ``fields`` are those of the request."""
    return await jobs.lease(a_request(**fields), now)


async def start(jobs: JobStore, made: Sequence[Job]) -> list[Job]:
    """Insert jobs, and lease what is due."""
    await jobs.insert(made, NOW)
    return await take(jobs)


async def end(
    jobs: JobStore, leased: Job, outcome: Outcome | None = None, now: datetime = NOW
) -> Applied:
    """Settle a leased job with an outcome, or well."""
    change = decide_outcome(leased, outcome or Succeeded(), now)
    (applied,) = await jobs.apply([change], now)
    return applied


async def statuses(jobs: JobStore, *wanted: Job) -> list[JobStatus | None]:
    """The present statuses of these jobs; None for one that is gone."""
    found = [await find(jobs, job.id, job.tenant) for job in wanted]
    return [None if job is None else job.status for job in found]


async def find(jobs: JobStore, job_id: JobId, tenant: str = TENANT) -> Job | None:
    """One job, as it is kept."""
    return (await jobs.get(tenant, [job_id])).get(job_id)


async def everything(jobs: JobStore, tenant: str = TENANT) -> list[Job]:
    """Up to a hundred jobs of a tenant, by id."""
    return sorted((await jobs.find(tenant, limit=100)).items, key=lambda job: job.id)


def names(jobs: Iterable[Job]) -> list[str]:
    """What the jobs are called, in their order."""
    return [job.name for job in jobs]


def expect_true(is_so: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Fail, and say why, when it is not so."""
    if not is_so:
        raise AssertionError(otherwise)
