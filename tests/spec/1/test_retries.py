"""Retries: to the millisecond, superseded for good, and kept over a restart."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import Stage, at, minutes, seconds

from rota import POLLING, SchedulerPolicy
from rota.events import (
    TaskRetryPreempted,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
)
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize("delay", [1, 1234, 61_001, 3_599_999])
async def test_a_retry_starts_exactly_after_its_delay(
    stage: Stage, policy: SchedulerPolicy, delay: int
) -> None:
    wait = timedelta(milliseconds=delay)
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0 10 * * *", delay=wait, fails=[ValueError("first")])]
    )
    await stage.clock.advance(timedelta(0))
    assert (await stage.record())["pendingRetryUntil"] == (at(10) + wait).isoformat().replace(
        "+00:00", "Z"
    )
    await stage.clock.advance(wait - timedelta(microseconds=1))
    assert stage.started() == [at(10)]
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), at(10) + wait]
    assert "pendingRetryUntil" not in await stage.record()


async def test_the_events_of_a_failure_and_its_retry_come_in_order(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0 10 * * *", delay=seconds(90), fails=[ValueError("a"), ValueError("b")])]
    )
    await stage.clock.advance(HOUR)
    assert [name for name in stage.names() if name.startswith(("TaskRun", "TaskRetry"))] == [
        *("TaskRunStarted", "TaskRunFailed"),
        *("TaskRetryStarted", "TaskRunStarted", "TaskRunFailed"),
        *("TaskRetryStarted", "TaskRunStarted", "TaskRunCompleted"),
    ]
    assert [event.retry_count for event in stage.emitted(TaskRetryStarted)] == [1, 2]
    assert [event.is_retry for event in stage.emitted(TaskRunStarted)] == [False, True, True]
    assert [event.next_retry_at for event in stage.emitted(TaskRunFailed)] == [
        at(10, 1, 30),
        at(10, 3),
    ]
    assert [event.error for event in stage.emitted(TaskRunFailed)] == [
        "ValueError: a",
        "ValueError: b",
    ]


async def test_a_delay_counts_from_the_end_of_the_failed_run(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0 10 * * *", delay=minutes(1), takes=seconds(20), fails=[ValueError()])]
    )
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), at(10, 1, 20)]


async def test_a_delay_of_zero_retries_after_a_second_without_a_busy_loop(stage: Stage) -> None:
    failures = [ValueError()] * 5
    await stage.scheduler().initialize(
        [stage.task(cron="0 10 * * *", delay=timedelta(0), fails=failures)]
    )
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10, 0, second) for second in range(6)]


async def test_an_occurrence_supersedes_a_retry_for_good(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0,1 10 * * *", delay=minutes(5), fails=[ValueError()])]
    )
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), at(10, 1)]
    names = stage.names()
    preempted = names.index("TaskRetryPreempted")
    assert names[preempted + 1] == "TaskRunStarted"
    assert "TaskRetryStarted" not in names
    assert "2027-01-04T10:01:00" in stage.emitted(TaskRetryPreempted)[0].reason
    assert stage.emitted(TaskRunStarted)[1].is_retry is False


async def test_a_retry_and_a_later_occurrence_due_together_are_one_preempted_start(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0,5 10 * * *", delay=minutes(5), fails=[ValueError()])]
    )
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), at(10, 5)]
    assert "TaskRetryPreempted" in stage.names()
    assert "TaskRetryStarted" not in stage.names()


async def test_a_due_retry_answers_an_occurrence_from_before_the_failure(stage: Stage) -> None:
    await seed_tasks(
        stage.store,
        [
            {
                "name": "a",
                "cronExpression": "30 9 * * *",
                "retryDelayMs": 60_000,
                "lastAttemptAt": at(9, 29),
                "lastFailureAt": at(9, 31),
                "pendingRetryUntil": at(9, 32),
            }
        ],
    )
    await stage.scheduler().initialize([stage.task(cron="30 9 * * *", delay=minutes(1))])
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10)]
    assert "TaskRetryStarted" in stage.names()
    assert "TaskRetryPreempted" not in stage.names()


async def test_success_clears_the_retry_and_keeps_the_failure_in_the_record(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task(cron="0 10 * * *", delay=seconds(1), fails=[ValueError()])]
    )
    await stage.clock.advance(minutes(1))
    record = await stage.record()
    assert record["lastFailureAt"] == "2027-01-04T10:00:00Z"
    assert record["lastAttemptAt"] == record["lastSuccessAt"] == "2027-01-04T10:00:01Z"
    assert "pendingRetryUntil" not in record
    assert "retryCount" not in record


async def test_tasks_keep_their_own_delays_and_do_not_disturb_each_other(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [
            stage.task("a", "0 10 * * *", seconds(10), fails=[ValueError()]),
            stage.task("b", "0 10 * * *", seconds(25), fails=[ValueError()]),
            stage.task("c", "0 10 * * *", seconds(5)),
        ]
    )
    await stage.clock.advance(HOUR)
    assert stage.started("a") == [at(10), at(10, 0, 10)]
    assert stage.started("b") == [at(10), at(10, 0, 25)]
    assert stage.started("c") == [at(10)]


@pytest.mark.parametrize(
    "raised",
    [
        BaseException("base"),
        SystemExit(3),
        GeneratorExit("closed"),
        asyncio.CancelledError("cancelled"),
        ExceptionGroup("many", [ValueError("x")]),
        UnspeakableError(),
        ValueError("half a character: \udcff, \ud800"),
        ValueError("\x1b[31mred\n"),
    ],
    ids=lambda raised: type(raised).__name__,
)
async def test_any_exception_of_a_callback_is_a_failure(
    quick: Stage, raised: BaseException, caplog: pytest.LogCaptureFixture, policy: SchedulerPolicy
) -> None:
    caplog.set_level("DEBUG", "rota.scheduler")
    await quick.scheduler(policy).initialize(
        [
            quick.task("bad", "0 10 * * *", minutes(1), fails=[raised]),
            quick.task("good", "0,5 10 * * *", minutes(1)),
        ]
    )
    await quick.clock.advance(minutes(10))
    assert quick.started("bad") == [at(10), at(10, 1)]
    assert quick.started("good") == [at(10), at(10, 5)]
    (failed,) = quick.emitted(TaskRunFailed)
    assert failed.error.startswith(type(raised).__name__)
    assert all(
        "\n" not in record.message and "\x1b" not in record.message for record in caplog.records
    )


async def test_a_plain_function_that_raises_has_failed(quick: Stage) -> None:
    def fail() -> None:
        quick.starts.append(("a", quick.clock.now()))
        raise ValueError("plainly")

    await quick.scheduler().initialize([("a", "0 10 * * *", fail, minutes(2))])
    await quick.clock.advance(minutes(3))
    assert quick.started() == [at(10), at(10, 2)]


async def test_a_run_that_cancels_its_own_task_has_failed(quick: Stage) -> None:
    async def give_up() -> None:
        quick.starts.append(("a", quick.clock.now()))
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await quick.clock.sleep(minutes(1))

    scheduler = quick.scheduler()
    await scheduler.initialize([("a", "0 10 * * *", give_up, minutes(2))])
    await quick.clock.advance(minutes(3))
    assert quick.started() == [at(10), at(10, 2)]
    await quick.clock.run(scheduler.stop())


@pytest.mark.parametrize(("back_at", "expected"), [(at(10, 2), at(10, 5)), (at(10, 9), at(10, 9))])
async def test_a_retry_survives_a_restart_and_is_due_when_it_was_due(
    stage: Stage, policy: SchedulerPolicy, back_at: object, expected: object
) -> None:
    registrations = [stage.task(cron="0 10 * * *", delay=minutes(5), fails=[ValueError()])]
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(registrations)
    await stage.clock.advance(seconds(1))
    await scheduler.stop()
    assert isinstance(back_at, type(at(10)))
    await stage.clock.advance_to(back_at)
    await stage.scheduler(policy).initialize(registrations)
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10), expected]


async def test_a_changed_delay_leaves_a_pending_retry_or_drops_it_by_edition(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(
        [stage.task(cron="0 10 * * *", delay=minutes(5), fails=[ValueError()])]
    )
    await stage.clock.advance(minutes(1))
    await scheduler.stop()
    await scheduler.initialize([stage.task(cron="0 10 * * *", delay=minutes(30))])
    await stage.clock.advance(HOUR)
    retried = [] if policy is POLLING else [at(10, 5)]
    assert stage.started() == [at(10), *retried]


async def test_a_completed_run_reports_its_duration(stage: Stage, policy: SchedulerPolicy) -> None:
    await stage.scheduler(policy).initialize([stage.task(takes=timedelta(milliseconds=1500.5))])
    await stage.clock.advance(seconds(30))
    (completed,) = stage.emitted(TaskRunCompleted)
    assert completed.fields() == {"taskName": "a", "duration": 1500.5, "success": True}
