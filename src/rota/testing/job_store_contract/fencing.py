"""Tokens: who lost a lease writes nothing and is told; leases that ran out are found."""

import asyncio
from threading import Thread

import pytest
from msgspec.structs import replace

from rota.errors import IllegalMoveError, InvalidInputError
from rota.jobs import (
    Change,
    Failed,
    Interrupted,
    Job,
    JobStatus,
    Lost,
    Snoozed,
    Succeeded,
    decide_cancel,
    decide_complete,
    decide_hand_back,
    decide_outcome,
)
from rota.stores.protocol import HeldLease, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    expect,
    find,
    statuses,
    take,
)


class FencingContract(JobStoreFixture):
    """Nobody settles a job that another holds."""

    async def test_a_token_only_grows(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        tokens: list[int] = []
        for outcome in (Interrupted(), Snoozed(SECOND), Failed("no"), Lost()):
            started_at = NOW + len(tokens) * DAY
            (leased,) = await take(jobs, started_at)
            tokens.append(leased.last_token)
            applied = await end(jobs, leased, outcome, started_at + 2 * MINUTE)
            expect(applied.is_stale, expected=False)
        expect(tokens, [1, 2, 3, 4])

    async def test_a_stale_settle_writes_nothing_and_is_reported(self, jobs: JobStore) -> None:
        job = a_job()
        child = a_job(dependencies=[job.id])
        await jobs.insert([job, child], NOW)
        (before,) = await take(jobs, worker="slow")
        await end(jobs, before, Interrupted())
        (after,) = await take(jobs, worker="quick")
        for outcome in (Succeeded(), Failed("late"), Snoozed(MINUTE), Lost()):
            applied = await end(jobs, before, outcome, NOW + 2 * MINUTE)
            expect((applied.is_stale, applied.released), (True, ()))
        expect(await find(jobs, job.id), after)
        expect(await jobs.attempts("default", job.id), [])
        expect(await statuses(jobs, child), [JobStatus.PENDING])

    async def test_a_job_ends_once(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        calls = (end(jobs, leased, outcome) for outcome in (Succeeded(), Failed("no")) * 5)
        answers = await asyncio.gather(*calls)
        expect(sum(not answer.is_stale for answer in answers), 1)
        again = await jobs.apply([decide_complete(leased, NOW)] * 2, NOW)
        expect([answer.is_stale for answer in again], [True, True])

    async def test_one_stale_change_does_not_hold_up_the_others(self, jobs: JobStore) -> None:
        waiting = [a_job(), a_job()]
        await jobs.insert(waiting, NOW)
        first, second = await take(jobs)
        await jobs.delete("default", first.id)
        answers = await jobs.apply([decide_complete(job, NOW) for job in (first, second)], NOW)
        expect([answer.is_stale for answer in answers], [True, False])
        expect(await statuses(jobs, *waiting), [None, JobStatus.COMPLETED])

    async def test_a_change_sees_those_before_it(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        back = decide_hand_back(leased, NOW)
        answers = await jobs.apply([back, decide_cancel(back.job, "no", NOW), back], NOW)
        expect([answer.is_stale for answer in answers], [False, False, True])

    async def test_a_change_of_another_tenants_job_is_stale(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        change = decide_complete(replace(leased, tenant="other"), NOW)
        expect((await jobs.apply([change], NOW))[0].is_stale, expected=True)

    async def test_a_way_that_is_not_in_the_table_is_refused(self, jobs: JobStore) -> None:
        waiting = [a_job(), a_job()]
        await jobs.insert(waiting, NOW)
        first, second = await take(jobs)
        wrong = Change(
            job=replace(second, status=JobStatus.PENDING),
            path=(JobStatus.RUNNING, JobStatus.PENDING),
            expected_token=1,
        )
        with pytest.raises(IllegalMoveError):
            await jobs.apply([decide_complete(first, NOW), wrong], NOW)
        expect(await statuses(jobs, *waiting), [JobStatus.RUNNING, JobStatus.RUNNING])

    async def test_every_attempt_that_failed_is_kept(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        for number in range(3):
            (leased,) = await take(jobs, NOW + number * MINUTE)
            await end(jobs, leased, Failed(f"error {number}"), NOW + number * MINUTE + SECOND)
        kept = await jobs.attempts("default", job.id)
        expect([(one.number, one.token) for one in kept], [(1, 1), (2, 2), (3, 3)])
        expect([one.error for one in kept], ["error 0", "error 1", "error 2"])
        expect(await statuses(jobs, job), [JobStatus.FAILED])


class ExpiryContract(JobStoreFixture):
    """Leases are extended, or run out and are found."""

    async def test_an_extended_lease_lasts(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        expect(await jobs.extend([_held(leased)], NOW + 5 * MINUTE, NOW), [True])
        expect(await jobs.extend([_held(leased)], NOW + 2 * MINUTE, NOW), [True])
        kept = await find(jobs, leased.id)
        expect(kept and kept.lease and kept.lease.until, NOW + 5 * MINUTE)
        expect(kept and kept.updated_at, NOW)
        expect((await end(jobs, leased)).is_stale, expected=False)

    async def test_a_lost_lease_cannot_be_extended(self, jobs: JobStore) -> None:
        await jobs.insert([a_job() for _ in range(4)], NOW)
        taken, ended, deleted, kept = await take(jobs)
        await end(jobs, taken, Interrupted())
        await take(jobs)
        await end(jobs, ended)
        await jobs.delete("default", deleted.id)
        held = [_held(job) for job in (taken, ended, deleted, kept)]
        expect(await jobs.extend(held, NOW + MINUTE, NOW), [False, False, False, True])
        unknown = HeldLease(a_job().id, 1)
        expect(await jobs.extend([unknown], NOW + MINUTE, NOW), [False])

    async def test_a_keeper_extends_leases_from_another_thread(self, jobs: JobStore) -> None:
        """The event loop does not turn while it does: the thread is waited for with a join."""
        await jobs.insert([a_job() for _ in range(2)], NOW)
        kept, deleted = await take(jobs)
        await jobs.delete("default", deleted.id)
        keeper = jobs.make_keeper()
        answers: list[list[bool]] = []

        def extend_twice() -> None:
            held = [_held(kept), _held(deleted)]
            answers.extend(keeper.extend(held, NOW + each * MINUTE, NOW) for each in (5, 2))
            keeper.close()
            keeper.close()

        beside = Thread(target=extend_twice)
        beside.start()
        beside.join()
        expect(answers, [[True, False], [True, False]])
        found = await find(jobs, kept.id)
        expect(found and found.lease and found.lease.until, NOW + 5 * MINUTE)

    async def test_a_lease_has_run_out_after_its_last_instant(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        expect(await jobs.find_expired(NOW + MINUTE, 10), [])
        expect(await jobs.find_expired(NOW + MINUTE + SECOND, 10), [leased])
        await end(jobs, leased)
        expect(await jobs.find_expired(NOW + MINUTE + SECOND, 10), [])

    async def test_a_sweep_meets_every_lease_that_ran_out_once(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(tenant=tenant) for tenant in "ab" for _ in range(10)], NOW)
        for step in range(4):
            await take(jobs, NOW + step // 2 * SECOND, limit=5)
        met: list[Job] = []
        while page := await jobs.find_expired(NOW + 2 * MINUTE, 3, met[-1] if met else None):
            met += page
        keys = [(job.lease and job.lease.until, job.id) for job in met]
        expect((len(keys), keys), (20, sorted(set(keys))))

    async def test_a_lease_extended_in_time_is_not_lost(self, jobs: JobStore) -> None:
        """The rescuer read an expired lease, but its holder came back first."""
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        late = NOW + 2 * MINUTE
        (expired,) = await jobs.find_expired(late, 1)
        expect(await jobs.extend([_held(leased)], late + MINUTE, late), [True])
        applied = await jobs.apply([decide_outcome(expired, Lost(), late)], late)
        expect(applied[0].is_stale, expected=True)
        expect((await end(jobs, leased, now=late)).is_stale, expected=False)

    async def test_a_rescued_job_is_lost_to_its_worker(self, jobs: JobStore) -> None:
        await jobs.insert([a_job()], NOW)
        (leased,) = await take(jobs)
        late = NOW + 2 * MINUTE
        (expired,) = await jobs.find_expired(late, 1)
        expect((await end(jobs, expired, Lost(), late)).is_stale, expected=False)
        expect((await end(jobs, leased, now=late)).is_stale, expected=True)
        expect(await jobs.extend([_held(leased)], late + MINUTE, late), [False])

    async def test_a_limit_below_one_is_refused(self, jobs: JobStore) -> None:
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.find_expired(NOW, 0)
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.prune(NOW, 0)


def _held(job: Job) -> HeldLease:
    return HeldLease(job.id, job.last_token)
