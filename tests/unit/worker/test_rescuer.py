"""Jobs whose worker is gone are found, in time and all of them."""

from collections.abc import Collection
from datetime import datetime
from random import Random

from msgspec.structs import replace
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once, succeed

from rota.events import EventEmitter, JobStalled
from rota.fleet.outage import Outage
from rota.jobs import Ending, Interrupted, Job, JobStatus, Lost, RetryPolicy
from rota.policy.watch import GateWatch, LimitWatch
from rota.stores.protocol import LeaseRequest
from rota.testing import a_job
from rota.worker import WorkerSettings
from rota.worker.attempts import Attempt, Flow
from rota.worker.registry import Registry
from rota.worker.rescuer import PAGE_SIZE, Rescuer, choose_interval, judge_expired
from rota.worker.settings import Resources

AT_ONCE = RetryPolicy(max_attempts=9, base_delay_seconds=0, max_delay_seconds=0)


async def die_holding(shop: Workshop, limit: int = 1) -> list[Job]:
    """Another worker takes jobs, and is never heard of again."""
    return await lease_as(shop, "the dead", limit)


def my_rescue(
    shop: Workshop, held: Collection[Job] = (), unanswered: Collection[datetime] = ()
) -> Rescuer:
    """That of a worker called "me", with leases of a minute."""
    events = EventEmitter("rota.worker")
    resources = Resources(
        *(shop.hooked, shop.clock, WorkerSettings(lease_for=MINUTE), Registry({}, ())),
        *(events, Random(1), "me", Outage(events)),
        *(GateWatch(shop.hooked), LimitWatch(shop.hooked)),
    )
    flow = Flow()
    flow.held.update(Attempt(job, NOW + MINUTE) for job in held)
    return Rescuer(resources, flow, unanswered)


async def lease_as(shop: Workshop, worker: str, limit: int = 1) -> list[Job]:
    request = LeaseRequest(worker=worker, limit=limit, lease_for=MINUTE)
    return await shop.store.lease(request, shop.clock.now())


def expired(worker: str) -> Job:
    job = a_job(status=JobStatus.RUNNING, created_at=NOW)
    assert job.lease is not None
    return replace(job, lease=replace(job.lease, worker=worker))


def test_the_jobs_of_others_are_lost() -> None:
    assert judge_expired(expired("other"), "me", set(), ()) == Lost()


def test_a_job_that_the_worker_holds_is_not_rescued() -> None:
    job = expired("me")
    assert judge_expired(job, "me", {job.id}, ()) is None
    assert judge_expired(expired("other"), "me", {job.id}, ()) == Lost()


def test_a_lease_without_an_answer_spends_no_attempt() -> None:
    job = expired("me")
    assert job.lease is not None
    assert judge_expired(job, "me", set(), [job.lease.until]) == Interrupted()


def test_a_job_that_the_worker_no_longer_holds_is_lost() -> None:
    mine, other = expired("me"), expired("other")
    assert mine.lease is not None
    assert judge_expired(mine, "me", set(), [mine.lease.until - SECOND]) == Lost()
    assert judge_expired(other, "me", set(), [mine.lease.until]) == Lost()


def test_sweeps_come_well_within_a_minute_and_more_often_for_short_leases() -> None:
    assert choose_interval(MINUTE) == 15 * SECOND
    assert choose_interval(60 * MINUTE) == 15 * SECOND
    assert choose_interval(SECOND) == SECOND / 2


async def test_a_stalled_job_is_rescued_within_its_lease_and_a_sweep(shop: Workshop) -> None:
    job = await shop.add(retry_policy=AT_ONCE)
    await die_holding(shop)
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(MINUTE)
    assert (await shop.look(job)).status is JobStatus.RUNNING
    await shop.pass_time(16 * SECOND)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.COMPLETED, 1)
    (event,) = shop.told(JobStalled)
    assert (event.job_id, event.worker, event.loss_count) == (job.id, "the dead", 1)
    (attempt,) = await shop.attempts(job)
    assert (attempt.outcome, attempt.worker) == ("lost", "the dead")


async def test_every_stalled_job_is_found(shop: Workshop) -> None:
    count = 2 * PAGE_SIZE + 7
    await shop.add_many(count, retry_policy=RetryPolicy(max_attempts=1))
    await die_holding(shop, count)
    shop.make_worker({"work": succeed})
    await shop.pass_time(MINUTE + SECOND)
    shop.start()
    await shop.pass_time(SECOND)
    assert len(shop.told(JobStalled)) == count


async def test_a_page_of_jobs_that_are_not_for_the_sweep_does_not_hide_the_others(
    shop: Workshop,
) -> None:
    own = await shop.add_many(PAGE_SIZE)
    await lease_as(shop, "me", PAGE_SIZE)
    await shop.pass_time(SECOND)
    lost = await shop.add()
    await die_holding(shop)
    await shop.pass_time(2 * MINUTE)
    rescue = my_rescue(shop, own)
    assert await rescue.sweep() == 1
    assert (await shop.look(lost)).status is JobStatus.READY
    assert {(await shop.look(job)).status for job in own} == {JobStatus.RUNNING}


async def test_a_job_that_takes_its_worker_down_three_times_is_set_aside(shop: Workshop) -> None:
    job = await shop.add(retry_policy=AT_ONCE)
    settings = WorkerSettings(queues=["elsewhere"])
    shop.make_worker({}, settings)
    shop.start()
    for _ in range(3):
        assert len(await die_holding(shop)) == 1
        await shop.pass_time(2 * MINUTE)
    kept = await shop.look(job)
    assert (kept.status, kept.ending) == (JobStatus.FAILED, Ending.LOST)
    assert len(await shop.attempts(job)) == 3
    assert [event.state for event in shop.told(JobStalled)] == ["queued", "queued", "dlq"]


async def test_a_lease_extended_meanwhile_is_not_a_loss(shop: Workshop) -> None:
    job = await shop.add()
    (leased,) = await die_holding(shop)
    await shop.pass_time(MINUTE + SECOND)

    async def come_back() -> None:
        until = shop.clock.now() + MINUTE
        held = [(leased.id, leased.last_token)]
        await shop.store.extend(held, until, shop.clock.now())  # type: ignore[arg-type]  # a pair is as good

    shop.hooked.before["apply"] = once(come_back)
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(30 * SECOND)
    assert (await shop.look(job)).status is JobStatus.RUNNING
    assert shop.told(JobStalled) == []


async def test_a_rescue_goes_on_when_the_store_is_back(shop: Workshop) -> None:
    job = await shop.add(retry_policy=AT_ONCE)
    await die_holding(shop)
    await shop.pass_time(MINUTE + SECOND)
    shop.hooked.before["apply"] = once(be_down)
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(10 * SECOND)
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_two_workers_rescue_a_job_once(shop: Workshop) -> None:
    job = await shop.add(retry_policy=RetryPolicy(max_attempts=5, base_delay_seconds=600))
    await die_holding(shop)
    for _ in range(2):
        shop.make_worker({"work": succeed})
        shop.start()
    await shop.pass_time(2 * MINUTE)
    assert len(shop.told(JobStalled)) == len(await shop.attempts(job)) == 1


async def test_a_job_that_was_leased_without_an_answer_goes_back_unspent_before_others_find_it(
    shop: Workshop,
) -> None:
    """It never began: with one attempt to its name it would be dead without having run."""
    job = await shop.add(retry_policy=RetryPolicy(max_attempts=1))
    shop.hooked.after["lease"] = once(be_down)
    for queues in (None, ["elsewhere"]):  # the other would sweep, but does not run it
        shop.make_worker({"work": succeed}, WorkerSettings(lease_for=MINUTE, queues=queues))
        shop.start()
        await shop.pass_time(SECOND / 10)
    await shop.pass_time(17 * SECOND)
    kept = await shop.look(job)
    assert (kept.status, kept.ending) == (JobStatus.COMPLETED, None)
    assert shop.told(JobStalled) == []
    assert await shop.attempts(job) == []


async def test_leases_without_an_answer_are_found_among_those_of_other_workers(
    shop: Workshop,
) -> None:
    await shop.add_many(2 * PAGE_SIZE + 9)
    others = await lease_as(shop, "earlier")
    await shop.pass_time(SECOND)
    others += await lease_as(shop, "another", PAGE_SIZE + 3)
    mine = await lease_as(shop, "me")
    others += await lease_as(shop, "another", PAGE_SIZE + 3)
    await shop.pass_time(SECOND)
    others += await lease_as(shop, "later")
    rescue = my_rescue(shop, unanswered=[NOW + SECOND + MINUTE, NOW - MINUTE])
    assert await rescue.reclaim() == 1
    assert [(await shop.look(job)).status for job in mine] == [JobStatus.READY]
    assert (await shop.look(mine[0])).attempt_count == 0
    assert {(await shop.look(job)).status for job in others} == {JobStatus.RUNNING}


async def test_leased_and_arriving_jobs_are_not_returned(shop: Workshop) -> None:
    await shop.add_many(2)
    (held,) = await lease_as(shop, "me")
    await shop.pass_time(SECOND)
    (coming,) = await lease_as(shop, "me")
    assert await my_rescue(shop, [held], [NOW + MINUTE]).reclaim() == 0
    assert {(await shop.look(job)).status for job in (held, coming)} == {JobStatus.RUNNING}


async def test_an_unanswered_lease_that_has_expired_is_left_to_the_sweep(
    shop: Workshop,
) -> None:
    job = await shop.add()
    await lease_as(shop, "me")
    await shop.pass_time(MINUTE)
    rescue = my_rescue(shop, unanswered=[NOW + MINUTE])
    assert await rescue.reclaim() == 0
    await shop.pass_time(SECOND)
    assert await rescue.sweep() == 1
    assert (await shop.look(job)).attempt_count == 0
