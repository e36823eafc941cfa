"""Jobs made over HTTP and run by a worker: sections 2.3 to 2.5, on every store."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.server.service import JOBS, Visit, serve

from rota.runtime.wiring import open_store
from rota.worker import Context, Worker

SECOND = timedelta(seconds=1)


@pytest.fixture
async def service(store_url: str) -> AsyncIterator[Visit]:
    async with serve(await open_store(store_url)) as served:
        yield served


class Stage:
    """A worker for the jobs of a service; a job fails as often as its payload says."""

    def __init__(self, service: Visit) -> None:
        self.service = service
        self.started = service.clock.now()
        self.starts: list[tuple[str, float]] = []
        handlers = {"try": self._try}
        self.worker = Worker(service.store, handlers, clock=service.clock)

    async def add(self, name: str, *, failures: int = 0, **fields: Any) -> str:
        asked = {"name": name, "kind": "try", "payload": {"failures": failures}, **fields}
        return str((await self.service.make_job(**asked))["id"])

    async def look(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = (await self.service.client.get(f"{JOBS}/{job_id}")).json()
        return job

    async def run(self, *seconds: float) -> None:
        """Let the worker look at each of these moments."""
        for second in seconds:
            await self.service.clock.jump_to(self.started + second * SECOND)
            await self.worker.run_once()

    async def _try(self, context: Context) -> None:
        elapsed = (context.now - self.started).total_seconds()
        self.starts.append((context.job.name, elapsed))
        if context.attempt <= context.payload["failures"]:
            raise ValueError("not yet")


async def test_a_failed_attempt_is_retried_after_its_delay_until_it_succeeds_or_is_the_last(
    service: Visit,
) -> None:
    stage = Stage(service)
    policy = {"max_attempts": 3, "backoff_strategy": "LINEAR", "base_delay_seconds": 10}
    mended = await stage.add("mended", failures=1, retry_policy=policy)
    hopeless = await stage.add("hopeless", failures=9, retry_policy=policy)
    await stage.run(0)
    job = await stage.look(mended)
    assert (job["status"], job["attempt_count"]) == ("READY", 1)
    await stage.run(9, 10, 29, 30, 300)
    assert sorted(stage.starts) == [
        ("hopeless", 0),
        ("hopeless", 10),
        ("hopeless", 30),
        ("mended", 0),
        ("mended", 10),
    ]
    job = await stage.look(mended)
    assert (job["status"], job["attempt_count"]) == ("COMPLETED", 1)
    assert job["updated_at"] == "2026-05-01T12:00:10Z"
    job = await stage.look(hopeless)
    assert (job["status"], job["attempt_count"]) == ("FAILED", 3)


async def test_dependents_wait_until_all_have_completed_and_are_blocked_when_one_failed(
    service: Visit,
) -> None:
    stage = Stage(service)
    once = {"max_attempts": 1}
    first = await stage.add("first")
    second = await stage.add("second", failures=1)
    failing = await stage.add("failing", failures=1, retry_policy=once)
    both = await stage.add("both", dependencies=[first, second])
    spoilt = await stage.add("spoilt", dependencies=[first, failing])
    beyond = await stage.add("beyond", dependencies=[spoilt])
    await stage.run(0)
    statuses = [(await stage.look(each))["status"] for each in (both, spoilt, beyond)]
    assert statuses == ["PENDING", "BLOCKED", "BLOCKED"]
    await stage.run(10)
    assert (await stage.look(both))["status"] == "READY"
    await stage.run(11)
    assert (await stage.look(both))["status"] == "COMPLETED"
    names = sorted(name for name, _ in stage.starts)
    assert names == ["both", "failing", "first", "second", "second"]
