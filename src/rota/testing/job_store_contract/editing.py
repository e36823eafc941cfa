"""``amend``, ``delete`` and ``prune``: what may be changed, and what may go."""

import pytest
from msgspec.structs import replace

from rota.errors import (
    DependenciesFixedError,
    DependencyCycleError,
    DuplicateJobError,
    HasDependentsError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    UnknownDependencyError,
)
from rota.jobs import Discarded, Failed, JobStatus
from rota.stores.protocol import JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    everything,
    expect,
    find,
    names,
    statuses,
    take,
)


class AmendingContract(JobStoreFixture):
    """Changes by hand go through the same door."""

    async def test_an_amended_job_comes_in_its_new_place(self, jobs: JobStore) -> None:
        waiting = [a_job(name=name, queue="a") for name in ("one", "two", "three", "four")]
        one, two, three, four = waiting
        await jobs.insert(waiting, NOW)
        await jobs.amend("default", three.id, {"priority": 10}, NOW)
        await jobs.amend("default", two.id, {"due_at": NOW + DAY}, NOW)
        amended = await jobs.amend("default", four.id, {"queue": "b"}, NOW + SECOND)
        expect(amended, replace(four, queue="b", updated_at=NOW + SECOND))
        expect(await find(jobs, four.id), amended)
        expect(names(await take(jobs, queues=["a"])), ["three", "one"])
        expect(names(await take(jobs, queues=["b"])), ["four"])
        expect(await jobs.next_due_at(NOW), NOW + DAY)
        expect(names(await take(jobs, NOW + DAY)), ["two"])
        expect(one.status, JobStatus.READY)

    async def test_a_job_made_due_earlier_is_leased_earlier(self, jobs: JobStore) -> None:
        job = a_job(due_at=NOW + DAY)
        await jobs.insert([job], NOW)
        await jobs.amend("default", job.id, {"due_at": NOW}, NOW)
        expect(await jobs.next_due_at(NOW), NOW)
        expect(len(await take(jobs)), 1)
        expect(await take(jobs, NOW + 2 * DAY), [])

    async def test_a_job_put_off_is_due_when_it_is_put_off_to(self, jobs: JobStore) -> None:
        job = a_job(due_at=NOW + DAY)
        await jobs.insert([job], NOW)
        await jobs.amend("default", job.id, {"due_at": NOW + 2 * DAY}, NOW)
        expect(await jobs.next_due_at(NOW), NOW + 2 * DAY)
        expect(await take(jobs, NOW + DAY), [])
        expect(len(await take(jobs, NOW + 2 * DAY)), 1)

    async def test_an_amendment_outlives_the_attempt_under_way(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await jobs.amend("default", job.id, {"payload": {"new": 1}}, NOW)
        await end(jobs, leased, Failed("no"))
        kept = await find(jobs, job.id)
        expect(kept and (kept.payload, kept.attempt_count), ({"new": 1}, 1))

    async def test_new_dependencies_decide_the_status(self, jobs: JobStore) -> None:
        done, failed, waits = a_job(name="done"), a_job(name="failed"), a_job(name="waits")
        await jobs.insert([done, failed], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, Discarded("no") if leased.name == "failed" else None)
        await jobs.insert([waits], NOW)
        one, two = a_job(dependencies=[waits.id]), a_job(dependencies=[waits.id])
        below = a_job(dependencies=[two.id])
        await jobs.insert([one, two, below], NOW)
        await jobs.amend("default", one.id, {"dependencies": [done.id]}, NOW)
        await jobs.amend("default", two.id, {"dependencies": [failed.id, waits.id]}, NOW)
        expect(
            await statuses(jobs, one, two, below),
            [JobStatus.READY, JobStatus.BLOCKED, JobStatus.BLOCKED],
        )
        await jobs.delete("default", one.id)
        await jobs.delete("default", done.id)

    async def test_an_amended_dependency_is_waited_for(self, jobs: JobStore) -> None:
        old, new = a_job(name="old"), a_job(name="new")
        child = a_job(dependencies=[old.id])
        await jobs.insert([old, new, child], NOW)
        await jobs.amend("default", child.id, {"dependencies": [new.id]}, NOW)
        leased = {job.name: job for job in await take(jobs)}
        expect((await end(jobs, leased["old"])).released, ())
        expect((await end(jobs, leased["new"])).released, (child.id,))

    async def test_what_cannot_be_amended_stays_as_it_was(self, jobs: JobStore) -> None:
        parent = a_job(name="parent")
        child = a_job(dependencies=[parent.id], name="child")
        below = a_job(dependencies=[child.id], name="below")
        await jobs.insert([parent, child, below], NOW)
        before = await everything(jobs)
        for job, fields, refusal in (
            (child, {"priority": 11}, InvalidJobError),
            (child, {"status": "READY"}, InvalidJobError),
            (child, {"dependencies": [below.id]}, DependencyCycleError),
            (child, {"dependencies": [a_job().id]}, UnknownDependencyError),
            (parent, {"dependencies": [child.id]}, DependenciesFixedError),
        ):
            with pytest.raises(refusal):
                await jobs.amend("default", job.id, fields, NOW)
        with pytest.raises(JobNotFoundError):
            await jobs.amend("other", child.id, {"priority": 1}, NOW)
        expect(await everything(jobs), before)

    async def test_an_ended_job_is_not_amended(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased)
        with pytest.raises(JobEndedError):
            await jobs.amend("default", job.id, {"priority": 1}, NOW)

    async def test_a_kind_under_which_the_key_is_taken_is_refused(self, jobs: JobStore) -> None:
        one = a_job(kind="one", idempotency_key="key")
        two = a_job(kind="two", idempotency_key="key")
        await jobs.insert([one, two], NOW)
        with pytest.raises(DuplicateJobError) as refusal:
            await jobs.amend("default", two.id, {"kind": "one"}, NOW)
        expect(refusal.value.job_id, one.id)
        await jobs.amend("default", two.id, {"kind": "three"}, NOW)
        (answer,) = await jobs.insert([a_job(kind="three", idempotency_key="key")], NOW)
        expect(answer.job.id, two.id)
        (answer,) = await jobs.insert([a_job(kind="two", idempotency_key="key")], NOW)
        expect(answer.is_existing, expected=False)


class RemovingContract(JobStoreFixture):
    """What may go, and what goes with it."""

    async def test_a_deleted_job_is_gone(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased, Failed("no"))
        kept = await find(jobs, job.id)
        expect(await jobs.delete("default", job.id), kept)
        expect(await statuses(jobs, job), [None])
        expect(await jobs.attempts("default", job.id), [])
        expect(await take(jobs, NOW + DAY), [])
        expect(await jobs.next_due_at(NOW), None)
        with pytest.raises(JobNotFoundError):
            await jobs.delete("default", job.id)

    async def test_a_running_job_can_be_deleted_and_its_result_counts_for_nothing(
        self, jobs: JobStore
    ) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await jobs.delete("default", job.id)
        expect((await end(jobs, leased)).is_stale, expected=True)
        expect(await jobs.find_expired(NOW + DAY, 10), [])
        expect(await everything(jobs), [])

    async def test_a_job_others_depend_on_is_not_deleted(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased, Discarded("no"))
        with pytest.raises(HasDependentsError) as refusal:
            await jobs.delete("default", parent.id)
        expect(refusal.value.dependents, [child.id])
        with pytest.raises(JobNotFoundError):
            await jobs.delete("other", child.id)
        await jobs.delete("default", child.id)
        await jobs.delete("default", parent.id)
        expect(await everything(jobs), [])

    async def test_finished_jobs_are_pruned_after_their_time(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(name=name) for name in ("1", "2", "3", "runs")], NOW)
        *ended, _ = await take(jobs)
        for leased in ended:
            outcome = Discarded("no") if leased.name == "2" else None
            await end(jobs, leased, outcome, NOW + int(leased.name) * SECOND)
        await jobs.insert([a_job(name="waits")], NOW)
        expect(await jobs.prune(NOW + SECOND, 10), 0)
        expect(await jobs.prune(NOW + 3 * SECOND, 1), 1)
        expect(names(await everything(jobs)), ["2", "3", "runs", "waits"])
        expect(await jobs.prune(NOW + 3 * SECOND, 10), 1)
        expect(await jobs.attempts("default", ended[1].id), [])
        expect(await jobs.prune(NOW + DAY, 10), 1)
        expect(names(await everything(jobs)), ["runs", "waits"])

    async def test_a_job_others_depend_on_is_not_pruned(self, jobs: JobStore) -> None:
        parent = a_job(name="parent")
        child = a_job(name="child", dependencies=[parent.id])
        below = a_job(name="below", dependencies=[child.id, parent.id])
        await jobs.insert([parent, child, below], NOW)
        for _ in range(2):
            (leased,) = await take(jobs)
            expect(await jobs.prune(NOW + DAY, 10), 0)
            await end(jobs, leased)
        expect(await jobs.prune(NOW + DAY, 10), 0)
        (leased,) = await take(jobs)
        await end(jobs, leased)
        expect(await jobs.prune(NOW + DAY, 2), 2)
        expect(names(await everything(jobs)), ["parent"])
        expect(await jobs.prune(NOW + DAY, 2), 1)
