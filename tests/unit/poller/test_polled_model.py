"""Jobs to be polled, compared step by step with the plainest model there is."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.poller.polling import NOW, SECOND

from rota import open_store
from rota.jobs import format_instant
from rota.poller import JobUpdate, PolledJob, PolledJobs
from rota.poller.jobs import wakes_at
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock

STEP_COUNT = 120


class Model:
    """What wakes up when, and who holds which lock: two dictionaries."""

    def __init__(self) -> None:
        self.awake_from: dict[str, datetime | None] = {}
        self.held: dict[str, PolledJob] = {}

    def next_id(self, now: datetime) -> str | None:
        due = [(at, job_id) for job_id, at in self.awake_from.items() if at and at <= now]
        return min(due)[1] if due else None

    def lock(self, job: PolledJob, until: datetime) -> None:
        self.awake_from[job.id] = until
        self.held[job.id] = job

    def let_go(self, job: PolledJob, at: datetime | None, *, is_removed: bool = False) -> bool:
        """Whether the lock was held; what is removed is not known any more."""
        if self.held.get(job.id) is not job:
            return False
        del self.held[job.id]
        self.awake_from[job.id] = at
        if is_removed:
            del self.awake_from[job.id]
        return True


class Play:
    """Random steps of several pollers on one store, each compared with the model."""

    def __init__(self, store: OpenStore, seed: int) -> None:
        self.store, self.random, self.model = store, Random(seed), Model()
        self.now, self.clock = NOW, VirtualClock(NOW)
        self.pollers = [PolledJobs(store, clock=self.clock) for _ in range(3)]
        self.given: list[PolledJob] = []

    async def step(self) -> None:
        self.now += self.random.choice([timedelta(0), SECOND, 7 * SECOND])
        steps: list[Any] = [self.add, self.lock, self.lock, self.update, self.remove, self.discard]
        await self.random.choices(steps, weights=[3, 4, 4, 4, 1, 1])[0]()

    async def add(self) -> None:
        at = self.now + self.random.randrange(-5, 20) * SECOND
        job_id = await self.random.choice(self.pollers).add({}, sleep_until=at)
        self.model.awake_from[job_id] = at

    async def lock(self) -> None:
        until = self.now + self.random.randrange(1, 30) * SECOND
        job = await self.random.choice(self.pollers).lock_next(until, self.now)
        expected = self.model.next_id(self.now)
        assert (job.id if job else None) == expected
        if job is not None:
            assert job.sleep_until == self.model.awake_from[job.id]
            self.model.lock(job, until)
            self.given.append(job)

    async def update(self) -> None:
        if not self.given:
            return
        job = self.random.choice(self.given)
        at = self.random.choice([None, self.now + 3 * SECOND])
        is_held = await self.random.choice(self.pollers).update(
            job, JobUpdate(sleep_until=at), self.now
        )
        assert is_held == self.model.let_go(job, at)

    async def remove(self) -> None:
        if not self.given:
            return
        job = self.random.choice(self.given)
        is_held = await self.random.choice(self.pollers).remove(job)
        assert is_held == self.model.let_go(job, None, is_removed=True)

    async def discard(self) -> None:
        if not self.model.awake_from:
            return
        job_id = self.random.choice(sorted(self.model.awake_from))
        assert await self.random.choice(self.pollers).discard(job_id)
        del self.model.awake_from[job_id]
        self.model.held.pop(job_id, None)

    async def check(self) -> None:
        """What is kept is what the model says, and the line holds each that is awake once."""
        kept = {job.id: wakes_at(job) async for page in self.pollers[0].scan() for job in page}
        assert kept == self.model.awake_from
        line = [each.key async for page in self.store.scan("poller.poller.line") for each in page]
        places = [f"{format_instant(at)} {job_id}" for job_id, at in kept.items() if at]
        assert line == sorted(places)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'rota.db'}"
    async with await open_store(url) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(5))
async def test_pollers_see_what_the_model_says(store: OpenStore, seed: int) -> None:
    play = Play(store, seed)
    for _ in range(STEP_COUNT):
        await play.step()
    await play.check()
    assert len(play.given) > 10
