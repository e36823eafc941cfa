"""Results, the history of attempts, listening for the end, and what a failed dependency does."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from rota.errors import StoreClosedError
from rota.jobs import (
    Cancelled,
    Discarded,
    Ending,
    Failed,
    Job,
    JobId,
    JobStatus,
    OnParentFailure,
    RetryPolicy,
    Succeeded,
    decide_cancel,
    decide_outcome,
)
from rota.stores.opened import OpenStore
from rota.stores.protocol import JobStore, KeptJob
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    TENANT,
    JobStoreFixture,
    end,
    find,
    start,
    statuses,
    take,
)
from rota.testing.store_contract import expect

LATER = NOW + MINUTE
ONCE = RetryPolicy(max_attempts=1)
RESULT = b'{"sent":7}'
PATIENCE = 10.0


class ResultsContract(JobStoreFixture):
    """What a handler returned is kept with its job, once."""

    async def test_the_result_of_a_completed_job_is_kept(self, jobs: JobStore) -> None:
        job, plain = a_job(), a_job()
        await jobs.insert([job, plain], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, Succeeded(RESULT if leased.id == job.id else None))
        expect(await jobs.results(TENANT, [job.id, plain.id, a_job().id]), {job.id: RESULT})
        expect(await jobs.results(TENANT, []), {})

    async def test_other_tenants_see_no_result(self, jobs: JobStore) -> None:
        job = a_job(tenant="owner")
        await jobs.insert([job], NOW)
        await end(jobs, (await take(jobs))[0], Succeeded(RESULT))
        expect(await jobs.results("other", [job.id]), {})
        expect(await jobs.results("owner", [job.id]), {job.id: RESULT})

    async def test_a_large_result_is_kept_byte_for_byte(self, jobs: JobStore) -> None:
        result = b'"' + "é\\u0000".encode() * 8_000 + b'"'
        job = a_job()
        await jobs.insert([job], NOW)
        await end(jobs, (await take(jobs))[0], Succeeded(result))
        expect(await jobs.results(TENANT, [job.id]), {job.id: result})

    async def test_a_worker_that_lost_its_lease_leaves_no_result(self, jobs: JobStore) -> None:
        job = a_job()
        (first,) = await start(jobs, [job])
        lost = decide_outcome(first, Failed("it broke"), NOW)
        await jobs.apply([lost], NOW)
        (second,) = await take(jobs, NOW + DAY)
        late = decide_outcome(first, Succeeded(b'"late"'), NOW + DAY)
        (applied,) = await jobs.apply([late], NOW + DAY)
        expect(applied.is_stale, expected=True)
        expect(await jobs.results(TENANT, [job.id]), {})
        await end(jobs, second, Succeeded(b'"second"'), NOW + DAY)
        (applied,) = await jobs.apply([late], NOW + DAY)
        expect(applied.is_stale, expected=True)
        expect(await jobs.results(TENANT, [job.id]), {job.id: b'"second"'})

    async def test_a_job_with_dependents_keeps_its_result(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        await end(jobs, (await take(jobs))[0], Succeeded(RESULT))
        expect(await jobs.results(TENANT, [parent.id]), {parent.id: RESULT})
        expect(await statuses(jobs, child), [JobStatus.READY])

    async def test_a_result_goes_with_its_job(self, jobs: JobStore) -> None:
        deleted, pruned, removed = a_job(), a_job(), a_job(auto_remove=True)
        await jobs.insert([deleted, pruned, removed], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, Succeeded(RESULT))
        ids = [deleted.id, pruned.id, removed.id]
        expect(set(await jobs.results(TENANT, ids)), {deleted.id, pruned.id})
        await jobs.delete(TENANT, deleted.id)
        expect((await jobs.prune(NOW + DAY, 10)).removed, 1)
        again = [a_job(id=each) for each in ids]
        await jobs.insert(again, NOW)
        expect(await jobs.results(TENANT, ids), {})

    async def test_many_results_are_written_and_read_at_once(self, jobs: JobStore) -> None:
        made = [a_job() for _ in range(200)]
        await jobs.insert(made, NOW)
        leased = await take(jobs, limit=200)
        changes = [decide_outcome(each, Succeeded(each.id.encode()), NOW) for each in leased]
        await jobs.apply(changes, NOW)
        expected = {each.id: each.id.encode() for each in made}
        expect(await jobs.results(TENANT, [each.id for each in made]), expected)

    async def test_a_result_moves_with_its_job_to_another_store(self, jobs: JobStore) -> None:
        store = cast(OpenStore, jobs)
        job = a_job(dependencies=[])
        await jobs.insert([job], NOW)
        await end(jobs, (await take(jobs))[0], Succeeded(RESULT, log="it ran"), LATER)
        (record,) = [each for each in (await _dump_jobs(store)) if isinstance(each, KeptJob)]
        expect(record.result, RESULT)
        await jobs.delete(TENANT, job.id)
        expect(await store.load([record], NOW), 1)
        expect(await jobs.results(TENANT, [job.id]), {job.id: RESULT})
        (attempt,) = await jobs.attempts(TENANT, job.id)
        expect((attempt.outcome, attempt.log), ("succeeded", "it ran"))


class HistoryContract(JobStoreFixture):
    """Every attempt is on record: start, end, worker, error, traceback and log."""

    async def test_a_success_keeps_its_worker_start_and_end(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs, worker="worker 7")
        started_at, ended_at = NOW + SECOND, NOW + 3 * SECOND
        change = decide_outcome(leased, Succeeded(), ended_at, started_at=started_at)
        await jobs.apply([change], LATER)
        stored = await find(jobs, job.id)
        expect(stored, change.job)
        (attempt,) = await jobs.attempts(TENANT, job.id)
        expect((attempt.number, attempt.token, attempt.outcome), (1, 1, "succeeded"))
        expect((attempt.worker, attempt.error), ("worker 7", None))
        expect((attempt.started_at, attempt.ended_at), (started_at, ended_at))

    async def test_a_success_with_dependents_keeps_them_too(self, jobs: JobStore) -> None:
        parent = a_job()
        (leased,) = await start(jobs, [parent, a_job(dependencies=[parent.id])])
        change = decide_outcome(leased, Succeeded(), LATER)
        await jobs.apply([change], LATER)
        expect(await find(jobs, parent.id), change.job)
        expect(change.job.completion is None, expected=False)

    async def test_failures_and_the_success_are_in_order(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        failed = Failed("it broke", traceback="Traceback: line 1\n  é\n", log="one\ntwo")
        await end(jobs, (await take(jobs))[0], failed)
        await end(jobs, (await take(jobs, NOW + DAY))[0], Succeeded(), NOW + DAY)
        first, second = await jobs.attempts(TENANT, job.id)
        expect((first.number, first.outcome, first.error), (1, "failed", "it broke"))
        expect((first.traceback, first.log), (failed.traceback, failed.log))
        expect((second.number, second.outcome, second.error), (2, "succeeded", None))
        expect((second.traceback, second.log), (None, None))

    async def test_a_success_with_a_log_is_there_once(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        await end(jobs, (await take(jobs))[0], Succeeded(log="sent 7"), LATER)
        (attempt,) = await jobs.attempts(TENANT, job.id)
        expect((attempt.outcome, attempt.log), ("succeeded", "sent 7"))
        expect((attempt.started_at, attempt.ended_at), (NOW, LATER))

    async def test_a_discarded_attempt_keeps_its_traceback(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        await end(jobs, (await take(jobs))[0], Discarded("useless", traceback="Traceback"))
        (attempt,) = await jobs.attempts(TENANT, job.id)
        expect((attempt.outcome, attempt.error), ("discarded", "useless"))
        expect(attempt.traceback, "Traceback")


class EndListeningContract(JobStoreFixture):
    """Who waits for the end of a job is woken by it."""

    @pytest.mark.parametrize(
        "outcome", [Succeeded(), Succeeded(RESULT), Failed("broke"), Cancelled("by hand")]
    )
    async def test_an_end_is_heard(
        self, jobs: JobStore, outcome: Succeeded | Failed | Cancelled
    ) -> None:
        job, other = a_job(retry_policy=ONCE), a_job(priority=1)
        await jobs.insert([job, other], NOW)
        async with jobs.listen_for_end(TENANT, [job.id]) as listener:
            leased, _ = await take(jobs)
            expect(leased.id, job.id)
            await end(jobs, leased, outcome)
            await asyncio.wait_for(listener.wait(), PATIENCE)

    async def test_an_end_in_a_batch_is_heard(self, jobs: JobStore) -> None:
        made = [a_job() for _ in range(20)]
        await jobs.insert(made, NOW)
        async with jobs.listen_for_end(TENANT, [made[7].id, made[8].id]) as listener:
            leased = await take(jobs)
            await jobs.apply([decide_outcome(each, Succeeded(), NOW) for each in leased], NOW)
            await asyncio.wait_for(listener.wait(), PATIENCE)

    async def test_a_blocked_job_is_heard(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        async with jobs.listen_for_end(TENANT, [child.id]) as listener:
            await end(jobs, (await take(jobs))[0], Discarded("useless"))
            await asyncio.wait_for(listener.wait(), PATIENCE)
        expect(await statuses(jobs, child), [JobStatus.BLOCKED])

    async def test_a_job_with_dependents_is_heard(self, jobs: JobStore) -> None:
        parent = a_job()
        await jobs.insert([parent, a_job(dependencies=[parent.id])], NOW)
        async with jobs.listen_for_end(TENANT, [parent.id]) as listener:
            await end(jobs, (await take(jobs))[0])
            await asyncio.wait_for(listener.wait(), PATIENCE)

    async def test_a_deleted_and_a_removed_job_are_heard(self, jobs: JobStore) -> None:
        deleted, removed = a_job(due_at=NOW + DAY), a_job(auto_remove=True)
        await jobs.insert([deleted, removed], NOW)
        async with jobs.listen_for_end(TENANT, [deleted.id]) as listener:
            await jobs.delete(TENANT, deleted.id)
            await asyncio.wait_for(listener.wait(), PATIENCE)
        async with jobs.listen_for_end(TENANT, [removed.id]) as listener:
            await end(jobs, (await take(jobs))[0])
            await asyncio.wait_for(listener.wait(), PATIENCE)

    async def test_two_listeners_hear_the_same_end(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        async with (
            jobs.listen_for_end(TENANT, [job.id]) as one,
            jobs.listen_for_end(TENANT, [job.id, a_job().id]) as other,
        ):
            await end(jobs, (await take(jobs))[0])
            await asyncio.wait_for(asyncio.gather(one.wait(), other.wait()), PATIENCE)

    async def test_a_closed_store_ends_the_wait(self, jobs: JobStore) -> None:
        async with jobs.listen_for_end(TENANT, [a_job().id]) as listener:
            await jobs.close()
            with pytest.raises(StoreClosedError):
                await asyncio.wait_for(listener.wait(), PATIENCE)


class ParentFailureContract(JobStoreFixture):
    """A job says what it does when a dependency does not complete."""

    async def test_a_job_that_runs_anyway_waits_for_the_others(self, jobs: JobStore) -> None:
        failing, other = a_job(retry_policy=ONCE), a_job(priority=1)
        child = a_job(dependencies=[failing.id, other.id], on_parent_failure="run")
        await jobs.insert([failing, other, child], NOW)
        expect(await find(jobs, child.id), child)
        first, second = await take(jobs)
        applied = await end(jobs, first, Failed("broke"))
        expect((applied.released, applied.blocked), ((), ()))
        expect(await statuses(jobs, child), [JobStatus.PENDING])
        applied = await end(jobs, second)
        expect(applied.released, (child.id,))
        expect(await statuses(jobs, child), [JobStatus.READY])
        expect([job.id for job in await take(jobs)], [child.id])

    async def test_a_failure_as_the_last_end_releases_it(self, jobs: JobStore) -> None:
        failing, other = a_job(retry_policy=ONCE), a_job(priority=1)
        child = a_job(dependencies=[failing.id, other.id], on_parent_failure="run")
        first, second = await start(jobs, [failing, other, child])
        await end(jobs, second)
        applied = await end(jobs, first, Failed("broke"))
        expect((applied.released, applied.blocked), ((child.id,), ()))
        expect([job.id for job in await take(jobs)], [child.id])

    async def test_a_skipped_job_names_its_dependency(self, jobs: JobStore) -> None:
        failing = a_job(retry_policy=ONCE)
        skipped = a_job(dependencies=[failing.id], on_parent_failure="skip")
        await jobs.insert([failing, skipped], NOW)
        applied = await end(jobs, (await take(jobs))[0], Failed("broke"), LATER)
        expect(applied.blocked, (skipped.id,))
        stored = await _read(jobs, skipped.id)
        expect((stored.status, stored.ending), (JobStatus.BLOCKED, Ending.CANCELLED))
        expect(stored.last_error, f"Skipped: its dependency {failing.id} did not complete")
        expect(stored.updated_at, LATER)
        expect(await take(jobs, NOW + DAY), [])

    async def test_each_descendant_follows_its_own_policy(self, jobs: JobStore) -> None:
        root = a_job(retry_policy=ONCE)
        blocked = a_job(dependencies=[root.id])
        skipped = a_job(dependencies=[blocked.id], on_parent_failure="skip")
        anyway = a_job(dependencies=[skipped.id, blocked.id], on_parent_failure="run")
        beyond = a_job(dependencies=[anyway.id])
        await jobs.insert([root, blocked, skipped, anyway, beyond], NOW)
        applied = await end(jobs, (await take(jobs))[0], Failed("broke"))
        expect(applied.blocked, (blocked.id, skipped.id))
        expect(applied.released, (anyway.id,))
        wanted = [JobStatus.BLOCKED, JobStatus.BLOCKED, JobStatus.READY, JobStatus.PENDING]
        expect(await statuses(jobs, blocked, skipped, anyway, beyond), wanted)
        await end(jobs, (await take(jobs))[0])
        expect(await statuses(jobs, beyond), [JobStatus.READY])

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [("block", JobStatus.BLOCKED), ("run", JobStatus.READY), ("skip", JobStatus.BLOCKED)],
    )
    async def test_a_dependency_may_have_failed_before(
        self, jobs: JobStore, policy: OnParentFailure, expected: JobStatus
    ) -> None:
        failed = a_job(retry_policy=ONCE)
        await jobs.insert([failed], NOW)
        await end(jobs, (await take(jobs))[0], Failed("broke"))
        child = a_job(dependencies=[failed.id], on_parent_failure=policy)
        grandchild = a_job(dependencies=[child.id], on_parent_failure="run")
        inserted = await jobs.insert([child, grandchild], NOW)
        stored = await _read(jobs, child.id)
        expect(stored, inserted[0].job)
        expect(stored.status, expected)
        expect(stored.ending, Ending.CANCELLED if policy == "skip" else None)
        is_over = expected is JobStatus.BLOCKED
        wanted = JobStatus.READY if is_over else JobStatus.PENDING
        expect(await statuses(jobs, grandchild), [wanted])

    async def test_a_cancelled_dependency_counts_as_failed(self, jobs: JobStore) -> None:
        parent, waiting = a_job(), a_job(due_at=NOW + DAY)
        pending = a_job(dependencies=[waiting.id])
        child = a_job(dependencies=[pending.id, parent.id], on_parent_failure="run")
        await jobs.insert([parent, waiting, pending, child], NOW)
        await jobs.apply([decide_cancel(pending, "by hand", NOW)], NOW)
        await end(jobs, (await take(jobs))[0])
        expect(await statuses(jobs, pending, child), [JobStatus.BLOCKED, JobStatus.READY])

    async def test_the_policy_moves_with_the_job_to_another_store(self, jobs: JobStore) -> None:
        store = cast(OpenStore, jobs)
        failed, done = a_job(status=JobStatus.FAILED), a_job()
        child = a_job(dependencies=[failed.id, done.id], on_parent_failure="run")
        for record in (KeptJob(child), KeptJob(failed), KeptJob(done)):
            await store.load([record], NOW)
        await end(jobs, (await take(jobs))[0])
        expect(await statuses(jobs, child), [JobStatus.READY])


class WideFanInContract(JobStoreFixture):
    """A job may wait for ten thousand others."""

    fan_in_width = 10_000
    """How many parents the job has; a store that only routes calls may take fewer."""

    async def test_the_last_parent_of_a_wide_fan_in_releases_the_job(self, jobs: JobStore) -> None:
        parents = [a_job(name="parent") for _ in range(self.fan_in_width)]
        child = a_job(name="child", dependencies=[each.id for each in parents])
        await jobs.insert([*parents, child], NOW)
        released = await _complete_all(jobs, parents)
        expect(released, [child.id])
        (leased,) = await take(jobs)
        expect((leased.id, len(leased.dependencies)), (child.id, self.fan_in_width))
        expect(leased.dependencies, child.dependencies)


class JobResultContract(
    EndListeningContract,
    HistoryContract,
    ParentFailureContract,
    ResultsContract,
    WideFanInContract,
):
    """The promises of ``JobStore`` about results, attempts, ends and failed dependencies."""


async def _complete_all(jobs: JobStore, parents: Sequence[Job]) -> list[JobId]:
    """Complete the jobs in batches, as workers do; which dependents were released."""
    released: list[JobId] = []
    left = len(parents)
    while left:
        leased = await take(jobs, limit=500)
        changes = [decide_outcome(each, Succeeded(), NOW) for each in leased]
        for applied in await jobs.apply(changes, NOW):
            released += applied.released
        left -= len(leased)
    return released


async def _read(jobs: JobStore, job_id: JobId) -> Job:
    return (await jobs.get(TENANT, [job_id]))[job_id]


async def _dump_jobs(store: OpenStore) -> list[object]:
    found: list[object] = []
    cursor = None
    while True:
        portion = await store.dump(cursor)
        found += portion.records
        cursor = portion.cursor
        if cursor is None:
            return found
