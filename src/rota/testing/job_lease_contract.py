"""Leasing and settling jobs: order, caps, fencing, expiry and wake-ups."""

import asyncio
from collections import Counter
from threading import Thread

import pytest
from msgspec.structs import replace

from rota.errors import IllegalMoveError, InvalidInputError, StoreClosedError
from rota.jobs import (
    Change,
    Failed,
    Interrupted,
    Job,
    JobFilter,
    JobStatus,
    Lease,
    Lost,
    Recurrence,
    Snoozed,
    Succeeded,
    aged_key,
    begin_beside,
    decide_cancel,
    decide_complete,
    decide_hand_back,
    decide_outcome,
    order_jobs,
)
from rota.stores.protocol import Cap, HeldLease, JobStore, Listener
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    a_request,
    end,
    expect_true,
    find,
    names,
    start,
    statuses,
    take,
)
from rota.testing.store_contract import expect


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

    async def test_a_lease_returns_at_most_the_limit(self, jobs: JobStore) -> None:
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
        leased = await take(jobs, queues=["x", "z"], tenants=["b", "c", "absent"])
        expect(sorted((job.tenant, job.queue) for job in leased), _pairs("bc", "xz"))
        expect(await take(jobs, queues=[]), [])
        expect(await take(jobs, tenants=[]), [])


class TurnsContract(JobStoreFixture):
    """Tenants take turns, and each is notified when it has work."""

    async def test_tenants_take_turns(self, jobs: JobStore) -> None:
        """One tenant's backlog delays no other: over three leases of ten all get the same."""
        await jobs.insert(_backlog(a=100, b=10, c=10), NOW)
        served: Counter[str] = Counter()
        last = ""
        for _ in range(3):
            leased = await take(jobs, limit=10, after_tenant=last)
            last = leased[-1].tenant
            served.update(job.tenant for job in leased)
        expect(served, Counter(a=10, b=10, c=10))

    async def test_places_that_some_tenants_leave_go_to_tenants_with_more_jobs(
        self, jobs: JobStore
    ) -> None:
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

    async def test_the_first_due_time_is_known(self, jobs: JobStore) -> None:
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
    """A cap is never exceeded, and does not delay others."""

    @pytest.mark.parametrize(
        ("cap", "expected"),
        [
            (Cap(tenant="a", running=2), Counter({"ax": 2, "bx": 3, "by": 3})),
            (Cap(queue="x", running=2), Counter({"ax": 1, "ay": 3, "bx": 1, "by": 3})),
            (Cap(tenant="a", queue="x", running=2), Counter({"ax": 2, "ay": 3, "bx": 3, "by": 3})),
            (Cap(running=2), Counter({"ax": 1, "bx": 1})),
            (Cap(tenant="a", running=0), Counter({"bx": 3, "by": 3})),
            (Cap(tenant="absent", running=0), Counter({"ax": 3, "ay": 3, "bx": 3, "by": 3})),
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

    async def test_an_ended_job_frees_its_place_under_a_cap(self, jobs: JobStore) -> None:
        cap = Cap(queue="default", running=2)
        await jobs.insert([a_job() for _ in range(5)], NOW)
        first, second = await take(jobs, caps=(cap,))
        await end(jobs, first)
        expect(len(await take(jobs, caps=(cap,))), 1)
        await end(jobs, second, Failed("not yet"))
        expect(len(await take(jobs, caps=(cap,))), 1)

    async def test_an_expired_lease_counts_until_its_job_is_rescued(self, jobs: JobStore) -> None:
        cap = Cap(tenant="default", running=1)
        await jobs.insert([a_job(), a_job()], NOW)
        (leased,) = await take(jobs, caps=(cap,))
        expect(await take(jobs, NOW + DAY, caps=(cap,)), [])
        await end(jobs, leased, Lost(), NOW + DAY)
        expect(len(await take(jobs, NOW + DAY, caps=(cap,))), 1)

    async def test_racing_workers_never_exceed_a_cap(self, jobs: JobStore) -> None:
        caps = (Cap(tenant="a", running=4), Cap(queue="x", running=7), Cap("b", "y", running=1))
        places = _pairs("abc", "xy")
        await jobs.insert([a_job(tenant=t, queue=q) for t, q in places for _ in range(20)], NOW)
        for _ in range(4):
            calls = (take(jobs, worker=f"w{it}", limit=9, caps=caps) for it in range(8))
            leased = [job for batch in await asyncio.gather(*calls) for job in batch]
            expect_true(bool(leased), "one tenant always has a free place")
            counts = await _count_running(jobs, "abc")
            expect_true(_total(counts, tenant="a") <= 4, f"tenant a: {counts}")
            expect_true(_total(counts, queue="x") <= 7, f"queue x: {counts}")
            expect_true(_total(counts, tenant="b", queue="y") <= 1, f"y of b: {counts}")
            await asyncio.gather(*(end(jobs, job) for job in leased[::2]))

    async def test_no_more_jobs_are_leased_than_a_cap_allows(self, jobs: JobStore) -> None:
        await jobs.insert(_backlog(a=5, b=5), NOW)
        caps = (Cap(tenant="a", count=1), Cap(tenant="a", count=3), Cap(running=100))
        for left in (5, 0):
            leased = await take(jobs, caps=caps)
            expect(Counter(job.tenant for job in leased), +Counter(a=1, b=left))

    async def test_caps_do_not_hold_up_others(self, jobs: JobStore) -> None:
        """A tenant at its cap costs the others neither their turn nor their share."""
        await jobs.insert(_backlog(a=50, b=20, c=1, d=20), NOW)
        caps = (Cap(tenant="a", running=1), Cap(tenant="b", count=0))
        leased = await take(jobs, limit=12, caps=caps)
        expect(Counter(job.tenant for job in leased), Counter(a=1, c=1, d=10))

    async def test_a_full_queue_does_not_hide_another(self, jobs: JobStore) -> None:
        crowd = [a_job(tenant=f"t{number}", queue="full") for number in range(6)]
        await jobs.insert([*crowd, a_job(tenant="z", queue="free", priority=1)], NOW)
        leased = await take(jobs, limit=3, caps=(Cap(queue="full", running=1),))
        expect(sorted(job.queue for job in leased), ["free", "full"])

    async def test_tenants_take_turns_under_a_cap(self, jobs: JobStore) -> None:
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
    """Waiting raises the priority."""

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

    async def test_ageing_stops_at_the_highest_priority(self, jobs: JobStore) -> None:
        old = [a_job(name=f"{it}", priority=it, created_at=NOW - it * DAY) for it in (1, 2, 3)]
        young = a_job(name="young", priority=10, created_at=NOW)
        await jobs.insert([young, *old], NOW)
        leased = await take(jobs, ageing={"default": MINUTE})
        expect(names(leased), ["3", "2", "1", "young"])

    async def test_a_wait_shorter_than_one_step_does_not_change_the_order(
        self, jobs: JobStore
    ) -> None:
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


class FencingContract(JobStoreFixture):
    """Only the holder of a lease settles its job."""

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
        (leased,) = await start(jobs, [a_job()])
        calls = (end(jobs, leased, outcome) for outcome in (Succeeded(), Failed("no")) * 5)
        answers = await asyncio.gather(*calls)
        expect(sum(not answer.is_stale for answer in answers), 1)
        again = await jobs.apply([decide_complete(leased, NOW)] * 2, NOW)
        expect([answer.is_stale for answer in again], [True, True])

    async def test_one_stale_change_does_not_hold_up_the_others(self, jobs: JobStore) -> None:
        waiting = [a_job(), a_job()]
        first, second = await start(jobs, waiting)
        await jobs.delete("default", first.id)
        answers = await jobs.apply([decide_complete(job, NOW) for job in (first, second)], NOW)
        expect([answer.is_stale for answer in answers], [True, False])
        expect(await statuses(jobs, *waiting), [None, JobStatus.COMPLETED])

    async def test_a_change_sees_those_before_it(self, jobs: JobStore) -> None:
        (leased,) = await start(jobs, [a_job()])
        back = decide_hand_back(leased, NOW)
        answers = await jobs.apply([back, decide_cancel(back.job, "no", NOW), back], NOW)
        expect([answer.is_stale for answer in answers], [False, False, True])

    async def test_a_change_of_another_tenants_job_is_stale(self, jobs: JobStore) -> None:
        (leased,) = await start(jobs, [a_job()])
        change = decide_complete(replace(leased, tenant="other"), NOW)
        expect((await jobs.apply([change], NOW))[0].is_stale, expected=True)

    async def test_a_move_that_is_not_allowed_is_refused(self, jobs: JobStore) -> None:
        waiting = [a_job(), a_job()]
        first, second = await start(jobs, waiting)
        wrong = Change(
            job=replace(second, status=JobStatus.PENDING),
            path=(JobStatus.RUNNING, JobStatus.PENDING),
            expected_token=1,
        )
        with pytest.raises(IllegalMoveError):
            await jobs.apply([decide_complete(first, NOW), wrong], NOW)
        expect(await statuses(jobs, *waiting), [JobStatus.RUNNING, JobStatus.RUNNING])
        done = decide_complete(first, NOW)
        await jobs.apply([done], NOW)
        again = Change(
            job=replace(done.job, status=JobStatus.READY),
            path=(JobStatus.COMPLETED, JobStatus.READY),
            expected_token=1,
        )
        with pytest.raises(IllegalMoveError):
            await jobs.apply([again], NOW)
        expect(await statuses(jobs, first), [JobStatus.COMPLETED])

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
        (leased,) = await start(jobs, [a_job()])
        expect(await jobs.extend([_held(leased)], NOW + 5 * MINUTE, NOW), [True])
        expect(await jobs.extend([_held(leased)], NOW + 2 * MINUTE, NOW), [True])
        kept = await find(jobs, leased.id)
        expect(kept and kept.lease and kept.lease.until, NOW + 5 * MINUTE)
        expect(kept and kept.updated_at, NOW)
        expect((await end(jobs, leased)).is_stale, expected=False)

    async def test_a_lost_lease_cannot_be_extended(self, jobs: JobStore) -> None:
        taken, ended, deleted, kept = await start(jobs, [a_job() for _ in range(4)])
        await end(jobs, taken, Interrupted())
        await take(jobs)
        await end(jobs, ended)
        await jobs.delete("default", deleted.id)
        held = [_held(job) for job in (taken, ended, deleted, kept)]
        expect(await jobs.extend(held, NOW + MINUTE, NOW), [False, False, False, True])
        unknown = HeldLease(a_job().id, 1)
        expect(await jobs.extend([unknown], NOW + MINUTE, NOW), [False])

    async def test_a_keeper_extends_leases_from_another_thread(self, jobs: JobStore) -> None:
        """And the thread makes it. The event loop does not turn: it waits with a join."""
        kept, deleted = await start(jobs, [a_job() for _ in range(2)])
        await jobs.delete("default", deleted.id)
        answers: list[list[bool]] = []

        def extend_twice() -> None:
            keeper, held = jobs.make_keeper(), [_held(kept), _held(deleted)]
            answers.extend(keeper.extend(held, NOW + each * MINUTE, NOW) for each in (5, 2))
            keeper.close()
            keeper.close()

        beside = Thread(target=extend_twice)
        beside.start()
        beside.join()
        expect(answers, [[True, False], [True, False]])
        found = await find(jobs, kept.id)
        expect(found and found.lease and found.lease.until, NOW + 5 * MINUTE)

    async def test_a_lease_expires_after_its_last_instant(self, jobs: JobStore) -> None:
        (leased,) = await start(jobs, [a_job()])
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
        (leased,) = await start(jobs, [a_job()])
        late = NOW + 2 * MINUTE
        (expired,) = await jobs.find_expired(late, 1)
        expect(await jobs.extend([_held(leased)], late + MINUTE, late), [True])
        applied = await jobs.apply([decide_outcome(expired, Lost(), late)], late)
        expect(applied[0].is_stale, expected=True)
        expect((await end(jobs, leased, now=late)).is_stale, expected=False)

    async def test_a_rescued_job_is_lost_to_its_worker(self, jobs: JobStore) -> None:
        (leased,) = await start(jobs, [a_job()])
        late = NOW + 2 * MINUTE
        (expired,) = await jobs.find_expired(late, 1)
        expect((await end(jobs, expired, Lost(), late)).is_stale, expected=False)
        expect((await end(jobs, leased, now=late)).is_stale, expected=True)
        expect(await jobs.extend([_held(leased)], late + MINUTE, late), [False])
        (again,) = await take(jobs, late + DAY)
        expect((again.id, again.last_token), (leased.id, leased.last_token + 1))

    async def test_a_limit_below_one_is_refused(self, jobs: JobStore) -> None:
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.find_expired(NOW, 0)
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.prune(NOW, 0)


def _held(job: Job) -> HeldLease:
    return HeldLease(job.id, job.last_token)


SOON = 10.0
"""Seconds of real time after which a wake-up that should have come is missed."""


class WakingContract(JobStoreFixture):
    """A wake-up may come without cause, but none is lost."""

    async def test_an_insert_wakes_a_listener(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            await jobs.insert([a_job()], NOW)
            await _heard(waiting)

    async def test_an_event_before_the_wait_is_not_missed(self, jobs: JobStore) -> None:
        async with jobs.listen(queues=["mail"], tenants=["a", "b"]) as listener:
            await jobs.insert([a_job(queue="mail", tenant="b")], NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_everything_that_makes_a_job_ready_wakes(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id], due_at=NOW + DAY)
        async with jobs.listen() as listener:
            await jobs.insert([parent, child], NOW)
            await _hear_all(listener)
            (leased,) = await take(jobs)
            await end(jobs, leased, Interrupted())
            await _heard(asyncio.create_task(listener.wait()))
            (leased,) = await take(jobs)
            await _hear_all(listener)
            await end(jobs, leased)
            await _heard(asyncio.create_task(listener.wait()))
            await jobs.amend("default", child.id, {"due_at": NOW}, NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_the_next_job_of_a_series_wakes(self, jobs: JobStore) -> None:
        hourly = Recurrence(interval="1h", start=NOW)
        (leased,) = await start(jobs, [a_job(recurrence=hourly, occurrence_at=NOW)])
        async with jobs.listen() as listener:
            await end(jobs, leased)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_the_next_job_beside_a_running_one_wakes(self, jobs: JobStore) -> None:
        hourly = Recurrence(interval="1h", start=NOW, overlap="allow")
        (leased,) = await start(jobs, [a_job(recurrence=hourly, occurrence_at=NOW)])
        beside = begin_beside(leased, NOW)
        async with jobs.listen() as listener:
            await jobs.apply([] if beside is None else [beside], NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_every_listener_is_woken(self, jobs: JobStore) -> None:
        async with jobs.listen() as one, jobs.listen() as other:
            await jobs.insert([a_job()], NOW)
            await _heard(asyncio.create_task(one.wait()))
            await _heard(asyncio.create_task(other.wait()))

    async def test_a_cancelled_wait_loses_nothing(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await jobs.insert([a_job()], NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_closing_the_store_ends_the_waiting(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            await jobs.close()
            await asyncio.wait([waiting], timeout=SOON)
            with pytest.raises(StoreClosedError):
                await waiting

    async def test_a_single_name_is_not_taken_for_several(self, jobs: JobStore) -> None:
        with pytest.raises(InvalidInputError, match="queues"):
            await jobs.listen(queues="mail").__aenter__()
        with pytest.raises(InvalidInputError, match="tenants"):
            await jobs.next_due_at(NOW, tenants="acme")


async def _heard(waiting: "asyncio.Task[None]") -> None:
    done, _ = await asyncio.wait([waiting], timeout=SOON)
    waiting.cancel()
    expect_true(bool(done), "no listener was woken")
    await waiting


async def _hear_all(listener: Listener) -> None:
    """Take in what may have been heard so far."""
    waiting = asyncio.create_task(listener.wait())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
