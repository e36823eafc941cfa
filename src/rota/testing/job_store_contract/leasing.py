"""``lease``: due jobs, in order, tenants in turn, each to one holder."""

import asyncio
from collections import Counter

import pytest

from rota.errors import InvalidInputError
from rota.jobs import Failed, Job, JobFilter, JobStatus, Lease, Lost, aged_key, order_jobs
from rota.stores.protocol import Cap, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    a_request,
    end,
    expect,
    expect_true,
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


class CapsContract(JobStoreFixture):
    """What is capped is never exceeded, and keeps nobody else waiting."""

    @pytest.mark.parametrize(
        ("cap", "expected"),
        [
            (Cap(tenant="a", running=2), Counter({"ax": 2, "bx": 3, "by": 3})),
            (Cap(queue="x", running=2), Counter({"ax": 1, "ay": 3, "bx": 1, "by": 3})),
            (Cap(tenant="a", queue="x", running=2), Counter({"ax": 2, "ay": 3, "bx": 3, "by": 3})),
            (Cap(running=2), Counter({"ax": 1, "bx": 1})),
            (Cap(tenant="a", running=0), Counter({"bx": 3, "by": 3})),
            (Cap(tenant="nobody", running=0), Counter({"ax": 3, "ay": 3, "bx": 3, "by": 3})),
        ],
    )
    async def test_no_more_run_at_once_than_a_cap_allows(
        self, jobs: JobStore, cap: Cap, expected: Counter[str]
    ) -> None:
        """Those in x are older than those in y."""
        places = [(tenant, queue) for queue in "xy" for tenant in "ab" for _ in range(3)]
        await jobs.insert([a_job(tenant=tenant, queue=queue) for tenant, queue in places], NOW)
        leased = await take(jobs, caps=(cap,))
        expect(Counter(job.tenant + job.queue for job in leased), expected)
        expect(await take(jobs, caps=(cap,)), [])

    async def test_a_place_is_free_again_when_a_job_has_ended(self, jobs: JobStore) -> None:
        cap = Cap(queue="default", running=2)
        await jobs.insert([a_job() for _ in range(5)], NOW)
        first, second = await take(jobs, caps=(cap,))
        await end(jobs, first)
        expect(len(await take(jobs, caps=(cap,))), 1)
        await end(jobs, second, Failed("not yet"))
        expect(len(await take(jobs, caps=(cap,))), 1)

    async def test_a_lease_that_ran_out_counts_until_its_job_is_rescued(
        self, jobs: JobStore
    ) -> None:
        cap = Cap(tenant="default", running=1)
        await jobs.insert([a_job(), a_job()], NOW)
        (leased,) = await take(jobs, caps=(cap,))
        expect(await take(jobs, NOW + DAY, caps=(cap,)), [])
        await end(jobs, leased, Lost(), NOW + DAY)
        expect(len(await take(jobs, NOW + DAY, caps=(cap,))), 1)

    async def test_a_capped_scope_is_never_exceeded_however_workers_race(
        self, jobs: JobStore
    ) -> None:
        caps = (Cap(tenant="a", running=4), Cap(queue="x", running=7), Cap("b", "y", running=1))
        places = _pairs("abc", "xy")
        await jobs.insert([a_job(tenant=t, queue=q) for t, q in places for _ in range(20)], NOW)
        for _ in range(4):
            calls = (take(jobs, worker=f"w{it}", limit=9, caps=caps) for it in range(8))
            leased = [job for batch in await asyncio.gather(*calls) for job in batch]
            expect_true(bool(leased), "there is always somebody with a place")
            counts = await _count_running(jobs, "abc")
            expect_true(_total(counts, tenant="a") <= 4, f"tenant a: {counts}")
            expect_true(_total(counts, queue="x") <= 7, f"queue x: {counts}")
            expect_true(_total(counts, tenant="b", queue="y") <= 1, f"y of b: {counts}")
            await asyncio.gather(*(end(jobs, job) for job in leased[::2]))

    async def test_no_more_are_handed_out_than_a_cap_counts(self, jobs: JobStore) -> None:
        await jobs.insert(_backlog(a=5, b=5), NOW)
        caps = (Cap(tenant="a", count=1), Cap(tenant="a", count=3), Cap(running=100))
        for left in (5, 0):
            leased = await take(jobs, caps=caps)
            expect(Counter(job.tenant for job in leased), +Counter(a=1, b=left))

    async def test_caps_do_not_hold_up_others(self, jobs: JobStore) -> None:
        """Whoever has no place costs the others neither their turn nor their part."""
        await jobs.insert(_backlog(a=50, b=20, c=1, d=20), NOW)
        caps = (Cap(tenant="a", running=1), Cap(tenant="b", count=0))
        leased = await take(jobs, limit=12, caps=caps)
        expect(Counter(job.tenant for job in leased), Counter(a=1, c=1, d=10))

    async def test_a_full_queue_does_not_hide_another(self, jobs: JobStore) -> None:
        crowd = [a_job(tenant=f"t{number}", queue="full") for number in range(6)]
        await jobs.insert([*crowd, a_job(tenant="z", queue="free", priority=1)], NOW)
        leased = await take(jobs, limit=3, caps=(Cap(queue="full", running=1),))
        expect(sorted(job.queue for job in leased), ["free", "full"])

    async def test_a_place_that_many_want_goes_round(self, jobs: JobStore) -> None:
        await jobs.insert(_backlog(a=50, b=10, c=10), NOW)
        served: Counter[str] = Counter()
        last = ""
        for _ in range(6):
            leased = await take(jobs, after_tenant=last, caps=(Cap(queue="default", running=2),))
            last = leased[-1].tenant
            served.update(job.tenant for job in leased)
            for job in leased:
                await end(jobs, job)
        expect(served, Counter(a=4, b=4, c=4))


class AgeingContract(JobStoreFixture):
    """Whoever has waited long counts for more."""

    async def test_an_aged_queue_is_served_in_the_order_of_the_reference(
        self, jobs: JobStore
    ) -> None:
        ageing = {"aged": MINUTE, "slow": DAY}
        waiting = [
            a_job(priority=1 + number * 7 % 10, created_at=NOW - number * 13 * SECOND, queue=queue)
            for number in range(33)
            for queue in ("aged", "slow", "plain")
        ]
        await jobs.insert(waiting, NOW)
        leased = [job.id for _ in range(15) for job in await take(jobs, limit=7, ageing=ageing)]
        ordered = sorted(waiting, key=lambda job: aged_key(job, ageing.get(job.queue), NOW))
        expect(leased, [job.id for job in ordered])

    async def test_no_wait_makes_more_of_a_job_than_the_highest_priority(
        self, jobs: JobStore
    ) -> None:
        old = [a_job(name=f"{it}", priority=it, created_at=NOW - it * DAY) for it in (1, 2, 3)]
        young = a_job(name="young", priority=10, created_at=NOW)
        await jobs.insert([young, *old], NOW)
        leased = await take(jobs, ageing={"default": MINUTE})
        expect(names(leased), ["3", "2", "1", "young"])

    async def test_without_a_full_step_the_order_is_as_ever(self, jobs: JobStore) -> None:
        waiting = [a_job(priority=it % 10 + 1, created_at=NOW - it * SECOND) for it in range(20)]
        await jobs.insert(waiting, NOW)
        leased = await take(jobs, ageing={"default": MINUTE, "other": SECOND})
        expect([job.id for job in leased], [job.id for job in order_jobs(waiting)])


async def _count_running(jobs: JobStore, tenants: str) -> Counter[tuple[str, str]]:
    wanted = JobFilter(status=JobStatus.RUNNING)
    pages = [await jobs.find(tenant, wanted, limit=100) for tenant in tenants]
    return Counter((job.tenant, job.queue) for page in pages for job in page.items)


def _total(
    counts: Counter[tuple[str, str]], tenant: str | None = None, queue: str | None = None
) -> int:
    return sum(
        count
        for place, count in counts.items()
        if tenant in (None, place[0]) and queue in (None, place[1])
    )


def _backlog(**counts: int) -> list[Job]:
    return [a_job(tenant=tenant) for tenant, count in counts.items() for _ in range(count)]


def _pairs(tenants: str, queues: str) -> list[tuple[str, str]]:
    return [(tenant, queue) for tenant in tenants for queue in queues]
