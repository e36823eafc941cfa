"""An idle worker under virtual time: it costs nothing, and misses nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, succeed

from rota.jobs import Job, JobStatus
from rota.policy.limits import Limit
from rota.rail.settings import set_limit
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.protocol import LeaseRequest
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Worker, WorkerSettings, list_workers

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class CountingClock(VirtualClock):
    """Counts how often time stops."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self.stop_count = 0

    def _move_to(self, instant: datetime) -> None:
        self.stop_count += 1
        super()._move_to(instant)


class Scene:
    """A default worker on one store, under a clock that counts."""

    def __init__(self, store: OpenStore, path: Path) -> None:
        self.store, self.path = store, path
        self.clock = CountingClock(NOW)

    async def add(self, **fields: Any) -> Job:
        job = a_job(kind="work", created_at=self.clock.now(), **fields)
        await self.store.insert([job], self.clock.now())
        return job

    async def look(self, job: Job) -> Job:
        return (await self.store.get(job.tenant, [job.id]))[job.id]

    @asynccontextmanager
    async def working(
        self, work: Callable[[Context], Any] = succeed, settings: WorkerSettings | None = None
    ) -> AsyncIterator[Worker]:
        worker = Worker(self.store, {"work": work}, clock=self.clock, settings=settings)
        run = asyncio.create_task(worker.run())
        await self.clock.advance(SECOND)
        self.clock.stop_count = 0
        try:
            yield worker
        finally:
            worker.stop()
            await self.clock.run(run)


@pytest.fixture(params=["memory", "sqlite"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    path = tmp_path / "rota.db"
    store: OpenStore = MemoryStore()
    if request.param == "sqlite":
        store = await SqliteStore.open(SqliteSettings(path))
    async with store:
        yield Scene(store, path)


async def test_a_day_of_an_idle_worker_stops_time_a_few_times_only(scene: Scene) -> None:
    async with scene.working():
        await scene.clock.advance(DAY)
        assert scene.clock.stop_count <= 10


async def test_a_day_of_idle_workers_asks_the_store_a_few_times_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    for verb in ("lease", "next_due_at", "find_expired", "extend", "read", "write_each"):
        inner = getattr(scene.store, verb)

        def count(*asked: Any, _verb: str = verb, _inner: Any = inner) -> Any:
            calls[_verb] += 1
            return _inner(*asked)

        monkeypatch.setattr(scene.store, verb, count)
    async with scene.working(), scene.working():
        calls.clear()
        await scene.clock.advance(DAY)
    assert sum(calls.values()) <= 100, calls


async def test_the_worker_is_seen_all_the_time(scene: Scene) -> None:
    async with scene.working() as worker:
        for _ in range(48):
            await scene.clock.advance(HOUR)
            seen = await list_workers(scene.store, scene.clock.now())
            assert [it.id for it in seen] == [worker.name]
    assert await list_workers(scene.store, scene.clock.now()) == []


async def test_jobs_start_when_they_are_due(scene: Scene) -> None:
    started: list[datetime] = []

    async def note(_: Context) -> None:
        started.append(scene.clock.now())

    async with scene.working(note):
        for hours in (7, 30, 3):
            await scene.add(due_at=NOW + hours * HOUR)
        await scene.clock.advance(5 * HOUR)
        await scene.add()
        await scene.clock.advance(2 * DAY)
    assert [(at - NOW) // SECOND for at in started] == [
        3 * 3600, 5 * 3600 + 1, 7 * 3600, 30 * 3600
    ]  # fmt: skip


async def test_a_long_job_keeps_its_lease(scene: Scene) -> None:
    async def linger(_: Context) -> None:
        await scene.clock.sleep(3 * MINUTE)

    async with scene.working(linger), scene.working(linger):
        await scene.clock.advance(10 * HOUR)
        job = await scene.add()
        await scene.clock.advance(2 * MINUTE)
        assert (await scene.look(job)).status is JobStatus.RUNNING
        await scene.clock.advance(2 * MINUTE)
        assert (await scene.look(job)).status is JobStatus.COMPLETED
        kept = await scene.store.attempts(job.tenant, job.id)
        assert [it.outcome for it in kept] == ["succeeded"]
        scene.clock.stop_count = 0
        await scene.clock.advance(DAY)
        assert scene.clock.stop_count <= 20


async def test_jobs_of_a_dead_worker_are_rescued_as_soon_as_in_real_time(scene: Scene) -> None:
    async with scene.working():
        await scene.clock.advance(5 * HOUR)
        job = await scene.add(queue="elsewhere", due_at=scene.clock.now() + 10 * MINUTE)
    settings = WorkerSettings(queues=["default"])
    async with scene.working(settings=settings):
        await scene.clock.advance(HOUR)
        request = LeaseRequest(worker="ghost", limit=1, lease_for=MINUTE)
        assert len(await scene.store.lease(request, scene.clock.now())) == 1
        await scene.clock.advance(MINUTE + 30 * SECOND)
        rescued = await scene.look(job)
        assert (rescued.status, rescued.loss_count) == (JobStatus.READY, 1)


async def test_a_limit_that_is_lifted_releases_what_it_held_back(scene: Scene) -> None:
    limit = Limit(tenant="guild-7", running=0)
    async with scene.working():
        await set_limit(scene.store, limit, clock=scene.clock)
        await scene.clock.advance(10 * SECOND)
        job = await scene.add(tenant="guild-7")
        await scene.clock.advance(MINUTE)
        assert (await scene.look(job)).status is JobStatus.READY
        await set_limit(scene.store, Limit(tenant="guild-7", running=1), clock=scene.clock)
        await scene.clock.advance(10 * SECOND)
        assert (await scene.look(job)).status is JobStatus.COMPLETED


async def test_a_job_inserted_in_a_transaction_of_the_program_is_noticed(scene: Scene) -> None:
    if not isinstance(scene.store, SqliteStore):
        pytest.skip("a store in memory takes part in no transaction")
    async with scene.working():
        await scene.clock.advance(HOUR)
        connection = apsw.Connection(str(scene.path))
        job = a_job(kind="work", created_at=scene.clock.now())
        with connection:
            await scene.store.insert_within(connection, [job], scene.clock.now())
        connection.close()
        await scene.clock.advance(SECOND)
        assert (await scene.look(job)).status is JobStatus.COMPLETED


async def test_writes_of_another_store_on_the_same_file_are_noticed(scene: Scene) -> None:
    if not isinstance(scene.store, SqliteStore):
        pytest.skip("a store in memory has no file")
    async with scene.working(), await SqliteStore.open(SqliteSettings(scene.path)) as other:
        await scene.clock.advance(HOUR)
        job = a_job(kind="work", created_at=scene.clock.now())
        await other.insert([job], scene.clock.now())
        await scene.clock.advance(SECOND)
        assert (await scene.look(job)).status is JobStatus.COMPLETED


async def test_a_clock_that_is_set_back_or_forward_delays_nothing(scene: Scene) -> None:
    async with scene.working():
        await scene.clock.advance(HOUR)
        early = await scene.add(due_at=scene.clock.now() + MINUTE)
        late = await scene.add(due_at=scene.clock.now() + 5 * HOUR)
        await scene.clock.jump_to(NOW)
        new = await scene.add()
        await scene.clock.advance(SECOND)
        assert (await scene.look(new)).status is JobStatus.COMPLETED
        await scene.clock.advance(HOUR + MINUTE)
        assert (await scene.look(early)).status is JobStatus.COMPLETED
        await scene.clock.jump_to(NOW + 7 * HOUR)
        await scene.clock.advance(SECOND)
        assert (await scene.look(late)).status is JobStatus.COMPLETED
