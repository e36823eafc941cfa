"""stop(): nothing new starts, what runs is waited for, and one task never harms another."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, seconds, state_of

from rota import SchedulerPolicy
from rota.errors import StopSchedulerError, StoreUnavailableError
from rota.events import Event, PollStarted, StoreFailed, StoreRecovered, TaskRunFailed
from rota.scheduler import SchedulerState
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)


async def test_stop_returns_when_the_last_run_has_ended(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(
        [
            stage.task("a", takes=minutes(10)),
            stage.task("b", takes=minutes(3), fails=[ValueError()]),
        ]
    )
    await stage.clock.advance(minutes(1.5))
    await stage.clock.run(scheduler.stop())
    assert stage.clock.now() == at(10, 10)
    assert stage.starts == [("a", at(10)), ("b", at(10))]
    assert stage.ended("a") == [at(10, 10)]
    assert (await stage.record("a"))["lastSuccessAt"] == "2027-01-04T10:10:00Z"
    assert (await stage.record("b"))["pendingRetryUntil"] == "2027-01-04T10:08:00Z"
    await stage.clock.advance(HOUR)
    assert len(stage.starts) == 2


async def test_calls_of_stop_wait_for_the_same_end(stage: Stage) -> None:
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task(takes=minutes(2))])
    await stage.clock.advance(seconds(1))
    ended = []

    async def stop() -> None:
        await scheduler.stop()
        ended.append(stage.clock.now())

    await stage.clock.run(asyncio.gather(stop(), stop(), stop()))
    assert ended == [at(10, 2)] * 3
    assert stage.names().count("SchedulerStopRequested") == 1
    assert stage.names().count("SchedulerStopped") == 1


async def test_a_stop_that_is_given_up_goes_on_by_itself(stage: Stage) -> None:
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task(takes=minutes(2))])
    await stage.clock.advance(seconds(1))
    impatient = asyncio.create_task(scheduler.stop())
    await stage.clock.advance(seconds(1))
    impatient.cancel()
    await stage.clock.advance(minutes(3))
    assert state_of(scheduler) is SchedulerState.STOPPED
    assert stage.ended() == [at(10, 2)]


async def test_a_claim_in_progress_at_stop_is_returned(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    registrations = [stage.task(cron="1 10 * * *")]
    scheduler = stage.scheduler(policy, store=spy)
    await scheduler.initialize(registrations)
    spy.delays["write_each scheduler.tasks"] = seconds(5)
    await stage.clock.advance(seconds(62))
    await stage.clock.run(scheduler.stop())
    assert stage.starts == []
    assert (await stage.record())["running"] is False
    assert "lastAttemptAt" not in await stage.record()
    await stage.scheduler(policy).initialize(registrations)
    await stage.clock.advance(HOUR)
    assert len(stage.starts) == 1


async def test_a_stop_between_a_claim_and_its_start_lets_nothing_start(
    quick: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = quick.scheduler(policy)
    registrations = [quick.task("a", "1 10 * * *"), quick.task("b", "1 10 * * *")]

    def stop_soon(event: Event) -> None:
        if isinstance(event, PollStarted) and event.poll_time == at(10, 1):
            asking.append(asyncio.create_task(scheduler.stop()))

    asking: list[asyncio.Task[None]] = []
    await scheduler.initialize(registrations)
    scheduler.events.subscribe(stop_soon)
    await quick.clock.advance(minutes(5))
    assert len(asking) == 1
    assert quick.starts == []
    assert "TaskRunStarted" not in quick.names()
    for name in "ab":
        record = await quick.record(name)
        assert record["running"] is False
        assert "lastAttemptAt" not in record
    await scheduler.initialize(registrations)
    await quick.clock.advance(seconds(1))
    assert sorted(quick.starts) == [("a", at(10, 5)), ("b", at(10, 5))]


async def test_a_callback_that_stops_its_own_scheduler_gets_an_error_instead_of_a_deadlock(
    stage: Stage,
) -> None:
    scheduler = stage.scheduler()
    raised: list[BaseException] = []

    async def suicide() -> None:
        try:
            await scheduler.stop()
        except StopSchedulerError as error:
            raised.append(error)
            raise

    await scheduler.initialize([("the end", "* * * * *", suicide, HOUR)])
    await stage.clock.advance(seconds(1))
    (error,) = raised
    assert str(error).startswith("Failed to stop scheduler: it was called from inside")
    assert "the end" in str(error)
    assert isinstance(error, StopSchedulerError)
    assert error.details["cause"] is error.cause
    assert len(stage.emitted(TaskRunFailed)) == 1
    assert state_of(scheduler) is SchedulerState.RUNNING
    await scheduler.stop()
    assert state_of(scheduler) is SchedulerState.STOPPED


async def test_a_callback_may_ask_for_a_stop_without_waiting_for_it(stage: Stage) -> None:
    scheduler = stage.scheduler()
    asked: list[asyncio.Task[None]] = []

    async def ask() -> None:
        asked.append(asyncio.create_task(scheduler.stop()))

    await scheduler.initialize([("a", "* * * * *", ask, HOUR)])
    await stage.clock.advance(minutes(3))
    assert len(asked) == 1
    assert state_of(scheduler) is SchedulerState.STOPPED


async def test_a_hanging_or_failing_task_delays_no_other(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [
            stage.task("hanging", takes=10 * HOUR),
            stage.task("failing", delay=seconds(1), fails=[ValueError()] * 100),
            stage.task("sound"),
        ]
    )
    await stage.clock.advance(minutes(3))
    assert stage.started("sound") == [at(10, minute) for minute in range(4)]
    assert len(stage.started("hanging")) == 1


async def test_a_life_leaves_nothing_behind(stage: Stage, policy: SchedulerPolicy) -> None:
    before = asyncio.all_tasks()
    scheduler = stage.scheduler(policy)
    for _ in range(3):
        await scheduler.initialize([stage.task(fails=[ValueError()])])
        await stage.clock.advance(minutes(1))
        await scheduler.stop()
        await stage.clock.advance(timedelta(0))
    assert asyncio.all_tasks() == before
    assert stage.clock.sleeper_count == 0
    assert await stage.documents("scheduler.instances") == {}


async def test_a_subscriber_that_raises_disturbs_nothing(
    quick: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = quick.scheduler()

    def fail(event: Event) -> None:
        raise ValueError(event.name)

    unsubscribe = scheduler.events.subscribe(fail)
    await scheduler.initialize([quick.task()])
    await quick.clock.advance(minutes(1))
    assert quick.started() == [at(10), at(10, 1)]
    assert "A subscriber failed on TaskRunCompleted" in caplog.text
    unsubscribe()
    unsubscribe()
    caplog.clear()
    await quick.clock.advance(minutes(1))
    assert "A subscriber failed" not in caplog.text


@pytest.mark.parametrize("losing_replies", [False, True])
@pytest.mark.parametrize("error", [StoreUnavailableError("gone"), RuntimeError("a bug")])
async def test_a_store_that_fails_for_a_while_loses_no_occurrence_and_doubles_none(
    stage: Stage, error: Exception, losing_replies: bool
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    await stage.scheduler(store=spy).initialize([stage.task(cron="1 * * * *")])
    spy.errors["write_each"] = error
    spy.losing_replies = losing_replies
    await stage.clock.advance(minutes(5))
    assert stage.starts == []
    assert len(stage.emitted(StoreFailed)) == 1
    spy.errors.clear()
    spy.losing_replies = False
    await stage.clock.advance(minutes(1))
    assert len(stage.starts) == 1
    assert len(stage.emitted(StoreRecovered)) == 1
    await stage.clock.advance_to(at(11, 2))
    assert stage.started()[1:] == [at(11, 1)]


@pytest.mark.parametrize("answers_after", [0, 10])
async def test_a_clock_set_back_while_the_store_fails_does_not_delay_the_next_try(
    quick: Stage, answers_after: int
) -> None:
    spy = SpyStore(quick.store, quick.clock)
    await quick.scheduler(store=spy).initialize([quick.task(cron="5 10 * * *")])
    spy.errors["write_each"] = StoreUnavailableError("gone")
    spy.delays["write_each"] = seconds(answers_after)
    await quick.clock.jump_to(at(13))
    await quick.clock.jump_to(at(10, 30))
    await quick.clock.advance(seconds(answers_after))
    spy.delays.clear()
    spy.errors.clear()
    await quick.clock.advance(minutes(1))
    assert len(quick.starts) == 1


@pytest.mark.parametrize("losing_replies", [False, True])
async def test_a_result_that_cannot_be_written_is_written_later(
    stage: Stage, losing_replies: bool
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    await stage.scheduler(store=spy).initialize(
        [stage.task(cron="0 10 * * *", delay=minutes(2), takes=seconds(30), fails=[ValueError()])]
    )
    await stage.clock.advance(seconds(10))
    spy.errors["write_each"] = StoreUnavailableError("gone")
    spy.losing_replies = losing_replies
    await stage.clock.advance(seconds(60))
    spy.errors.clear()
    spy.losing_replies = False
    await stage.clock.advance(minutes(1))
    assert (await stage.record())["pendingRetryUntil"] == "2027-01-04T10:02:30Z"
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), at(10, 2, 30)]
    assert "TaskRunDiscarded" not in stage.names()


async def test_a_run_that_ends_while_the_last_one_is_being_written_is_recorded_too(
    stage: Stage,
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    durations = iter([90.0, 0.1])

    async def work() -> None:
        stage.starts.append(("a", stage.clock.now()))
        await stage.clock.sleep(seconds(next(durations)))

    scheduler = stage.scheduler(store=spy)
    await scheduler.initialize([("a", "* * * * *", work, minutes(1))])
    await stage.clock.advance(seconds(1))
    spy.delays["write_each"] = seconds(0.2)
    await stage.clock.advance(seconds(100))
    await stage.clock.run(scheduler.stop())
    assert stage.started() == [at(10), at(10, 1, 30.2)]
    record = await stage.record()
    assert record["running"] is False
    assert record["lastSuccessAt"] == "2027-01-04T10:01:30.300000Z"


async def test_stopping_twice_in_one_second_keeps_what_was_stored(stage: Stage) -> None:
    await seed_tasks(
        stage.store,
        [{"name": "a", "cronExpression": "0 9 * * *", "retryDelayMs": 1, "lastAttemptAt": at(9)}],
    )
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task(cron="0 9 * * *", delay=timedelta(milliseconds=1))])
    await asyncio.gather(scheduler.stop(), scheduler.stop())
    assert (await stage.record())["cronExpression"] == "0 9 * * *"
