"""Dependents are released exactly once, or blocked, however the jobs they wait for race."""

import asyncio
from itertools import permutations, product

from rota.jobs import (
    Discarded,
    Failed,
    Job,
    JobStatus,
    Outcome,
    Snoozed,
    Succeeded,
    decide_cancel,
    decide_complete,
    decide_outcome,
)
from rota.stores.protocol import Applied, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    expect,
    expect_true,
    find,
    statuses,
    take,
)

ENDINGS: tuple[Outcome, ...] = (Succeeded(), Discarded("no"))
PARENT_COUNT = 3


class DependenciesContract(JobStoreFixture):
    """What the end of a job means for those that wait for it."""

    async def test_a_released_job_is_ready_at_its_own_time(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id], due_at=NOW + DAY)
        await jobs.insert([parent, child], NOW)
        (leased,) = await take(jobs)
        applied = await end(jobs, leased, now=NOW + SECOND)
        expect(applied.released, (child.id,))
        kept = await find(jobs, child.id)
        expect(kept and (kept.status, kept.due_at), (JobStatus.READY, NOW + DAY))
        expect(kept and kept.updated_at, NOW + SECOND)
        expect(await jobs.next_due_at(NOW), NOW + DAY)

    async def test_dependents_are_released_exactly_once_in_whatever_order_parents_end(
        self, jobs: JobStore
    ) -> None:
        """Every order of three parents, each ending well or badly."""
        for order in permutations(range(PARENT_COUNT)):
            for endings in product(ENDINGS, repeat=PARENT_COUNT):
                parents, child = await _family(jobs)
                leased = {job.id: job for job in await take(jobs)}
                answers = [
                    await end(jobs, leased[parents[index].id], endings[index]) for index in order
                ]
                is_well = all(isinstance(ending, Succeeded) for ending in endings)
                _expect_told_once(answers, child, is_released=is_well)
                expect(await statuses(jobs, child), [_status(is_released=is_well)])
                expect([job.id for job in await take(jobs)], [child.id] * is_well)

    async def test_dependents_are_released_exactly_once_however_parents_race(
        self, jobs: JobStore
    ) -> None:
        for endings in product(ENDINGS, repeat=PARENT_COUNT):
            parents, child = await _family(jobs)
            leased = {job.id: job for job in await take(jobs)}
            outcomes = dict(zip([job.id for job in parents], endings, strict=True))
            calls = (end(jobs, leased[each], outcome) for each, outcome in outcomes.items())
            answers = await asyncio.gather(*calls)
            is_well = all(isinstance(ending, Succeeded) for ending in endings)
            _expect_told_once(answers, child, is_released=is_well)
            expect([job.id for job in await take(jobs)], [child.id] * is_well)

    async def test_parents_that_end_in_one_call_release_once(self, jobs: JobStore) -> None:
        _, child = await _family(jobs)
        answers = await jobs.apply([decide_complete(job, NOW) for job in await take(jobs)], NOW)
        expect([answer.released for answer in answers], [(), (), (child.id,)])

    async def test_a_dependent_inserted_while_parents_end_is_not_forgotten(
        self, jobs: JobStore
    ) -> None:
        for _ in range(10):
            parents = [a_job() for _ in range(PARENT_COUNT)]
            await jobs.insert(parents, NOW)
            leased = await take(jobs)
            child = a_job(dependencies=[parent.id for parent in parents])
            await asyncio.gather(
                end(jobs, leased[0]),
                end(jobs, leased[1]),
                jobs.insert([child], NOW),
                end(jobs, leased[2]),
            )
            expect(await statuses(jobs, child), [JobStatus.READY])
            await take(jobs)

    async def test_a_job_that_has_not_ended_releases_nobody(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        (leased,) = await take(jobs)
        for outcome in (Snoozed(SECOND), Failed("again")):
            applied = await end(jobs, leased, outcome)
            expect((applied.is_stale, applied.released, applied.blocked), (False, (), ()))
            (leased,) = await take(jobs, NOW + DAY)
        expect(await statuses(jobs, child), [JobStatus.PENDING])

    async def test_failure_blocks_all_pending_descendants(self, jobs: JobStore) -> None:
        root, other = a_job(name="root"), a_job(name="other")
        left, right = a_job(dependencies=[root.id]), a_job(dependencies=[root.id, other.id])
        below = a_job(dependencies=[left.id, right.id])
        last = a_job(dependencies=[below.id])
        beside = a_job(dependencies=[other.id])
        await jobs.insert([root, other, left, right, below, last, beside], NOW)
        leased = {job.name: job for job in await take(jobs)}
        applied = await end(jobs, leased["root"], Discarded("no"), NOW + SECOND)
        family = (left, right, below, last)
        expect(applied.blocked, tuple(sorted(job.id for job in family)))
        expect(await statuses(jobs, *family), [JobStatus.BLOCKED] * 4)
        kept = await find(jobs, last.id)
        expect(kept and kept.updated_at, NOW + SECOND)
        expect((await end(jobs, leased["other"])).released, (beside.id,))
        expect(await statuses(jobs, *family), [JobStatus.BLOCKED] * 4)

    async def test_a_cancelled_job_blocks_its_descendants(self, jobs: JobStore) -> None:
        first = a_job()
        second = a_job(dependencies=[first.id])
        third = a_job(dependencies=[second.id])
        await jobs.insert([first, second, third], NOW)
        (applied,) = await jobs.apply([decide_cancel(second, "no need", NOW)], NOW)
        expect(applied.blocked, (third.id,))
        expect(
            await statuses(jobs, first, second, third),
            [JobStatus.READY, JobStatus.BLOCKED, JobStatus.BLOCKED],
        )

    async def test_who_has_been_released_is_not_blocked(self, jobs: JobStore) -> None:
        """A job that is READY waits for nobody: only PENDING ones are blocked."""
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        grandchild = a_job(dependencies=[child.id])
        await jobs.insert([parent, child, grandchild], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased)
        (leased,) = await take(jobs)
        change = decide_outcome(leased, Discarded("no"), NOW)
        (applied,) = await jobs.apply([change], NOW)
        expect(applied.blocked, (grandchild.id,))
        expect(await statuses(jobs, parent), [JobStatus.COMPLETED])

    async def test_a_job_to_be_removed_is_kept_while_others_depend_on_it(
        self, jobs: JobStore
    ) -> None:
        parents = [a_job(auto_remove=True), a_job()]
        child = a_job(dependencies=[parent.id for parent in parents])
        await jobs.insert([*parents, child], NOW)
        answers = [await end(jobs, leased) for leased in await take(jobs)]
        expect([answer.is_removed for answer in answers], [False, False])
        expect(
            await statuses(jobs, *parents, child),
            [JobStatus.COMPLETED, JobStatus.COMPLETED, JobStatus.READY],
        )


async def _family(jobs: JobStore) -> tuple[list[Job], Job]:
    parents = [a_job() for _ in range(PARENT_COUNT)]
    child = a_job(dependencies=[parent.id for parent in parents])
    await jobs.insert([*parents, child], NOW)
    return parents, child


def _status(*, is_released: bool) -> JobStatus:
    return JobStatus.READY if is_released else JobStatus.BLOCKED


def _expect_told_once(answers: list[Applied], child: Job, *, is_released: bool) -> None:
    told = [each for answer in answers for each in (*answer.released, *answer.blocked)]
    expect(told, [child.id])
    released = any(answer.released for answer in answers)
    expect_true(released is is_released, f"released: {released}, but it should be {is_released}")
