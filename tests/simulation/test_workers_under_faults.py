"""Workers on a store that fails, hangs and forgets, under virtual time: every job ends."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from rota.jobs import Ending, Job, JobId, JobStatus, make_job_ids
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job
from rota.testing.faults import Failure, FaultyStore, seeded_faults
from rota.worker import Context, Worker, WorkerSettings

START = datetime(2027, 1, 1, tzinfo=UTC)
JOB_COUNT = 30
WORKER_COUNT = 2
LONGEST_TRIAL = timedelta(hours=8)
ALL_FAILURES = (Failure.BEFORE, Failure.AFTER, Failure.LOST, None)


@dataclass
class Trial:
    """Two workers, each with a store of its own misfortune in front of the same one."""

    seed: int
    longest_delay: timedelta
    lease_for: timedelta
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    store: MemoryStore = field(default_factory=MemoryStore)
    runs: Counter[JobId] = field(default_factory=Counter)
    running: Counter[JobId] = field(default_factory=Counter)
    overlap_count: int = 0
    fault_count: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    async def run(self) -> list[Job]:
        """All jobs, as they are when all have ended or a long time has passed."""
        ids = make_job_ids(START, self.seed, JOB_COUNT)
        await self.store.insert([a_job(id=each, created_at=START) for each in ids], START)
        stores = [self._strike(number) for number in range(WORKER_COUNT)]
        workers = [self._hire(store, number) for number, store in enumerate(stores)]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        while self.clock.now() < START + LONGEST_TRIAL:
            await self.clock.advance(timedelta(minutes=2))
            kept = list((await self.store.get("default", ids)).values())
            if all(job.status.is_terminal for job in kept):
                break
        for worker in workers:
            worker.stop()
        await self.clock.run(asyncio.gather(*tasks))
        self.fault_count = sum(len(store.injected) for store in stores)
        return kept

    def _strike(self, number: int) -> FaultyStore:
        faults = seeded_faults(
            self.seed * WORKER_COUNT + number,
            fault_share=self._random.choice([0.1, 0.3, 0.5]),
            failures=ALL_FAILURES,
            longest_delay=self.longest_delay,
        )
        return FaultyStore(self.store, self.clock, faults)

    def _hire(self, store: FaultyStore, number: int) -> Worker:
        settings = WorkerSettings(
            concurrency=3, batch=self._random.choice([1, 4, 10]), lease_for=self.lease_for
        )
        worker = Worker(store, {"a job": self._work}, clock=self.clock, settings=settings)
        worker.random = Random(self.seed + number)
        return worker

    async def _work(self, context: Context) -> None:
        job_id = context.job.id
        self.runs[job_id] += 1
        self.overlap_count += self.running[job_id] > 0
        self.running[job_id] += 1
        try:
            await self.clock.sleep(timedelta(seconds=20 * self._random.random()))
        finally:
            self.running[job_id] -= 1


@pytest.mark.parametrize("seed", range(15))
async def test_a_store_that_hangs_for_less_than_a_lease_costs_no_job_its_attempt(seed: int) -> None:
    """Not even if the store leases jobs and its answer is lost."""
    trial = Trial(seed, longest_delay=timedelta(seconds=1), lease_for=timedelta(minutes=1))
    jobs = await trial.run()
    assert trial.fault_count > 0
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    histories = [await trial.store.attempts("default", job.id) for job in jobs]
    assert [[each.outcome for each in one] for one in histories] == [["succeeded"]] * JOB_COUNT
    assert len(trial.runs) == JOB_COUNT
    assert trial.overlap_count == 0


@pytest.mark.parametrize("seed", range(15))
async def test_a_store_that_hangs_for_longer_than_a_lease_loses_no_job(seed: int) -> None:
    """Some may be taken for killers of their workers, which is an end like any other.

    Nothing runs on beyond its lease, so no two attempts overlap, however the store hangs.
    """
    trial = Trial(seed, longest_delay=timedelta(minutes=1), lease_for=timedelta(seconds=5))
    jobs = await trial.run()
    assert trial.fault_count > 0
    assert len(jobs) == JOB_COUNT
    assert {job.status for job in jobs} <= {JobStatus.COMPLETED, JobStatus.FAILED}
    assert {job.ending for job in jobs if job.status is JobStatus.FAILED} <= {Ending.LOST}
    assert {job.id for job in jobs if job.status is JobStatus.COMPLETED} <= set(trial.runs)
    assert trial.overlap_count == 0


async def test_a_trial_can_be_repeated() -> None:
    one, again = (
        Trial(7, longest_delay=timedelta(seconds=30), lease_for=timedelta(seconds=5))
        for _ in range(2)
    )
    ends = [[(job.id, job.updated_at) for job in await trial.run()] for trial in (one, again)]
    assert ends[0] == ends[1]
    assert one.fault_count == again.fault_count
