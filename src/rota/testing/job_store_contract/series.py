"""Recurrence: the next job is made in the step that ends the present one, at most once."""

import asyncio
from typing import cast

from msgspec.structs import replace

from rota.jobs import (
    PAUSED_UNTIL,
    Discarded,
    Interrupted,
    Job,
    JobStatus,
    Recurrence,
    Succeeded,
    decide_complete,
    derive_job_id,
)
from rota.stores.protocol import JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    NOW,
    JobStoreFixture,
    end,
    everything,
    expect,
    find,
    statuses,
    take,
)

DAILY = Recurrence(interval="24h", start=NOW)


class SeriesContract(JobStoreFixture):
    """One job at a time stands for a series."""

    async def test_ending_a_job_materialises_the_next_occurrence(self, jobs: JobStore) -> None:
        for outcome in (Succeeded(), Discarded("no")):
            leased = await _start_series(jobs)
            applied = await end(jobs, leased, outcome)
            successor = applied.successor
            expect(successor and successor.due_at, NOW + DAY)
            expect(successor and await find(jobs, successor.id), successor)
            expect(await take(jobs), [])
            (following,) = await take(jobs, NOW + DAY)
            expect(following.origin, leased.id)
            await jobs.delete("default", following.id)

    async def test_the_next_occurrence_comes_at_most_once(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        outcomes = (Succeeded(), Discarded("no"), Succeeded())
        answers = await asyncio.gather(*(end(jobs, leased, each) for each in outcomes))
        expect(sum(answer.successor is not None for answer in answers), 1)
        expect(len(await everything(jobs)), 2)

    async def test_a_job_that_goes_on_has_no_successor_yet(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        expect((await end(jobs, leased, Interrupted())).successor, None)
        expect(len(await everything(jobs)), 1)

    async def test_a_stale_end_makes_no_successor(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        await end(jobs, leased, Interrupted())
        expect((await end(jobs, leased)).successor, None)
        expect(len(await everything(jobs)), 1)

    async def test_a_successor_that_exists_is_left_alone(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        there = replace(_following(leased), priority=1)
        await jobs.insert([there], NOW)
        expect((await end(jobs, leased)).successor, None)
        expect(await find(jobs, there.id), there)

    async def test_a_successor_whose_key_exists_is_left_alone(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        there = replace(_following(leased), id=a_job().id)
        await jobs.insert([there], NOW)
        expect((await end(jobs, leased)).successor, None)
        expect([job.id for job in await everything(jobs)], sorted([leased.id, there.id]))

    async def test_a_job_amended_while_it_runs_hands_the_amendment_on(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        await jobs.amend("default", leased.id, {"payload": [2], "priority": 9}, NOW)
        applied = await end(jobs, leased)
        successor = applied.successor
        expect(successor and (successor.payload, successor.priority), ([2], 9))
        kept = await find(jobs, leased.id)
        expect(kept and (kept.payload, kept.priority), ([2], 9))

    async def test_a_series_paused_during_a_run_waits_afterwards(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        await jobs.amend("default", leased.id, {"is_paused": True}, NOW)
        successor = (await end(jobs, leased)).successor
        kept = successor and await find(jobs, successor.id)
        expect(kept and (kept.is_paused, kept.due_at), (True, PAUSED_UNTIL))
        expect(await take(jobs, NOW + DAY), [])

    async def test_a_series_resumed_during_a_run_goes_on(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, is_paused=True)
        await jobs.amend("default", leased.id, {"is_paused": False}, NOW)
        successor = (await end(jobs, leased)).successor
        expect(successor and (successor.is_paused, successor.due_at), (False, NOW + DAY))

    async def test_a_completed_job_of_a_series_can_be_removed(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, auto_remove=True)
        applied = await end(jobs, leased)
        expect(applied.is_removed, expected=True)
        expect(applied.job and applied.job.status, JobStatus.COMPLETED)
        expect(await statuses(jobs, leased), [None])
        expect(len(await everything(jobs)), 1)
        expect(await jobs.attempts("default", leased.id), [])

    async def test_the_id_of_a_successor_follows_from_its_parent(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        applied = await end(jobs, leased)
        expect(applied.successor and applied.successor.id, derive_job_id(leased.id, NOW))


async def _start_series(
    jobs: JobStore, *, auto_remove: bool = False, is_paused: bool = False
) -> Job:
    job = a_job(
        due_at=NOW,
        occurrence_at=NOW,
        recurrence=DAILY,
        idempotency_key="series",
        occurrence=a_job().id,
        auto_remove=auto_remove,
        is_paused=is_paused,
    )
    await jobs.insert([job], NOW)
    (leased,) = await take(jobs)
    return leased


def _following(leased: Job) -> Job:
    """The successor, as whoever ends the job decides it."""
    return cast("Job", decide_complete(leased, NOW).successor)
