"""Pollers whose store fails, whose hooks fail and who are cut off: seeded, under virtual time."""

from collections import defaultdict
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeVar

import pytest

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus
from rota.poller import JobUpdate, PolledJob, PolledJobs, Poller
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LOCK = MINUTE
LONGEST_WORK = 40
"""Seconds that a hook takes at most: less than the lock, so that no two may ever overlap."""

Answer = TypeVar("Answer")


class Turn(NamedTuple):
    """One document in the hands of one hook."""

    job_id: str
    sleep_until: datetime
    began_at: datetime
    ended_at: datetime
    is_done: bool


class FaultyJobs(PolledJobs):
    """Fails before or after it has done what was asked, as a lost connection does."""

    random = Random(0)
    fault_share = 0.0

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        return await self._risk(super().lock_next(lock_until, now))

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:
        return await self._risk(super().update(job, update, now))

    async def remove(self, job: PolledJob) -> bool:
        return await self._risk(super().remove(job))

    async def _risk(self, asked: Awaitable[Answer]) -> Answer:
        chance = self.random.random()
        if chance < self.fault_share / 2:
            asked.close()  # type: ignore[attr-defined]  # it is a coroutine
            raise StoreUnavailableError("before")
        answer = await asked
        if chance < self.fault_share:
            raise StoreUnavailableError("after")
        return answer


class Story:
    """Three pollers, thirty documents, and ten minutes in which much goes wrong."""

    def __init__(self, seed: int) -> None:
        self.random, self.clock = Random(seed), VirtualClock(NOW)
        self.jobs = FaultyJobs(MemoryStore(), clock=self.clock)
        self.jobs.random, self.jobs.fault_share = self.random, 0.2
        self.turns: list[Turn] = []
        self.errors: list[BaseException] = []
        self.failure_share = 0.3
        self.pollers: list[Poller] = []

    async def play(self) -> None:
        for number in range(30):
            await self.jobs.add(
                {"n": number},
                sleep_until=NOW + self.random.randrange(-60, 400) * SECOND,
                interval="*/2 * * * *" if number % 3 == 0 else None,
                repeat_until=NOW + 15 * MINUTE if number % 3 == 0 else None,
                auto_remove=number % 2 == 0,
            )
        for _ in range(3):
            await self._start()
        for _ in range(20):
            await self.clock.advance(self.random.randrange(1, 60) * SECOND)
            if self.random.random() < 0.5:
                await self._cut_off_one()
        self.jobs.fault_share = self.failure_share = 0.0
        await self.clock.advance(timedelta(hours=1))
        for poller in self.pollers:
            await self.clock.run(poller.stop())

    async def _start(self) -> None:
        poller = Poller(
            self.jobs,
            on_document=self._work,
            on_error=self.errors.append,
            lock_duration=LOCK,
            idle_delay=SECOND,
            clock=self.clock,
        )
        self.pollers.append(poller)
        await poller.start()

    async def _cut_off_one(self) -> None:
        """As a kill does, the loop ends wherever it is; another poller takes its place."""
        victim = self.random.choice([poller for poller in self.pollers if poller.is_running])
        assert victim._run is not None
        assert victim._run._task is not None
        victim._run._task.cancel()
        await victim._run.settled()
        await self._start()

    async def _work(self, job: PolledJob) -> None:
        assert job.sleep_until is not None
        began_at, is_done = self.clock.now(), False
        try:
            await self.clock.sleep(self.random.randrange(LONGEST_WORK) * SECOND)
            if self.random.random() < self.failure_share:
                raise ValueError("not this time")
            is_done = True
        finally:
            ended_at = self.clock.now()
            self.turns.append(Turn(job.id, job.sleep_until, began_at, ended_at, is_done))


@pytest.mark.parametrize("seed", range(8))
async def test_under_any_fault_every_document_is_processed_and_never_by_two(seed: int) -> None:
    story = Story(seed)
    added = 30
    await story.play()
    by_job: dict[str, list[Turn]] = defaultdict(list)
    for turn in sorted(story.turns, key=lambda turn: turn.began_at):
        by_job[turn.job_id].append(turn)
    assert len(by_job) == added
    for turns in by_job.values():
        assert any(turn.is_done for turn in turns)
        assert all(turn.began_at >= turn.sleep_until for turn in turns)
        assert all(first.ended_at <= second.began_at for first, second in pairwise(turns))
        assert all(first.sleep_until < second.sleep_until for first, second in pairwise(turns))
    kept = [job async for page in story.jobs.scan() for job in page]
    assert {job.status for job in kept} == {JobStatus.COMPLETED}
    assert not any(job.auto_remove for job in kept)
    assert len(kept) == added // 2
    assert len(story.errors) > 10
