"""``lease``: due jobs, in order, tenants in turn, each to one holder."""

import asyncio
from collections import Counter

import pytest

from rota.errors import InvalidInputError
from rota.jobs import Job, JobStatus, Lease, order_jobs
from rota.stores.jobs import JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    a_request,
    expect,
    find,
    names,
    statuses,
    take,
)


class LeasingContract(JobStoreFixture):
    """Who gets which job."""

    async def test_a_leased_job_runs_under_a_token(self, jobs: JobStore) -> None:
        job = a_job()
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs, worker="w")
        lease = Lease(token=1, worker="w", taken_at=NOW, until=NOW + MINUTE)
        expect((leased.status, leased.lease), (JobStatus.RUNNING, lease))
        expect((leased.last_token, leased.updated_at), (1, NOW))
        expect(await find(jobs, job.id), leased)

    async def test_a_lease_goes_to_one_holder(self, jobs: JobStore) -> None:
        await jobs.insert([a_job() for _ in range(60)], NOW)
        calls = (take(jobs, worker=f"w{number}", limit=5) for number in range(20))
        leased = [job for batch in await asyncio.gather(*calls) for job in batch]
        expect((len(leased), len({job.id for job in leased})), (60, 60))
        expect(await take(jobs), [])

    async def test_no_more_are_given_than_were_asked_for(self, jobs: JobStore) -> None:
        await jobs.insert([a_job() for _ in range(5)], NOW)
        expect([len(await take(jobs, limit=2)) for _ in range(4)], [2, 2, 1, 0])

    async def test_jobs_come_in_order(self, jobs: JobStore) -> None:
        waiting = [
            a_job(priority=priority, created_at=NOW - DAY + age * SECOND, queue=queue)
            for priority in (5, 1, 10)
            for age in (2, 0, 1, 1)
            for queue in ("b", "a")
        ]
        await jobs.insert(waiting, NOW)
        leased = [job.id for _ in range(8) for job in await take(jobs, limit=3)]
        expect(leased, [job.id for job in order_jobs(waiting)])

    async def test_nothing_is_leased_before_it_is_due(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(name="later", due_at=NOW + SECOND, priority=10)], NOW)
        await jobs.insert([a_job(name="now", due_at=NOW)], NOW)
        expect(names(await take(jobs)), ["now"])
        expect(names(await take(jobs, NOW + SECOND)), ["later"])

    async def test_a_clock_set_back_leases_nothing_early(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(due_at=NOW) for _ in range(2)], NOW)
        expect(len(await take(jobs, NOW, limit=1)), 1)
        expect(await take(jobs, NOW - SECOND), [])
        expect(len(await take(jobs, NOW)), 1)

    async def test_only_what_is_ready_is_leased(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        expect([job.id for job in await take(jobs)], [parent.id])
        expect(await statuses(jobs, child), [JobStatus.PENDING])

    async def test_only_the_chosen_queues_and_tenants_are_served(self, jobs: JobStore) -> None:
        places = [(tenant, queue) for tenant in ("a", "b", "c") for queue in ("x", "y", "z")]
        await jobs.insert([a_job(tenant=tenant, queue=queue) for tenant, queue in places], NOW)
        leased = await take(jobs, queues=["x", "z"], tenants=["b", "c", "nobody"])
        expect(sorted((job.tenant, job.queue) for job in leased), _pairs("bc", "xz"))
        expect(await take(jobs, queues=[]), [])
        expect(await take(jobs, tenants=[]), [])


class TurnsContract(JobStoreFixture):
    """Tenants take turns, and each is told when there is something to do."""

    async def test_tenants_take_turns(self, jobs: JobStore) -> None:
        """A backlog of one holds up nobody: over three leases of ten all get the same."""
        await jobs.insert(_backlog(a=100, b=10, c=10), NOW)
        served: Counter[str] = Counter()
        last = ""
        for _ in range(3):
            leased = await take(jobs, limit=10, after_tenant=last)
            last = leased[-1].tenant
            served.update(job.tenant for job in leased)
        expect(served, Counter(a=10, b=10, c=10))

    async def test_what_some_leave_over_goes_to_those_with_more(self, jobs: JobStore) -> None:
        await jobs.insert(_backlog(a=1, b=20, c=2), NOW)
        leased = await take(jobs, limit=12)
        expect(Counter(job.tenant for job in leased), Counter(a=1, b=9, c=2))

    async def test_with_more_tenants_than_places_each_has_its_turn(self, jobs: JobStore) -> None:
        tenants = [f"tenant-{number:02}" for number in range(7)]
        await jobs.insert([a_job(tenant=tenant) for tenant in tenants for _ in range(2)], NOW)
        served: list[str] = []
        for _ in range(7):
            leased = await take(jobs, limit=2, after_tenant=served[-1] if served else "")
            served += [job.tenant for job in leased]
        expect(served, tenants * 2)

    async def test_order_holds_within_each_tenant(self, jobs: JobStore) -> None:
        waiting = [a_job(tenant=t, priority=p) for p in (1, 9, 5, 10, 3) for t in "ab"]
        await jobs.insert(waiting, NOW)
        leased = await take(jobs, limit=7)
        for tenant in "ab":
            mine = order_jobs(job for job in waiting if job.tenant == tenant)
            got = [job.id for job in leased if job.tenant == tenant]
            expect(got, [job.id for job in mine][: len(got)])

    async def test_what_is_due_first_is_known(self, jobs: JobStore) -> None:
        expect(await jobs.next_due_at(NOW), None)
        waiting = [
            a_job(queue="x", due_at=NOW + 3 * SECOND),
            a_job(queue="y", due_at=NOW + 2 * SECOND, tenant="b"),
        ]
        await jobs.insert(waiting, NOW)
        expect(await jobs.next_due_at(NOW), NOW + 2 * SECOND)
        expect(await jobs.next_due_at(NOW, queues=["x"]), NOW + 3 * SECOND)
        expect(await jobs.next_due_at(NOW, tenants=["b"]), NOW + 2 * SECOND)
        expect(await jobs.next_due_at(NOW, queues=["x"], tenants=["b"]), None)
        expect(await jobs.next_due_at(NOW + 5 * SECOND), NOW + 5 * SECOND)
        await take(jobs, NOW + 2 * SECOND)
        expect(await jobs.next_due_at(NOW + 2 * SECOND), NOW + 3 * SECOND)
        await take(jobs, NOW + DAY)
        expect(await jobs.next_due_at(NOW), None)

    async def test_a_naive_instant_is_refused(self, jobs: JobStore) -> None:
        naive = NOW.replace(tzinfo=None)
        await jobs.insert([a_job()], NOW)
        with pytest.raises(InvalidInputError, match="now"):
            await jobs.lease(a_request(), naive)
        with pytest.raises(InvalidInputError, match="now"):
            await jobs.insert([a_job()], naive)
        expect(len(await take(jobs)), 1)


def _backlog(**counts: int) -> list[Job]:
    return [a_job(tenant=tenant) for tenant, count in counts.items() for _ in range(count)]


def _pairs(tenants: str, queues: str) -> list[tuple[str, str]]:
    return [(tenant, queue) for tenant in tenants for queue in queues]
