"""Inserting jobs: idempotency keys, dependencies and series."""

import asyncio
from datetime import timedelta
from itertools import permutations, product
from typing import Any, cast

import pytest
from msgspec.structs import replace

from rota.errors import (
    DependencyCycleError,
    DuplicateJobError,
    InvalidInputError,
    UnknownDependencyError,
)
from rota.jobs import (
    PAUSED_UNTIL,
    Change,
    Discarded,
    Failed,
    Interrupted,
    Job,
    JobStatus,
    Outcome,
    Overlap,
    Recurrence,
    Snoozed,
    Succeeded,
    begin_beside,
    decide_cancel,
    decide_complete,
    derive_job_id,
)
from rota.stores.protocol import Applied, HeldLease, Inserted, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    everything,
    expect_true,
    find,
    start,
    statuses,
    take,
)
from rota.testing.store_contract import expect

CHAIN_LENGTH = 2_000


class InsertionContract(JobStoreFixture):
    """Jobs that are submitted together are stored together."""

    async def test_a_job_is_stored_as_it_was_submitted(self, jobs: JobStore) -> None:
        job = a_job(payload={"ä": [1, 2.5, None, True, "🌍"]}, idempotency_key="key", priority=9)
        expect(await jobs.insert([job], NOW), [Inserted(job)])
        expect(await find(jobs, job.id), job)

    async def test_an_empty_insert_stores_nothing(self, jobs: JobStore) -> None:
        expect(await jobs.insert([], NOW), [])
        expect(await everything(jobs), [])

    async def test_the_payload_is_a_copy(self, jobs: JobStore) -> None:
        payload = {"list": [1]}
        job = a_job(payload=payload)
        await jobs.insert([job], NOW)
        payload["list"].append(2)
        (leased,) = await take(jobs)
        leased.payload["list"].append(3)
        kept = await find(jobs, job.id)
        expect(kept and kept.payload, {"list": [1]})

    async def test_a_job_waits_for_jobs_of_the_same_call_in_any_order(self, jobs: JobStore) -> None:
        first = a_job()
        second = a_job(dependencies=[first.id])
        third = a_job(dependencies=[second.id, first.id])
        await jobs.insert([third, first, second], NOW)
        expect(
            await statuses(jobs, first, second, third),
            [JobStatus.READY, JobStatus.PENDING, JobStatus.PENDING],
        )

    async def test_dependencies_decide_the_first_status(self, jobs: JobStore) -> None:
        completed, failed, ready = a_job(name="done"), a_job(name="failed"), a_job(name="waits")
        await jobs.insert([completed, failed], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, Discarded("no") if leased.name == "failed" else None)
        await jobs.insert([ready], NOW)
        children = [
            a_job(dependencies=[completed.id]),
            a_job(dependencies=[completed.id, ready.id]),
            a_job(dependencies=[ready.id, failed.id]),
        ]
        grandchild = a_job(dependencies=[children[2].id])
        await jobs.insert([grandchild, *children], NOW)
        expect(
            await statuses(jobs, *children, grandchild),
            [JobStatus.READY, JobStatus.PENDING, JobStatus.BLOCKED, JobStatus.BLOCKED],
        )

    async def test_a_submitted_status_is_ignored(self, jobs: JobStore) -> None:
        parent = a_job(status=JobStatus.PENDING)
        child = a_job(dependencies=[parent.id], status=JobStatus.READY)
        await jobs.insert([parent, child], NOW)
        expect(await statuses(jobs, parent, child), [JobStatus.READY, JobStatus.PENDING])

    async def test_inserting_again_returns_the_job_as_it_has_become(self, jobs: JobStore) -> None:
        job = a_job()
        (leased,) = await start(jobs, [job])
        expect(await jobs.insert([job], NOW), [Inserted(leased, is_existing=True)])

    async def test_jobs_inserted_by_several_callers_at_once_have_their_own_answers(
        self, jobs: JobStore
    ) -> None:
        known, later, keyed = a_job(), a_job(due_at=NOW + DAY), a_job(idempotency_key="key")
        new = [a_job(queue=f"q{number % 3}") for number in range(20)]
        await jobs.insert([known, keyed], NOW)
        again = a_job(idempotency_key="key")
        asked = [known, later, again, *new, new[0]]
        answers = await asyncio.gather(*(jobs.insert([job], NOW) for job in asked))
        expect([each.is_existing for (each,) in answers[:3]], [True, False, True])
        expect(answers[2][0].job.id, keyed.id)
        existing = [each.is_existing for (each,) in answers[3:]]
        expect((sum(existing), existing[1:-1]), (1, [False] * 19))
        expect([each.job.id for (each,) in answers[3:]], [job.id for job in asked[3:]])
        ready = {known.id, keyed.id, *(job.id for job in new)}
        expect({job.id for job in await take(jobs, limit=30)}, ready)

    async def test_a_long_chain_can_be_inserted(self, jobs: JobStore) -> None:
        chain = [a_job()]
        for _ in range(CHAIN_LENGTH - 1):
            chain.append(a_job(dependencies=[chain[-1].id]))
        await jobs.insert(chain[::-1], NOW)
        expect(await jobs.count("default"), CHAIN_LENGTH)
        (leased,) = await take(jobs)
        applied = await end(jobs, leased, Discarded("no"))
        expect(len(applied.blocked), CHAIN_LENGTH - 1)


class RefusalContract(JobStoreFixture):
    """When one job is refused none is kept."""

    async def test_an_unknown_dependency_refuses_the_whole_call(self, jobs: JobStore) -> None:
        missing = a_job()
        with pytest.raises(UnknownDependencyError) as refusal:
            await jobs.insert([a_job(), a_job(dependencies=[missing.id])], NOW)
        expect(refusal.value.missing, [missing.id])
        expect(await everything(jobs), [])

    async def test_a_job_of_another_tenant_cannot_be_a_dependency(self, jobs: JobStore) -> None:
        parent = a_job(tenant="other")
        with pytest.raises(UnknownDependencyError):
            await jobs.insert([parent, a_job(dependencies=[parent.id])], NOW)
        await jobs.insert([parent], NOW)
        same = a_job(tenant="other", dependencies=[parent.id])
        with pytest.raises(UnknownDependencyError):
            await jobs.insert([same, a_job(dependencies=[parent.id])], NOW)
        expect((await everything(jobs), len(await everything(jobs, "other"))), ([], 1))

    async def test_a_cycle_refuses_the_whole_call(self, jobs: JobStore) -> None:
        one, two, three = a_job(), a_job(), a_job()
        circle = [_after(one, two), _after(two, three), _after(three, one)]
        with pytest.raises(DependencyCycleError) as refusal:
            await jobs.insert([a_job(), a_job(dependencies=[one.id]), *circle], NOW)
        expect(sorted(refusal.value.cycle_path), [one.id, two.id, three.id])
        expect(await everything(jobs), [])

    async def test_a_job_cannot_wait_for_itself(self, jobs: JobStore) -> None:
        job = a_job()
        with pytest.raises(DependencyCycleError) as refusal:
            await jobs.insert([_after(job, job)], NOW)
        expect(refusal.value.cycle_path, [job.id])

    async def test_an_id_that_is_taken_refuses_the_whole_call(self, jobs: JobStore) -> None:
        job = a_job(payload=1)
        await jobs.insert([job], NOW)
        for other in (
            replace(job, payload=2),
            replace(job, kind="other"),
            replace(job, tenant="other"),
            replace(job, idempotency_key="key"),
        ):
            with pytest.raises(DuplicateJobError):
                await jobs.insert([a_job(), other], NOW)
        expect(await everything(jobs), [job])


def _after(job: Job, *dependencies: Job) -> Job:
    return replace(job, dependencies=tuple(each.id for each in dependencies))


class IdempotencyContract(JobStoreFixture):
    """The same request twice makes one job."""

    async def test_the_same_key_returns_the_existing_job(self, jobs: JobStore) -> None:
        first = a_job(idempotency_key="key", payload={"a": 1, "b": {"c": 2, "d": 3}})
        again = a_job(idempotency_key="key", payload={"b": {"d": 3, "c": 2}, "a": 1})
        await jobs.insert([first], NOW)
        (answer,) = await jobs.insert([again], NOW)
        expect((answer.job, answer.is_existing), (first, True))
        expect(await everything(jobs), [first])

    async def test_the_same_key_with_a_different_payload_is_refused(self, jobs: JobStore) -> None:
        first = a_job(idempotency_key="key", payload=[1])
        await jobs.insert([first], NOW)
        others: list[Any] = [[2], [1, 1], {}, [1.0], ["1"], [True]]
        for payload in others:
            with pytest.raises(DuplicateJobError) as refusal:
                await jobs.insert([a_job(), a_job(idempotency_key="key", payload=payload)], NOW)
            expect(refusal.value.job_id, first.id)
        expect(await everything(jobs), [first])

    async def test_jobs_that_differ_in_tenant_kind_key_or_occurrence_are_different_jobs(
        self, jobs: JobStore
    ) -> None:
        different = [
            a_job(idempotency_key="key"),
            a_job(idempotency_key="key", tenant="other"),
            a_job(idempotency_key="key", kind="other"),
            a_job(idempotency_key="other"),
            a_job(idempotency_key="key", occurrence="1"),
            a_job(idempotency_key="key", occurrence="2"),
        ]
        answers = await jobs.insert(different, NOW)
        expect([answer.is_existing for answer in answers], [False] * 6)

    async def test_without_a_key_nothing_is_a_duplicate(self, jobs: JobStore) -> None:
        answers = await jobs.insert([a_job(occurrence="1"), a_job(occurrence="1")], NOW)
        expect([answer.is_existing for answer in answers], [False, False])

    async def test_twins_in_one_call_are_one_job(self, jobs: JobStore) -> None:
        twins = [a_job(idempotency_key="key") for _ in range(3)]
        answers = await jobs.insert(twins, NOW)
        expect([answer.job for answer in answers], [twins[0]] * 3)
        expect([answer.is_existing for answer in answers], [False, True, True])
        with pytest.raises(DuplicateJobError):
            await jobs.insert([a_job(idempotency_key="k", payload=n) for n in range(2)], NOW)
        expect(await everything(jobs), [twins[0]])

    async def test_callers_at_the_same_time_get_the_same_job(self, jobs: JobStore) -> None:
        twins = [a_job(idempotency_key="key") for _ in range(20)]
        answers = await asyncio.gather(*(jobs.insert([twin], NOW) for twin in twins))
        expect(len({answer.job.id for (answer,) in answers}), 1)
        expect(sum(not answer.is_existing for (answer,) in answers), 1)

    async def test_an_ended_job_still_stands_for_its_key(self, jobs: JobStore) -> None:
        job = a_job(idempotency_key="key")
        (leased,) = await start(jobs, [job])
        await end(jobs, leased)
        (answer,) = await jobs.insert([a_job(idempotency_key="key")], NOW)
        expect((answer.job.id, answer.job.status), (job.id, JobStatus.COMPLETED))

    async def test_a_key_is_free_again_when_its_job_is_gone(self, jobs: JobStore) -> None:
        job = a_job(idempotency_key="key", payload=1)
        await jobs.insert([job], NOW)
        await jobs.delete("default", job.id)
        (answer,) = await jobs.insert([a_job(idempotency_key="key", payload=2)], NOW)
        expect(answer.is_existing, expected=False)

    async def test_a_dependent_of_a_duplicate_depends_on_the_existing_job(
        self, jobs: JobStore
    ) -> None:
        first = a_job(idempotency_key="key")
        await jobs.insert([first], NOW)
        again = a_job(idempotency_key="key")
        child = a_job(dependencies=[again.id, first.id])
        answers = await jobs.insert([child, again], NOW)
        expect(answers[0].job.dependencies, (first.id,))
        expect(await statuses(jobs, again, child), [None, JobStatus.PENDING])
        (leased,) = await take(jobs)
        expect((await end(jobs, leased)).released, (child.id,))


ENDINGS: tuple[Outcome, ...] = (Succeeded(), Discarded("no"))
PARENT_COUNT = 3


class DependenciesContract(JobStoreFixture):
    """What the end of a job means for those that wait for it."""

    async def test_a_released_job_is_ready_at_its_own_time(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id], due_at=NOW + DAY)
        (leased,) = await start(jobs, [parent, child])
        applied = await end(jobs, leased, now=NOW + SECOND)
        expect(applied.released, (child.id,))
        kept = await find(jobs, child.id)
        expect(kept and (kept.status, kept.due_at), (JobStatus.READY, NOW + DAY))
        expect(kept and kept.updated_at, NOW + SECOND)
        expect(await jobs.next_due_at(NOW), NOW + DAY)

    async def test_dependents_are_released_exactly_once_in_any_order_of_ends(
        self, jobs: JobStore
    ) -> None:
        """Every order of three parents, each ending well or badly."""
        for order in permutations(range(PARENT_COUNT)):
            for endings in product(ENDINGS, repeat=PARENT_COUNT):
                parents, child = await _insert_child(jobs)
                leased = {job.id: job for job in await take(jobs)}
                answers = [
                    await end(jobs, leased[parents[index].id], endings[index]) for index in order
                ]
                is_well = all(isinstance(ending, Succeeded) for ending in endings)
                _expect_changed_once(answers, child, is_released=is_well)
                expect(await statuses(jobs, child), [_status(is_released=is_well)])
                expect([job.id for job in await take(jobs)], [child.id] * is_well)

    async def test_dependents_are_released_exactly_once_when_parents_race(
        self, jobs: JobStore
    ) -> None:
        for endings in product(ENDINGS, repeat=PARENT_COUNT):
            parents, child = await _insert_child(jobs)
            leased = {job.id: job for job in await take(jobs)}
            outcomes = dict(zip([job.id for job in parents], endings, strict=True))
            calls = (end(jobs, leased[each], outcome) for each, outcome in outcomes.items())
            answers = await asyncio.gather(*calls)
            is_well = all(isinstance(ending, Succeeded) for ending in endings)
            _expect_changed_once(answers, child, is_released=is_well)
            expect([job.id for job in await take(jobs)], [child.id] * is_well)

    async def test_parents_that_end_in_one_call_release_once(self, jobs: JobStore) -> None:
        _, child = await _insert_child(jobs)
        answers = await jobs.apply([decide_complete(job, NOW) for job in await take(jobs)], NOW)
        expect([answer.released for answer in answers], [(), (), (child.id,)])

    async def test_a_dependent_inserted_while_parents_end_is_not_forgotten(
        self, jobs: JobStore
    ) -> None:
        for _ in range(10):
            parents = [a_job() for _ in range(PARENT_COUNT)]
            leased = await start(jobs, parents)
            child = a_job(dependencies=[parent.id for parent in parents])
            await asyncio.gather(
                end(jobs, leased[0]),
                end(jobs, leased[1]),
                jobs.insert([child], NOW),
                end(jobs, leased[2]),
            )
            expect(await statuses(jobs, child), [JobStatus.READY])
            await take(jobs)

    async def test_a_job_that_has_not_ended_releases_no_dependent(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        (leased,) = await start(jobs, [parent, child])
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
        blocked = (left, right, below, last)
        expect(applied.blocked, tuple(sorted(job.id for job in blocked)))
        expect(await statuses(jobs, *blocked), [JobStatus.BLOCKED] * 4)
        kept = await find(jobs, last.id)
        expect(kept and kept.updated_at, NOW + SECOND)
        expect((await end(jobs, leased["other"])).released, (beside.id,))
        expect(await statuses(jobs, *blocked), [JobStatus.BLOCKED] * 4)

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

    async def test_only_pending_jobs_are_blocked(self, jobs: JobStore) -> None:
        """A dependent that was cancelled, or is blocked already, stays as it is."""
        one, two = a_job(name="one"), a_job(name="two")
        child = a_job(dependencies=[one.id, two.id])
        cancelled = a_job(dependencies=[two.id])
        await jobs.insert([one, two, child, cancelled], NOW)
        kept = await find(jobs, cancelled.id)
        expect_true(kept is not None, "the job is kept")
        await jobs.apply([decide_cancel(cast("Job", kept), "not needed", NOW)], NOW)
        leased = {job.name: job for job in await take(jobs)}
        expect((await end(jobs, leased["one"], Discarded("no"))).blocked, (child.id,))
        expect((await end(jobs, leased["two"], Discarded("no"), NOW + SECOND)).blocked, ())
        expect(await statuses(jobs, child, cancelled), [JobStatus.BLOCKED, JobStatus.BLOCKED])
        blocked = await find(jobs, child.id)
        expect(blocked and blocked.updated_at, NOW)

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


async def _insert_child(jobs: JobStore) -> tuple[list[Job], Job]:
    parents = [a_job() for _ in range(PARENT_COUNT)]
    child = a_job(dependencies=[parent.id for parent in parents])
    await jobs.insert([*parents, child], NOW)
    return parents, child


def _status(*, is_released: bool) -> JobStatus:
    return JobStatus.READY if is_released else JobStatus.BLOCKED


def _expect_changed_once(answers: list[Applied], child: Job, *, is_released: bool) -> None:
    changed = [each for answer in answers for each in (*answer.released, *answer.blocked)]
    expect(changed, [child.id])
    released = any(answer.released for answer in answers)
    expect_true(released is is_released, f"released: {released}, but it should be {is_released}")


HOUR = timedelta(hours=1)
DAILY = Recurrence(interval="24h", start=NOW)


class RuleChangeContract(JobStoreFixture):
    """A series may get another rule; a running job finishes as it began."""

    async def test_a_series_with_a_new_rule_moves_its_waiting_job(self, jobs: JobStore) -> None:
        first = a_job(due_at=NOW + DAY, occurrence_at=NOW + DAY, recurrence=DAILY)
        await jobs.insert([first], NOW)
        hourly = Recurrence(interval="1h", start=NOW, catch_up="skip", jitter="5m")
        moved = await jobs.amend("default", first.id, {"reschedule": hourly}, NOW + SECOND)
        expect(moved.occurrence_at, NOW + HOUR)
        expect(moved.recurrence, hourly)
        expect(await find(jobs, first.id), moved)
        expect(await take(jobs, moved.due_at - SECOND), [])
        (leased,) = await take(jobs, moved.due_at)
        expect(leased.occurrence_at, NOW + HOUR)

    async def test_a_running_job_is_followed_by_the_new_rule(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        hourly = Recurrence(interval="1h", start=NOW)
        await jobs.amend("default", leased.id, {"reschedule": hourly}, NOW)
        applied = await end(jobs, leased)
        expect(applied.successor and applied.successor.due_at, NOW + HOUR)

    async def test_a_running_job_is_the_last_of_a_series_that_ends(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs)
        last = Recurrence(interval="24h", start=NOW, until=NOW)
        await jobs.amend("default", leased.id, {"reschedule": last}, NOW)
        expect((await end(jobs, leased)).successor, None)
        expect(len(await everything(jobs)), 1)


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

    async def test_a_job_amended_while_it_runs_passes_the_amendment_on(
        self, jobs: JobStore
    ) -> None:
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


class OverlapContract(JobStoreFixture):
    """A series whose occurrences may overlap creates its next job once, while one runs."""

    async def test_a_series_goes_on_once_also_when_its_next_job_was_removed(
        self, jobs: JobStore
    ) -> None:
        for outcome in (Succeeded(), Discarded("no")):
            leased = await _start_series(jobs, overlap="allow")
            beside = await _begin_beside(jobs, leased)
            expect(beside and await find(jobs, beside.id), beside)
            await jobs.delete("default", beside.id if beside else "")
            expect((await end(jobs, leased, outcome)).successor, None)
            expect(await take(jobs, NOW + DAY), [])

    async def test_a_retry_does_not_begin_the_next_job_again(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, overlap="allow")
        beside = await _begin_beside(jobs, leased)
        await jobs.delete("default", beside.id if beside else "")
        await end(jobs, leased, Interrupted())
        (again,) = await take(jobs)
        expect(begin_beside(again, NOW), None)
        await jobs.amend(
            "default", again.id, {"reschedule": replace(DAILY, zone="Asia/Tokyo")}, NOW
        )
        expect((await end(jobs, again)).successor, None)
        expect(len(await everything(jobs)), 1)

    async def test_a_job_whose_series_goes_on_runs_on_as_it_is(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, overlap="allow")
        await jobs.extend([HeldLease(leased.id, leased.last_token)], NOW + DAY, NOW)
        extended = await find(jobs, leased.id)
        expect((await _begin_beside(jobs, leased)) is not None, expected=True)
        kept = await find(jobs, leased.id)
        rule = kept and kept.recurrence
        expect(rule and rule.is_continued, expected=True)
        expect(kept and replace(kept, recurrence=leased.recurrence), extended)
        expect(await _begin_beside(jobs, leased), None)
        expect(len(await everything(jobs)), 2)

    async def test_a_holder_that_lost_its_lease_begins_no_next_job(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, overlap="allow")
        await end(jobs, leased, Interrupted())
        (again,) = await take(jobs)
        expect(await _begin_beside(jobs, leased), None)
        applied = await end(jobs, again)
        expect(applied.successor and applied.successor.due_at, NOW + DAY)

    async def test_a_next_job_and_an_end_in_one_call_are_refused(self, jobs: JobStore) -> None:
        leased = await _start_series(jobs, overlap="allow")
        both = [cast("Change", begin_beside(leased, NOW)), decide_complete(leased, NOW)]
        with pytest.raises(InvalidInputError, match=leased.id):
            await jobs.apply(both, NOW)
        expect(len(await everything(jobs)), 1)


async def _start_series(
    jobs: JobStore,
    *,
    auto_remove: bool = False,
    is_paused: bool = False,
    overlap: Overlap = "skip",
) -> Job:
    job = a_job(
        due_at=NOW,
        occurrence_at=NOW,
        recurrence=replace(DAILY, overlap=overlap),
        idempotency_key="series",
        occurrence=a_job().id,
        auto_remove=auto_remove,
        is_paused=is_paused,
    )
    (leased,) = await start(jobs, [job])
    return leased


async def _begin_beside(jobs: JobStore, leased: Job) -> Job | None:
    """The next job of the series, created as the holder of the lease does."""
    (applied,) = await jobs.apply([cast("Change", begin_beside(leased, NOW))], NOW)
    return applied.successor


def _following(leased: Job) -> Job:
    """The successor, as the outcome of the job decides it."""
    return cast("Job", decide_complete(leased, NOW).successor)
