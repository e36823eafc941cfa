"""``insert``: all or nothing, with the status that the dependencies give."""

import pytest
from msgspec.structs import replace

from rota.errors import DependencyCycleError, DuplicateJobError, UnknownDependencyError
from rota.jobs import Discarded, Job, JobStatus
from rota.stores.protocol import Inserted, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    NOW,
    JobStoreFixture,
    end,
    everything,
    expect,
    find,
    statuses,
    take,
)

CHAIN_LENGTH = 2_000


class InsertionContract(JobStoreFixture):
    """What is handed in together is kept together."""

    async def test_a_job_is_kept_as_it_was_handed_in(self, jobs: JobStore) -> None:
        job = a_job(payload={"ä": [1, 2.5, None, True, "🌍"]}, idempotency_key="key", priority=9)
        expect(await jobs.insert([job], NOW), [Inserted(job)])
        expect(await find(jobs, job.id), job)

    async def test_nothing_inserted_is_nothing_kept(self, jobs: JobStore) -> None:
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

    async def test_a_status_that_is_handed_in_does_not_count(self, jobs: JobStore) -> None:
        parent = a_job(status=JobStatus.PENDING)
        child = a_job(dependencies=[parent.id], status=JobStatus.READY)
        await jobs.insert([parent, child], NOW)
        expect(await statuses(jobs, parent, child), [JobStatus.READY, JobStatus.PENDING])

    async def test_inserting_again_returns_the_job_as_it_has_become(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        expect(await jobs.insert([job], NOW), [Inserted(leased, is_existing=True)])

    async def test_a_long_chain_is_no_hardship(self, jobs: JobStore) -> None:
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

    async def test_a_job_of_another_tenant_is_no_dependency(self, jobs: JobStore) -> None:
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
