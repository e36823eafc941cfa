"""Suspects: jobs whose last worker was lost run with nothing else in the worker's hands."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop, be_down, once

from rota.events import JobSetApart, JobsLeased
from rota.jobs import Job, JobStatus
from rota.worker import Context, WorkerSettings
from rota.worker.quarantine import ALONE_FOR, PATIENT_FOR

QUARTER = timedelta(minutes=15)


class Company:
    """A handler that notes with whom each job ran, and whose leases were held meanwhile."""

    def __init__(self, shop: Workshop, takes: timedelta = SECOND) -> None:
        self.takes = takes
        self.started: list[str] = []
        self.beside: dict[str, set[str]] = {}
        self.held_beside: dict[str, set[str]] = {}
        self._running: set[str] = set()
        self._shop = shop

    async def __call__(self, context: Context) -> None:
        name = context.job.id
        self.started.append(name)
        self.beside[name] = set(self._running)
        for other in self._running:
            self.beside[other].add(name)
        page = await self._shop.store.find(context.tenant, limit=100)
        held = {job.id for job in page.items if job.status is JobStatus.RUNNING}
        self.held_beside[name] = held - {name}
        self._running.add(name)
        try:
            seconds = (context.payload or {}).get("seconds")
            await self._shop.clock.sleep(
                self.takes if seconds is None else timedelta(seconds=seconds)
            )
        finally:
            self._running.discard(name)


def lost(count: int) -> dict[str, Any]:
    return {"loss_count": count, "attempt_count": count}


async def end_all(shop: Workshop, jobs: list[Job], within: timedelta = QUARTER) -> None:
    await shop.pass_time(within)
    assert {(await shop.look(job)).status for job in jobs} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_quarantined_job_runs_alone(shop: Workshop, losses: int) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=20, concurrency=5))
    before = await shop.add_many(7)
    suspect = await shop.add(**lost(losses))
    after = await shop.add_many(7)
    shop.start()
    await end_all(shop, [*before, suspect, *after])
    assert company.beside[suspect.id] == set()
    assert company.held_beside[suspect.id] == set()
    assert max(len(beside) for beside in company.beside.values()) >= 4


async def test_jobs_before_a_quarantined_one_run_first_and_later_ones_are_returned(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=20, concurrency=5))
    before = await shop.add_many(2)
    suspect = await shop.add(**lost(1))
    after = await shop.add_many(3)
    settled = await shop.clock.run(shop.worker.run_once())
    assert company.started == [job.id for job in (*before, suspect)]
    kept = {it.job.id: it.job for it in settled}
    assert {kept[job.id].status for job in (*before, suspect)} == {JobStatus.COMPLETED}
    assert {(kept[job.id].status, kept[job.id].attempt_count) for job in after} == {
        (JobStatus.READY, 0)
    }


async def test_each_quarantined_job_runs_alone_and_few_leases_are_wasted(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=50, concurrency=50))
    suspects = await shop.add_many(30, **lost(1))
    plain = await shop.add_many(30)
    shop.start()
    await end_all(shop, [*suspects, *plain])
    assert [company.beside[job.id] for job in suspects] == [set()] * 30
    assert sum(event.count for event in shop.told(JobsLeased)) <= 60 + 49
    # Once the suspects are done, as much is leased at once as before.
    assert shop.told(JobsLeased)[-1].count >= 14


async def test_what_is_not_written_yet_is_still_in_hand(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=2))
    plain = await shop.add()
    suspect = await shop.add(**lost(2))
    shop.hooked.before["apply"] = once(be_down)
    shop.start()
    await end_all(shop, [plain, suspect])
    assert company.held_beside[suspect.id] == set()


async def test_a_severe_job_and_other_jobs_wait_for_each_other(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=4))
    slow = await shop.add(payload={"seconds": 600})
    suspect = await shop.add(payload={"seconds": 600}, **lost(2))
    shop.start()
    await shop.pass_time(5 * MINUTE)
    assert company.started == [slow.id]
    late = await shop.add()
    await shop.pass_time(10 * MINUTE)
    assert company.started == [slow.id, suspect.id]
    await end_all(shop, [slow, suspect, late])
    assert company.beside[suspect.id] == set()


async def test_a_worker_with_a_hanging_handler_continues_without_a_severe_job(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=4))
    endless = await shop.add(payload={"seconds": timedelta(days=9).total_seconds()})
    suspect = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(PATIENT_FOR - MINUTE)
    late = await shop.add()
    await shop.pass_time(2 * MINUTE)
    assert company.started == [endless.id, late.id]
    kept = await shop.look(suspect)
    assert (kept.status, kept.attempt_count, kept.loss_count) == (JobStatus.READY, 2, 2)
    assert kept.deferral is not None
    assert kept.deferral.until == shop.clock.now() + PATIENT_FOR - MINUTE
    assert "alone" in kept.deferral.reason


async def test_a_running_severe_job_is_not_deferred(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=4))
    suspect = await shop.add(payload={"seconds": 2 * PATIENT_FOR.total_seconds()}, **lost(2))
    shop.start()
    await end_all(shop, [suspect], 2 * PATIENT_FOR + MINUTE)
    assert company.started == [suspect.id]


async def test_a_hanging_severe_job_does_not_block_its_worker_forever(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=4, concurrency=4))
    suspect = await shop.add(payload={"seconds": 1e7}, **lost(2))
    plain = await shop.add_many(9)
    shop.start()
    await shop.pass_time(PATIENT_FOR - SECOND)
    assert company.started == [suspect.id]
    await end_all(shop, plain, MINUTE)
    kept = await shop.look(suspect)
    assert (kept.status, kept.last_token) == (JobStatus.RUNNING, 1)
    assert company.started.count(suspect.id) == 1


async def test_each_quarantined_job_has_its_own_hour(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=4, concurrency=4))
    first = await shop.add(payload={"seconds": PATIENT_FOR.total_seconds() / 2}, **lost(2))
    second = await shop.add(payload={"seconds": PATIENT_FOR.total_seconds() * 0.9}, **lost(2))
    plain = await shop.add()
    shop.start()
    await end_all(shop, [first, second, plain], 2 * PATIENT_FOR)
    assert company.beside[second.id] == set()


async def test_a_quarantined_job_does_not_delay_others_for_long(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=4))
    suspect = await shop.add(payload={"seconds": 600}, **lost(1))
    late = await shop.add()
    shop.start()
    await shop.pass_time(ALONE_FOR - SECOND)
    assert company.started == [suspect.id]
    await shop.pass_time(2 * SECOND)
    assert company.started == [suspect.id, late.id]
    await end_all(shop, [suspect, late])


async def test_a_quarantined_job_does_not_wait_long_for_others(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=4))
    slow = await shop.add(payload={"seconds": 600})
    suspect = await shop.add(payload={"seconds": 100}, **lost(1))
    shop.start()
    await shop.pass_time(ALONE_FOR - SECOND)
    late = await shop.add()
    assert company.started == [slow.id]
    await shop.pass_time(2 * SECOND)
    assert company.started == [slow.id, suspect.id]
    await shop.pass_time(ALONE_FOR)
    assert company.started == [slow.id, suspect.id, late.id]
    await end_all(shop, [slow, suspect, late])


async def test_a_waiting_quarantined_job_keeps_its_lease_and_is_returned_at_stop(
    shop: Workshop,
) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, lease_for=10 * SECOND))
    await shop.add(payload={"seconds": 120})
    suspect = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(MINUTE)
    assert (await shop.look(suspect)).status is JobStatus.RUNNING
    shop.worker.stop()
    await shop.pass_time(SECOND)
    kept = await shop.look(suspect)
    assert (kept.status, kept.attempt_count, kept.loss_count) == (JobStatus.READY, 2, 2)
    report = await shop.finish()
    assert company.started != [suspect.id]
    assert report.handed_back_count == 2


async def test_a_quarantined_job_deleted_while_it_waits_delays_no_other(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=2))
    slow = await shop.add(payload={"seconds": 600})
    suspect = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(SECOND)
    late = await shop.add()
    await shop.store.delete(suspect.tenant, suspect.id)
    await shop.pass_time(MINUTE)
    assert company.started == [slow.id, late.id]


async def test_a_quarantined_job_starts_when_the_last_other_job_is_lost(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=2))
    slow = await shop.add(payload={"seconds": 600})
    suspect = await shop.add(**lost(2))
    shop.start()
    await shop.pass_time(SECOND)
    await shop.store.delete(slow.tenant, slow.id)
    await shop.pass_time(10 * SECOND)
    assert company.started == [slow.id, suspect.id]
    await end_all(shop, [suspect], MINUTE)


async def test_a_job_that_runs_alone_is_reported(shop: Workshop) -> None:
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


async def test_a_batch_lasts_until_a_quarantined_job_is_settled(shop: Workshop) -> None:
    company = Company(shop)
    shop.make_worker({"work": company}, WorkerSettings(batch=2, concurrency=2))
    jobs = [await shop.add(), await shop.add(**lost(2))]

    async def take_long() -> None:
        await shop.clock.sleep(5 * SECOND)

    shop.hooked.before["apply"] = take_long
    settled = await shop.clock.run(shop.worker.run_once())
    assert company.started == [job.id for job in jobs]
    assert {it.job.status for it in settled} == {JobStatus.COMPLETED}
