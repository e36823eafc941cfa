"""How a worker begins and ends: nothing leased after a stop, nothing lost, nothing spent."""

import asyncio

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once, succeed

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.events import HandlerLeaked, JobSettled, WorkerStarted, WorkerStopped, WorkerStopping
from rota.jobs import Job, JobStatus, RetryPolicy
from rota.worker import CancelReason, Context, StopManner, WorkerSettings


class Lasting:
    """A handler that takes so long, and notes how it was cut short."""

    def __init__(self, shop: Workshop, minutes: float = 1) -> None:
        self.shop = shop
        self.lasts_for = minutes * MINUTE
        self.started: list[str] = []
        self.cut_short: list[CancelReason | None] = []

    async def __call__(self, context: Context) -> None:
        self.started.append(context.job.id)
        try:
            await self.shop.clock.sleep(self.lasts_for)
        except asyncio.CancelledError:
            self.cut_short.append(context.cancel_reason)
            raise


async def is_unspent(shop: Workshop, job: Job) -> bool:
    kept = await shop.look(job)
    return (kept.status, kept.attempt_count, kept.lease) == (JobStatus.READY, 0, None)


async def test_a_worker_without_work_stops_at_once(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(SECOND)
    report = await shop.finish()
    assert (report.manner, report.handed_back_count) == (StopManner.FINISHED, 0)
    assert shop.clock.now() == NOW + SECOND


async def test_a_stop_lets_what_runs_come_to_its_end(shop: Workshop) -> None:
    work = Lasting(shop, minutes=0.25)
    shop.make_worker({"work": work})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    report = await shop.finish()
    assert report.manner is StopManner.FINISHED
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert (shop.clock.now(), work.cut_short) == (NOW + 15 * SECOND, [])


async def test_nothing_is_leased_once_a_stop_was_asked_for(shop: Workshop) -> None:
    shop.make_worker({"work": Lasting(shop, minutes=0.25), "late": succeed})
    await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    shop.worker.stop()
    leases = len(shop.hooked.sizes("lease"))
    late = await shop.add("late")
    await shop.pass_time(10 * SECOND)
    assert len(shop.hooked.sizes("lease")) == leases
    assert (await shop.look(late)).status is JobStatus.READY


async def test_jobs_still_running_after_the_grace_period_are_returned_unspent(
    shop: Workshop,
) -> None:
    work = Lasting(shop, minutes=10)
    shop.make_worker({"work": work}, WorkerSettings(grace_for=20 * SECOND))
    jobs = await shop.add_many(3)
    shop.start()
    await shop.pass_time(SECOND)
    report = await shop.finish()
    assert (report.manner, report.handed_back_count) == (StopManner.GRACE_OVER, 3)
    assert [await is_unspent(shop, job) for job in jobs] == [True] * 3
    assert shop.clock.now() == NOW + 21 * SECOND
    assert work.cut_short == [CancelReason.STOPPING] * 3


async def test_jobs_that_have_not_started_are_returned_at_once(shop: Workshop) -> None:
    work = Lasting(shop, minutes=0.25)
    shop.make_worker({"work": work}, WorkerSettings(concurrency=1))
    first, second = await shop.add_many(2)
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(SECOND)
    shop.worker.stop()
    await shop.pass_time()
    assert await is_unspent(shop, second)
    await shop.clock.run(once)
    assert (await shop.look(first)).status is JobStatus.COMPLETED


async def test_the_second_stop_hands_back_now(shop: Workshop) -> None:
    shop.make_worker({"work": Lasting(shop, minutes=10)})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    shop.worker.stop()
    await shop.pass_time(SECOND)
    assert (await shop.look(job)).status is JobStatus.RUNNING
    report = await shop.finish()
    assert (report.manner, report.handed_back_count) == (StopManner.AT_ONCE, 1)
    assert await is_unspent(shop, job)
    assert shop.clock.now() == NOW + 2 * SECOND


async def test_a_handler_that_will_not_end_does_not_hold_up_the_end(shop: Workshop) -> None:
    released = asyncio.Event()

    async def defy(_: Context) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    shop.make_worker({"work": defy}, WorkerSettings(grace_for=SECOND))
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    report = await shop.finish()
    assert (report.leaked_count, report.handed_back_count) == (1, 1)
    assert await is_unspent(shop, job)
    assert len(shop.told(HandlerLeaked)) == 1
    released.set()


async def test_cancelling_a_run_hands_back_at_once_and_stays_a_cancellation(
    shop: Workshop,
) -> None:
    shop.make_worker({"work": Lasting(shop, minutes=10)})
    job = await shop.add()
    run = shop.start()
    await shop.pass_time(SECOND)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shop.clock.run(run)
    assert await is_unspent(shop, job)
    assert shop.clock.now() == NOW + SECOND
    assert [event.manner for event in shop.told(WorkerStopped)] == ["at once"]


async def test_a_run_leaves_nothing_behind(shop: Workshop) -> None:
    before = asyncio.all_tasks()
    shop.make_worker({"work": succeed}, WorkerSettings(retention=MINUTE))
    await shop.add_many(5)
    shop.start()
    await shop.pass_time(5 * MINUTE)
    await shop.finish()
    assert asyncio.all_tasks() == before
    assert shop.clock.sleeper_count == 0


async def test_a_stop_during_an_outage_ends(shop: Workshop) -> None:
    shop.make_worker({"work": Lasting(shop, minutes=10)})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    for verb in ("lease", "apply", "extend"):
        shop.hooked.before[verb] = be_down
    shop.worker.stop()
    report = await shop.finish()
    assert report.unwritten_count == 1
    assert (await shop.look(job)).status is JobStatus.RUNNING
    assert shop.clock.now() <= NOW + 10 * SECOND


async def test_a_lease_that_fails_after_a_stop_was_asked_for_does_not_hold_up_the_end(
    shop: Workshop,
) -> None:
    """However long the store had been away, and would have been given time."""
    shop.make_worker({"work": succeed})
    asked_count = 0

    async def hang_and_be_down() -> None:
        nonlocal asked_count
        asked_count += 1
        await shop.clock.sleep(SECOND)
        await be_down()

    shop.hooked.before["lease"] = hang_and_be_down
    run = shop.start()
    while asked_count < 9:  # pauses are of ten seconds by then
        await shop.pass_time(SECOND / 4)
    shop.worker.stop()
    stopped_at = shop.clock.now()
    report = await shop.clock.run(run)
    assert report.manner is StopManner.FINISHED
    assert shop.clock.now() <= stopped_at + 2 * SECOND


async def test_unanswered_leases_are_handed_back_unspent_at_the_end(
    shop: Workshop,
) -> None:
    """Afterwards it could not be known that it has not begun."""
    job = await shop.add(retry_policy=RetryPolicy(max_attempts=1))
    shop.make_worker({"work": succeed})

    async def stop_and_be_down() -> None:
        shop.worker.stop()
        await be_down()

    shop.hooked.after["lease"] = once(stop_and_be_down)
    report = await shop.clock.run(shop.start())
    assert report.manner is StopManner.FINISHED
    assert await is_unspent(shop, job)


async def test_a_batch_that_was_leased_without_an_answer_goes_back_unspent(shop: Workshop) -> None:
    job = await shop.add(retry_policy=RetryPolicy(max_attempts=1))
    worker = shop.make_worker({"work": succeed})
    shop.hooked.after["lease"] = once(be_down)
    with pytest.raises(StoreUnavailableError):
        await shop.clock.run(worker.run_once())
    assert await is_unspent(shop, job)


async def test_a_batch_ends_although_the_store_takes_none_of_its_outcomes(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.before["apply"] = be_down
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(6 * SECOND)
    has_ended = once.done()
    shop.worker.stop()
    assert (has_ended, await shop.clock.run(once)) == (True, [])
    assert (await shop.look(job)).status is JobStatus.RUNNING


async def test_a_batch_ends_although_the_store_never_answers_its_write(shop: Workshop) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    lease_for = 20 * SECOND
    shop.make_worker({"work": succeed}, WorkerSettings(lease_for=lease_for))
    job = await shop.add()
    shop.hooked.before["apply"] = hang
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(lease_for + 6 * SECOND)
    has_ended = once.done()
    shop.worker.stop()
    assert (has_ended, await shop.clock.run(once)) == (True, [])
    assert (await shop.look(job)).status is JobStatus.RUNNING


async def test_a_batch_waits_for_a_slow_write(shop: Workshop) -> None:
    async def dawdle() -> None:
        await shop.clock.sleep(15 * SECOND)

    shop.make_worker({"work": succeed}, WorkerSettings(lease_for=20 * SECOND))
    job = await shop.add()
    shop.hooked.before["apply"] = dawdle
    settled = await shop.clock.run(shop.worker.run_once())
    assert [it.job.id for it in settled] == [job.id]
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_a_store_closed_under_a_worker_ends_it_with_that_error(shop: Workshop) -> None:
    work = Lasting(shop, minutes=10)
    shop.make_worker({"work": work})
    await shop.add()
    run = shop.start()
    await shop.pass_time(SECOND)
    await shop.store.close()
    with pytest.raises(StoreClosedError):
        await shop.clock.run(run)
    assert work.cut_short == [CancelReason.STOPPING]


async def test_the_life_of_a_worker_is_reported(shop: Workshop) -> None:
    shop.make_worker({"b": succeed, "a": succeed}, WorkerSettings(grace_for=SECOND))
    shop.start()
    await shop.pass_time(SECOND)
    await shop.finish()
    started, stopping, stopped = shop.events
    assert isinstance(started, WorkerStarted)
    assert (started.worker, started.kinds) == (shop.worker.name, ["a", "b"])
    assert isinstance(stopping, WorkerStopping)
    assert (stopping.running_count, stopping.grace_ms) == (0, 1_000.0)
    assert isinstance(stopped, WorkerStopped)
    assert (stopped.manner, stopped.unwritten_count) == ("finished", 0)


async def test_a_returned_job_is_reported_as_returned(shop: Workshop) -> None:
    shop.make_worker({"work": Lasting(shop)}, WorkerSettings(grace_for=SECOND))
    await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    await shop.finish()
    (event,) = shop.told(JobSettled)
    assert (event.outcome, event.state) == ("handed back", "queued")
