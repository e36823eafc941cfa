"""What became of jobs is written together, kept through outages, and never believed twice."""

import asyncio
from datetime import timedelta
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, be_down, once, succeed

from rota.errors import IllegalMoveError, StoreClosedError
from rota.events import JobFailed, JobNotSettled, JobSettled, LeaseLost, StoreFailed, StoreRecovered
from rota.jobs import (
    Change,
    Ending,
    Failed,
    Interrupted,
    Job,
    JobStatus,
    Lost,
    Recurrence,
    RetryPolicy,
    Succeeded,
    decide_complete,
    decide_fail,
    decide_lost,
)
from rota.policy.gates import Closed
from rota.testing import a_job
from rota.worker import Context, Worker, WorkerSettings
from rota.worker.completer import decide, is_written


def running(**fields: Any) -> Any:
    return a_job(created_at=NOW, status=JobStatus.RUNNING, **fields)


def test_a_closed_gate_defers_until_it_opens() -> None:
    change = decide(running(), Closed(NOW + MINUTE, "maintenance"), NOW, 0.0)
    assert (change.job.due_at, change.job.attempt_count) == (NOW + MINUTE, 0)
    assert change.job.deferral is not None


def test_a_gate_that_names_the_past_is_asked_again_a_little_later() -> None:
    change = decide(running(), Closed(NOW - MINUTE, "odd"), NOW, 0.0)
    assert change.job.due_at == NOW + SECOND


def test_a_series_that_makes_no_sense_ends_without_holding_up_its_job() -> None:
    broken = running(recurrence=Recurrence(rrule="FREQ=NEVER", start=NOW), occurrence_at=NOW)
    change = decide(broken, Succeeded(), NOW, 0.0)
    assert (change.job.status, change.successor) == (JobStatus.COMPLETED, None)
    assert change.series_end is not None


def test_a_written_change_is_recognised_after_later_amendments() -> None:
    change = decide(running(), Failed("boom"), NOW, 0.0)
    kept = replace(change.job, priority=9, updated_at=NOW + MINUTE)
    assert is_written(change, kept)


def _taken_by_another(change: Change) -> Any:
    return replace(change.job, last_token=change.job.last_token + 1)


@pytest.mark.parametrize(
    "outcome", [Succeeded(), Failed("boom"), Interrupted()], ids=lambda it: type(it).__name__
)
def test_a_change_by_another_worker_is_not_taken_for_our_own(outcome: Any) -> None:
    job = running()
    change = decide(job, outcome, NOW, 0.0)
    rescued = decide_lost(job, NOW + MINUTE).job
    assert not is_written(change, rescued)
    assert not is_written(change, _taken_by_another(change))
    assert not is_written(change, job)
    assert not is_written(change, None)


def test_a_job_that_was_to_be_removed_and_is_gone_was_written() -> None:
    assert is_written(decide_complete(running(auto_remove=True), NOW), None)


def test_a_failure_and_a_loss_are_distinguished() -> None:
    job = running()
    assert not is_written(decide_fail(job, "boom", NOW), decide(job, Lost(), NOW, 0.0).job)


async def test_a_single_job_is_written_at_once(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.start()
    await shop.pass_time()
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert shop.clock.now() == NOW


async def test_attempts_that_end_during_a_write_go_into_the_next_one(shop: Workshop) -> None:
    async def take_long() -> None:
        await shop.clock.sleep(SECOND)

    async def stagger(context: Context) -> None:
        await shop.clock.sleep(context.payload["after"] * timedelta(milliseconds=10))

    shop.make_worker({"work": stagger})
    for after in range(10):
        await shop.add(payload={"after": after})
    shop.hooked.before["apply"] = take_long
    shop.start()
    await shop.pass_time(MINUTE)
    assert shop.hooked.sizes("apply") == [1, 9]


async def test_outcomes_are_kept_until_the_store_is_back(shop: Workshop) -> None:
    calls = 0

    async def count(_: Context) -> None:
        nonlocal calls
        calls += 1

    shop.make_worker({"work": count})
    job = await shop.add()
    shop.hooked.before["apply"] = be_down
    shop.start()
    await shop.pass_time(10 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.RUNNING
    del shop.hooked.before["apply"]
    await shop.pass_time(MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert (calls, await shop.attempts(job)) == (1, [])
    assert (len(shop.told(StoreFailed)), len(shop.told(StoreRecovered))) == (1, 1)


async def test_a_write_whose_answer_was_lost_is_found_to_have_happened(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.after["apply"] = once(be_down)
    shop.start()
    await shop.pass_time(MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert [event.outcome for event in shop.told(JobSettled)] == ["succeeded"]
    assert shop.told(LeaseLost) == []


async def test_a_write_with_a_lost_answer_that_did_not_happen_is_reported_as_lost(
    shop: Workshop,
) -> None:
    async def lose_it() -> None:
        await shop.store.delete(job.tenant, job.id)
        await be_down()

    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.before["apply"] = once(lose_it)
    shop.start()
    await shop.pass_time(MINUTE)
    assert [event.job_id for event in shop.told(LeaseLost)] == [job.id]
    assert shop.told(JobSettled) == []


async def test_a_stale_completion_changes_nothing_and_is_reported(shop: Workshop) -> None:
    async def be_deleted(context: Context) -> None:
        await shop.store.delete(context.tenant, context.job.id)

    shop.make_worker({"work": be_deleted})
    job = await shop.add()
    settled = await shop.worker.run_once()
    assert [(it.job.id, it.is_stale) for it in settled] == [(job.id, True)]
    (event,) = shop.told(LeaseLost)
    assert (event.job_id, event.token) == (job.id, 1)
    assert "stale" in event.reason


async def test_one_change_that_the_store_refuses_does_not_hold_up_the_others(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = await shop.add(), await shop.add()
    whole = shop.hooked.apply

    async def apply(changes: Any, now: Any) -> Any:
        if any(change.job_id == bad.id for change in changes):
            raise IllegalMoveError("RUNNING", "RUNNING")
        return await whole(changes, now)

    monkeypatch.setattr(shop.hooked, "apply", apply)
    shop.make_worker({"work": succeed})
    await shop.worker.run_once()
    assert (await shop.look(good)).status is JobStatus.COMPLETED
    assert (await shop.look(bad)).status is JobStatus.RUNNING
    assert [event.job_id for event in shop.told(JobNotSettled)] == [bad.id]


@pytest.mark.parametrize("trouble", [be_down, None], ids=["away", "closed"])
async def test_while_changes_are_tried_one_by_one_the_store_may_fail_too(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, trouble: Any
) -> None:
    whole, call_count = shop.hooked.apply, 0

    async def apply(changes: Any, now: Any) -> Any:
        nonlocal call_count
        call_count += 1
        if len(changes) > 1:
            raise IllegalMoveError("RUNNING", "RUNNING")
        if call_count == 2:
            await (be_down() if trouble else shop.store.close())
        return await whole(changes, now)

    monkeypatch.setattr(shop.hooked, "apply", apply)
    shop.make_worker({"work": succeed})
    jobs = await shop.add_many(2)
    if trouble is None:
        with pytest.raises(StoreClosedError):
            await shop.clock.run(shop.worker.run_once())
    else:
        await shop.clock.run(shop.worker.run_once())
        assert {(await shop.look(job)).status for job in jobs} == {JobStatus.COMPLETED}
        assert shop.told(JobNotSettled) == []


async def test_a_store_that_is_closed_ends_the_worker(shop: Workshop) -> None:
    async def close(_: Context) -> None:
        await shop.store.close()

    shop.make_worker({"work": close})
    await shop.add()
    with pytest.raises(StoreClosedError):
        await shop.clock.run(shop.start())


async def test_outcomes_that_cannot_be_written_before_the_end_are_counted(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(grace_for=SECOND))
    job = await shop.add()
    shop.hooked.before["apply"] = be_down
    shop.start()
    await shop.pass_time(SECOND)
    report = await shop.finish()
    assert report.unwritten_count == 1
    assert (await shop.look(job)).status is JobStatus.RUNNING


async def test_a_run_that_is_cancelled_during_a_write_writes_all_the_same(shop: Workshop) -> None:
    async def be_slow() -> None:
        await shop.clock.sleep(SECOND)

    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.hooked.before["apply"] = be_slow
    run = shop.start()
    await shop.pass_time()
    assert shop.hooked.sizes("apply") == [1]
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shop.clock.run(run)
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_when_all_tasks_are_cancelled_jobs_still_go_back(shop: Workshop) -> None:
    async def stay(_: Context) -> None:
        await shop.clock.sleep(MINUTE)

    async def be_slow() -> None:
        await shop.clock.sleep(timedelta(milliseconds=1))

    worker: Worker = shop.make_worker({"work": stay, "brief": succeed})
    job, brief = await shop.add(), await shop.add("brief")
    shop.hooked.before["apply"] = once(be_slow)
    run = shop.start(worker)
    await shop.pass_time()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as asyncio.run() does it
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await shop.clock.run(run)
    kept = await shop.look(job)
    assert (kept.status, kept.attempt_count) == (JobStatus.READY, 0)
    assert (await shop.look(brief)).status is JobStatus.COMPLETED


async def test_the_next_occurrence_of_a_rule_is_computed_beside_the_event_loop(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = dict[str, Thread]()

    def note_thread(job: Job, *rest: Any) -> Change:
        threads[job.id] = current_thread()
        return decide(job, *rest)

    monkeypatch.setattr("rota.worker.completer.decide", note_thread)
    rule = Recurrence(rrule="FREQ=DAILY", zone="America/New_York", start=NOW)
    shop.make_worker({"work": succeed})
    plain = await shop.add()
    await shop.worker.run_once()
    series = await shop.add(recurrence=rule, occurrence_at=NOW)
    await shop.worker.run_once()
    assert threads[series.id] is not main_thread()
    assert threads[plain.id] is main_thread()


async def test_a_retry_policy_amended_while_the_job_runs_decides_about_it(shop: Workshop) -> None:
    async def amend_and_fail(context: Context) -> None:
        policy = RetryPolicy(max_attempts=1)
        await shop.store.amend(context.tenant, context.job.id, {"retry_policy": policy}, NOW)
        raise ValueError("no")

    job = await shop.add(retry_policy=RetryPolicy(max_attempts=3))
    shop.make_worker({"work": amend_and_fail})
    settled = await shop.clock.run(shop.worker.run_once())
    assert [(it.job.status, it.job.ending) for it in settled] == [
        (JobStatus.FAILED, Ending.EXHAUSTED)
    ]
    assert [event.state for event in shop.told(JobFailed)] == ["dlq"]
    assert (await shop.look(job)).status is JobStatus.FAILED
