"""Suspects, jobs whose last worker was lost, run one at a time; no other job waits for one."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop, once

from rota.events import JobSetApart, JobsLeased
from rota.jobs import Job, JobStatus
from rota.worker import Context, WorkerSettings
from rota.worker.quarantine import ALONE_FOR, PATIENT_FOR

QUARTER = timedelta(minutes=15)
JITTER = timedelta(seconds=30)


class Company:
    """A handler that notes when each job started, and beside which others it ran."""

    def __init__(self, shop: Workshop) -> None:
        self.started: list[str] = []
        self.beside: dict[str, set[str]] = {}
        self._running: set[str] = set()
        self._shop = shop

    async def __call__(self, context: Context) -> None:
        name = context.job.id
        self.started.append(name)
        self.beside[name] = set(self._running)
        for other in self._running:
            self.beside[other].add(name)
        self._running.add(name)
        try:
            seconds = (context.payload or {}).get("seconds", 1)
            await self._shop.clock.sleep(timedelta(seconds=seconds))
        finally:
            self._running.discard(name)


def lost(count: int) -> dict[str, Any]:
    return {"loss_count": count, "attempt_count": count}


async def end_all(shop: Workshop, jobs: list[Job], within: timedelta = QUARTER) -> None:
    await shop.pass_time(within)
    assert {(await shop.look(job)).status for job in jobs} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("losses", [1, 2])
async def test_other_tenants_start_in_time_beside_a_quarantined_job(
    shop: Workshop, losses: int
) -> None:
    """Wake-up jitter of at most 30 s with one worker, whatever it has in hand."""
    company = Company(shop)
    shop.make_worker({"work": company})
    slow = await shop.add(payload={"seconds": 3_000})
    suspect = await shop.add(payload={"seconds": 3_000}, **lost(losses))
    due_at = shop.clock.now() + MINUTE
    other = await shop.add(tenant="other", due_at=due_at)
    shop.start()
    await shop.pass_time(MINUTE + JITTER)
    assert company.started == [slow.id, suspect.id, other.id]
    await end_all(shop, [slow, suspect, other], timedelta(hours=1))


@pytest.mark.parametrize("losses", [1, 2])
async def test_suspects_do_not_run_beside_each_other(shop: Workshop, losses: int) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=50, concurrency=50))
    suspects = await shop.add_many(8, **lost(losses))
    plain = await shop.add_many(30)
    shop.start()
    await end_all(shop, [*suspects, *plain], MINUTE)
    names = {job.id for job in suspects}
    assert [company.beside[job.id] & names for job in suspects] == [set()] * 8
    assert max(len(beside) for beside in company.beside.values()) >= 30


async def test_many_suspects_waste_few_leases(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=50, concurrency=50))
    suspects = await shop.add_many(30, **lost(2))
    plain = await shop.add_many(30)
    shop.start()
    await end_all(shop, [*suspects, *plain], 2 * MINUTE)
    assert sum(event.count for event in shop.told(JobsLeased)) <= 60 + 60


async def test_a_severe_job_waits_for_another_suspect_and_says_so(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company})
    first = await shop.add(payload={"seconds": 600}, **lost(1))
    second = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(9 * MINUTE)
    assert company.started == [first.id]
    kept = await shop.look(second)
    assert (kept.status, kept.attempt_count, kept.loss_count) == (JobStatus.READY, 2, 2)
    assert kept.deferral is not None
    assert shop.clock.now() < kept.deferral.until <= shop.clock.now() + MINUTE
    assert "lost its worker" in kept.deferral.reason
    await end_all(shop, [first, second], 2 * MINUTE + JITTER)
    assert company.beside[second.id] == set()


async def test_a_slight_suspect_waits_ten_seconds_at_most(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company})
    suspects = await shop.add_many(5, payload={"seconds": 600}, **lost(1))
    shop.start()
    await shop.pass_time(SECOND / 2)
    assert company.started == [suspects[0].id]
    await shop.pass_time(ALONE_FOR)
    assert company.started == [job.id for job in suspects]


async def test_a_hanging_severe_job_does_not_delay_another_forever(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company})
    endless = await shop.add(payload={"seconds": 1e7}, **lost(2))
    second = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(PATIENT_FOR - MINUTE)
    assert company.started == [endless.id]
    await end_all(shop, [second], 2 * MINUTE + SECOND)
    kept = await shop.look(endless)
    assert (kept.status, kept.last_token) == (JobStatus.RUNNING, 1)


async def test_two_workers_run_two_suspects(shop: Workshop) -> None:
    company = Company(shop)
    first, second = (shop.make_worker({"work": company}) for _ in range(2))
    suspects = await shop.add_many(2, payload={"seconds": 600}, **lost(2))
    shop.start(first)
    shop.start(second)
    await shop.pass_time(JITTER)
    assert company.started == [job.id for job in suspects]


async def test_a_job_in_quarantine_is_reported(shop: Workshop) -> None:
    shop.make_worker({"work": Company(shop)})
    await shop.add()
    suspect = await shop.add(**lost(2))
    await shop.clock.run(shop.worker.run_once())
    assert [(it.job_id, it.loss_count) for it in shop.told(JobSetApart)] == [(suspect.id, 2)]


async def test_a_quarantined_job_with_an_expired_lease_is_not_started(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(lease_for=SECOND))
    suspect = await shop.add(**lost(2))

    async def hang() -> None:
        await shop.clock.sleep(2 * SECOND)

    shop.hooked.after["lease"] = once(hang)
    settled = await shop.clock.run(asyncio.create_task(shop.worker.run_once()))
    assert company.started == []
    assert [(it.job.id, it.job.status) for it in settled] == [(suspect.id, JobStatus.READY)]
