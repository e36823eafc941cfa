"""Many jobs by few runners: places are kept, the loop turns, and what is cut short ends."""

import asyncio
import threading

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota.clock.loop import turn
from rota.events import HandlerLeaked, JobFailed, JobSettled, LeaseLost
from rota.jobs import JobStatus, Recurrence, RetryPolicy
from rota.worker import CancelReason, Context, WorkerSettings
from rota.worker.executor import BREATH_COUNT, CANCEL_GRACE


async def test_no_more_run_at_once_than_allowed_and_all_get_their_turn(shop: Workshop) -> None:
    running = most = 0

    async def work(_: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await shop.clock.sleep(SECOND)
        running -= 1

    shop.make_worker({"work": work}, WorkerSettings(batch=20, concurrency=4))
    await shop.add_many(20)
    settled = await shop.clock.run(shop.worker.run_once())
    assert (len(settled), most) == (20, 4)


async def test_jobs_start_in_the_order_of_their_lease(shop: Workshop) -> None:
    started: list[str] = []

    async def note(context: Context) -> None:
        started.append(context.job.id)
        await shop.clock.sleep(SECOND)

    shop.make_worker({"work": note}, WorkerSettings(batch=20, concurrency=3))
    jobs = await shop.add_many(12)
    await shop.clock.run(shop.worker.run_once())
    assert started == [job.id for job in jobs]


async def test_jobs_that_never_wait_cost_no_task_and_few_turns(shop: Workshop) -> None:
    tasks: set[object] = set()
    turn_count = 0

    async def note(_: Context) -> None:
        tasks.add(asyncio.current_task())

    async def count_turns() -> None:
        nonlocal turn_count
        while True:
            turn_count += 1
            await turn()

    count = 4 * BREATH_COUNT
    shop.make_worker({"work": note}, WorkerSettings(batch=count, concurrency=50))
    await shop.add_many(count)
    counting = asyncio.create_task(count_turns())
    assert len(await shop.worker.run_once()) == count
    counting.cancel()
    assert len(tasks) <= 5
    assert 4 <= turn_count <= 60  # let run now and then, and not once for every job


async def test_a_deleted_job_is_cancelled_with_a_reason_and_not_written(
    shop: Workshop,
) -> None:
    reasons: list[CancelReason | None] = []

    async def linger(context: Context) -> None:
        try:
            await shop.clock.sleep(MINUTE)
        finally:
            reasons.append(context.cancel_reason)

    shop.make_worker({"work": linger})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    await shop.store.delete(job.tenant, job.id)
    await shop.pass_time(5 * SECOND)
    assert reasons == [CancelReason.LOST]
    assert [event.job_id for event in shop.told(LeaseLost)] == [job.id]
    assert shop.told(JobSettled) == []
    assert shop.hooked.sizes("apply") == []


async def test_a_runner_whose_job_was_lost_runs_the_next_one(shop: Workshop) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    shop.make_worker({"lost": linger, "work": succeed}, WorkerSettings(concurrency=1))
    lost = await shop.add("lost")
    shop.start()
    await shop.pass_time(SECOND)
    work = await shop.add()
    await shop.store.delete(lost.tenant, lost.id)
    await shop.pass_time(5 * SECOND)
    assert (await shop.look(work)).status is JobStatus.COMPLETED
    assert len(shop.told(LeaseLost)) == 1


async def test_a_job_that_is_lost_before_it_begins_never_begins(shop: Workshop) -> None:
    started: list[str] = []

    async def linger(context: Context) -> None:
        started.append(context.job.id)
        await shop.clock.sleep(20 * SECOND)

    shop.make_worker({"work": linger}, WorkerSettings(concurrency=1))
    first, second = await shop.add_many(2)
    once = asyncio.create_task(shop.worker.run_once())
    await shop.pass_time(SECOND)
    await shop.store.delete(second.tenant, second.id)
    settled = await shop.clock.run(once)
    assert started == [first.id] == [it.job.id for it in settled]
    assert [event.job_id for event in shop.told(LeaseLost)] == [second.id]


async def test_a_job_lost_before_its_executor_never_starts(shop: Workshop) -> None:
    """The store hangs between the lease and the start, while the next occurrence is made."""
    started: list[str] = []

    async def note(context: Context) -> None:
        started.append(context.job.id)

    async def hang() -> None:
        await shop.clock.sleep(20 * SECOND)

    shop.make_worker({"work": note})
    every = Recurrence(interval="1h", start=NOW, overlap="allow")
    job = await shop.add(recurrence=every, occurrence_at=NOW)
    shop.hooked.before["apply"] = hang
    shop.start()
    await shop.pass_time(SECOND)
    await shop.store.delete(job.tenant, job.id)
    await shop.pass_time(MINUTE)
    assert started == []
    assert [event.job_id for event in shop.told(LeaseLost)] == [job.id]


class Defiant:
    """A handler that takes no notice of being cancelled until it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.call_count = 0

    async def __call__(self, _: Context) -> None:
        self.call_count += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


async def test_a_place_that_a_handler_will_not_leave_is_given_to_another(shop: Workshop) -> None:
    defiant = Defiant()
    shop.make_worker({"defiant": defiant, "work": succeed}, WorkerSettings(concurrency=1))
    stuck = await shop.add("defiant")
    shop.start()
    await shop.pass_time(SECOND)
    await shop.store.delete(stuck.tenant, stuck.id)
    work = await shop.add()
    await shop.pass_time(5 * SECOND)
    assert (await shop.look(work)).status is JobStatus.READY
    await shop.pass_time(CANCEL_GRACE)
    assert (await shop.look(work)).status is JobStatus.COMPLETED
    (event,) = shop.told(HandlerLeaked)
    assert (event.job_id, event.reason, event.leaked_count) == (stuck.id, "lease lost", 1)
    defiant.released.set()


async def test_the_result_of_an_abandoned_slot_is_ignored_and_no_slot_is_added(
    shop: Workshop,
) -> None:
    defiant, running, most = Defiant(), 0, 0

    async def work(_: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await shop.clock.sleep(SECOND)
        running -= 1

    shop.make_worker({"defiant": defiant, "work": work}, WorkerSettings(concurrency=2))
    stuck = await shop.add("defiant")
    shop.start()
    await shop.pass_time(SECOND)
    await shop.store.delete(stuck.tenant, stuck.id)
    await shop.pass_time(MINUTE)
    defiant.released.set()
    jobs = await shop.add_many(6)
    await shop.pass_time(MINUTE)
    assert most == 2
    assert {(await shop.look(job)).status for job in jobs} == {JobStatus.COMPLETED}
    assert shop.hooked.calls.count(("apply", 0)) == 0
    assert len(shop.told(JobSettled)) == 6


async def test_an_abandoned_attempt_is_settled_once_even_if_its_handler_ends_later(
    shop: Workshop,
) -> None:
    defiant = Defiant()
    shop.make_worker({}, WorkerSettings(concurrency=1))
    shop.worker.handler("defiant", timeout=SECOND)(defiant)
    await shop.add("defiant", retry_policy=RetryPolicy(max_attempts=1))
    shop.start()
    await shop.pass_time(MINUTE)
    defiant.released.set()
    await shop.pass_time(MINUTE)
    assert [event.err_code for event in shop.told(JobFailed)] == ["TimedOut"]
    assert shop.told(LeaseLost) == []
    assert sum(shop.hooked.sizes("apply")) == 1


async def test_a_runner_that_was_cancelled_once_knows_its_own_jobs_from_that(
    shop: Workshop,
) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    async def cancel_oneself(_: Context) -> None:
        raise asyncio.CancelledError

    shop.make_worker({"odd": cancel_oneself}, WorkerSettings(concurrency=1))
    shop.worker.handler("slow", timeout=SECOND)(linger)
    await shop.add("slow")
    odd = await shop.add("odd")
    await shop.clock.run(shop.worker.run_once())
    kept = await shop.look(odd)
    assert (kept.attempt_count, kept.last_error) == (1, "CancelledError")


async def test_an_executor_cancelled_during_a_job_returns_it_and_ends(
    shop: Workshop,
) -> None:
    tasks: list[asyncio.Task[object]] = []

    async def linger(_: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        if len(tasks) == 1:
            await shop.clock.sleep(MINUTE)

    shop.make_worker({"work": linger})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    tasks[0].cancel()
    await shop.pass_time(SECOND)
    assert tasks[0].done()
    kept = await shop.look(job)
    assert (len(tasks), kept.status, kept.attempt_count) == (2, JobStatus.COMPLETED, 0)


async def test_a_handler_that_has_itself_cut_short_is_the_only_one(shop: Workshop) -> None:
    async def stop_all(_: Context) -> None:
        shop.worker.stop()
        shop.worker.stop()
        await shop.clock.sleep(MINUTE)

    shop.make_worker({"work": stop_all})
    job = await shop.add()
    report = await shop.clock.run(shop.start())
    assert (report.manner, report.handed_back_count) == ("at once", 1)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)


async def test_a_handler_that_ends_before_it_can_be_cut_short_has_ended(shop: Workshop) -> None:
    async def stop_all(_: Context) -> None:
        shop.worker.stop()
        shop.worker.stop()

    shop.make_worker({"work": stop_all})
    job = await shop.add()
    await shop.clock.run(shop.start())
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_a_thread_is_signalled_and_joined(shop: Workshop) -> None:
    begun, reasons = threading.Event(), []

    def look(context: Context) -> None:
        begun.set()
        pause = threading.Event()
        while context.cancel_reason is None:
            pause.wait(0.001)
        reasons.append(context.cancel_reason)

    shop.make_worker({"work": look})
    job = await shop.add()
    run = shop.start()
    while not begun.is_set():
        await turn()
    shop.worker.stop()
    shop.worker.stop()
    while not run.done():
        await turn()
    assert reasons == [CancelReason.STOPPING]
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_cancelled_executors_are_replaced(shop: Workshop, concurrency: int) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(concurrency=concurrency))
    await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    for task in asyncio.all_tasks():
        if task.get_name().startswith("rota runner"):
            task.cancel()
    await shop.pass_time(SECOND)
    job = await shop.add()
    await shop.pass_time(SECOND)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
