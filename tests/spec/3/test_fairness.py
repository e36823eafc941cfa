"""One tenant's backlog does not hold up another's job: how long it waits, counted in jobs."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from rota import open_store
from rota.jobs import Job, make_job_ids
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Worker, WorkerSettings

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BACKLOG = 100_000
INSERTED_AT_ONCE = 5_000
BATCH = 10


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """An empty store of either sort."""
    is_memory = request.param == "memory"
    url = "memory://" if is_memory else f"sqlite:///{tmp_path / 'rota.db'}"
    async with await open_store(url) as opened:
        yield opened


async def pile_up(store: OpenStore, tenant: str, count: int) -> None:
    ids = make_job_ids(NOW, crc32(tenant.encode()), count)
    for first in range(0, count, INSERTED_AT_ONCE):
        chosen = ids[first : first + INSERTED_AT_ONCE]
        jobs = [a_job(id=each, tenant=tenant, kind="work", created_at=NOW) for each in chosen]
        await store.insert(jobs, NOW)


class Arrivals:
    """Workers that are busy with the jobs of others, and jobs of one tenant that come later."""

    def __init__(self, store: OpenStore, worker_count: int) -> None:
        self._store = store
        self._clock = VirtualClock(NOW)
        self._random = Random(5)
        self._starts: list[Job] = []
        settings = WorkerSettings(batch=BATCH, concurrency=BATCH)
        self._workers = [
            Worker(store, {"work": self._work}, clock=self._clock, settings=settings)
            for _ in range(worker_count)
        ]

    async def measure(self, *tenants: str) -> tuple[int, timedelta]:
        """How many jobs of others start before one of each of these tenants, and how long it waits.

        They come one after another, each when the one before it is done: the most.
        """
        runs = [asyncio.create_task(worker.run()) for worker in self._workers]
        waits: list[tuple[int, timedelta]] = []
        for tenant in tenants:
            await self._clock.advance(self._random.uniform(1, 2) * SECOND)
            waits.append(await self._let_one_come(tenant))
        for worker in self._workers:
            worker.stop()
        await self._clock.run(asyncio.wait(runs))
        return max(job_count for job_count, _ in waits), max(waited for _, waited in waits)

    async def _let_one_come(self, tenant: str) -> tuple[int, timedelta]:
        job = a_job(tenant=tenant, kind="work", created_at=self._clock.now())
        started_count = len(self._starts)
        await self._store.insert([job], job.created_at)
        await self._clock.advance(4 * SECOND)
        place = [started.id for started in self._starts].index(job.id)
        lease = self._starts[place].lease
        assert lease is not None
        return place - started_count, lease.taken_at - job.created_at

    async def _work(self, context: Context) -> None:
        self._starts.append(context.job)
        await self._clock.sleep(self._random.uniform(0.5, 1.5) * SECOND)


@pytest.mark.parametrize(
    ("store", "worker_count"), [("memory", 1), ("sqlite", 4)], indirect=["store"]
)
async def test_a_hundred_thousand_waiting_jobs_delay_another_tenants_by_less_than_a_batch(
    store: OpenStore, worker_count: int
) -> None:
    await pile_up(store, "large", BACKLOG)
    job_count, waited_for = await Arrivals(store, worker_count).measure(*["after", "zoo"] * 4)
    sys.stdout.write(
        f"\n{BACKLOG} jobs wait, {worker_count} workers with {BATCH} places each: another tenant "
        f"waited for {job_count} jobs at most, and {waited_for / SECOND:.2f} s\n"
    )
    assert job_count < BATCH
    assert waited_for < 1.5 * SECOND  # the longest that a job takes


async def test_of_many_busy_tenants_each_is_served_once_or_twice_before_a_newcomer() -> None:
    async with await open_store("memory://") as store:
        for number in range(20):
            await pile_up(store, f"large-{number:02}", 400)
        job_count, _ = await Arrivals(store, 1).measure(*["zoo"] * 10)
    assert job_count <= 2 * 20
