"""What an operator looks at costs the same, however many jobs have finished.

``ROTA_TEST_FINISHED=7000:77000`` compares other numbers of jobs.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.conftest import STORES
from tests.server.meters import METERS, count_lines
from tests.servers.mariadb import MariadbServer
from tests.servers.redis import RedisServer

from rota import open_store
from rota.jobs import Completion, Ending, Job, JobStatus
from rota.server import create_app
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptJob
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FEW, MANY = map(int, os.environ.get("ROTA_TEST_FINISHED", "3600:10800").split(":"))
BATCH = 1_000
LOOKED_AT = (
    "/api/v1/overview",
    "/api/v1/queues",
    "/admin",
    "/admin?range=30d",
    "/admin/queues",
    "/admin/queues/q1",
    "/admin/errors",
    "/admin/tenants",
    "/admin/workers",
    "/admin/schedules",
    "/admin/dead-letters",
    "/api/v1/dead-letters",
)


@pytest.fixture(params=STORES)
def sort(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(sort: str, request: pytest.FixtureRequest) -> str:
    """An empty store; on a server of its own where only the server counts what is read."""
    if sort in {"redis", "mysql"}:
        server: RedisServer | MariadbServer = request.getfixturevalue(f"own_{sort}")
        return server.url
    if sort in {"memory", "sqlite"}:
        return (
            "memory://"
            if sort == "memory"
            else f"sqlite:///{request.getfixturevalue('tmp_path')}/it"
        )
    return str(request.getfixturevalue(f"{sort}_url"))


def finish(number: int, *, is_in_memory: bool) -> Job:
    """A third of the jobs each has completed, is blocked and was cancelled.

    The store in memory keeps cancelled jobs in one list with all that failed.
    """
    at = NOW - (10 + number) * SECOND
    completion = Completion(worker="w", started_at=at, ended_at=at + SECOND)
    endings: list[dict[str, Any]] = [
        {"status": JobStatus.COMPLETED, "completion": completion},
        {"status": JobStatus.BLOCKED},
        {"status": JobStatus.FAILED, "ending": Ending.CANCELLED},
    ]
    fields = endings[number % (2 if is_in_memory else 3)]
    return a_job(queue=f"q{number % 5}", created_at=at, due_at=at, updated_at=at + SECOND, **fields)


def waiting() -> Iterator[Job]:
    for number in range(100):
        at = NOW - (number - 50) * SECOND
        yield a_job(queue=f"q{number % 5}", created_at=at - 100 * SECOND, due_at=at)


async def fill(store: OpenStore, start: int, end: int, *, is_in_memory: bool) -> None:
    if not start:
        await store.insert([*waiting()], NOW)
    for first in range(start, end, BATCH):
        numbers = range(first, min(first + BATCH, end))
        jobs = [KeptJob(finish(it, is_in_memory=is_in_memory)) for it in numbers]
        await store.load(jobs, NOW)


async def look(store: OpenStore) -> None:
    """Ask for each page once, each of a server that remembers nothing of the others."""
    for path in LOOKED_AT:
        transport = httpx2.ASGITransport(create_app(store, clock=VirtualClock(NOW)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            (await client.get(path)).raise_for_status()


class Place:
    """A store that is opened anew for each use, as far as one can be."""

    def __init__(self, sort: str, address: str) -> None:
        self._address = address
        self._kept = MemoryStore() if sort == "memory" else None
        self._meter = METERS.get(sort)

    async def fill(self, start: int, end: int) -> None:
        if self._kept is not None:
            await fill(self._kept, start, end, is_in_memory=True)
            return
        async with await open_store(self._address) as store:
            await fill(store, start, end, is_in_memory=False)

    async def measure(self) -> int:
        if self._kept is not None:
            return await count_lines(self._kept, look)
        assert self._meter is not None
        return await self._meter(self._address, look)


async def test_looking_costs_the_same_however_many_jobs_have_finished(
    sort: str, address: str, record_property: Any
) -> None:
    place = Place(sort, address)
    await place.fill(0, FEW)
    await place.measure()  # fills caches that last longer than a server
    few = await place.measure()
    await place.fill(FEW, MANY)
    many = await place.measure()
    record_property("read", f"{few} with {FEW} finished jobs, {many} with {MANY}")
    assert few > 100
    assert many == pytest.approx(few, rel=0.1)
