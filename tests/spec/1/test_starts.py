"""When a task starts: at its minute, once for all that was missed, and never for the past."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, seconds

from rota import SchedulerPolicy, open_store
from rota.events import ClockMovedBack, PollDelayed, TaskRunStarted
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


async def test_a_task_starts_exactly_at_its_minutes_and_never_early(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize([stage.task(cron="1,3 * * * *")])
    await stage.clock.advance_to(at(10, 0, 59.999999))
    assert stage.starts == []
    await stage.clock.advance_to(at(11, 2))
    assert stage.started() == [at(10, 1), at(10, 3), at(11, 1)]
    assert [event.scheduled_time for event in stage.emitted(TaskRunStarted)] == stage.started()


@pytest.mark.parametrize("second", [0, 30, 59.999])
async def test_a_new_task_runs_at_once_only_if_this_minute_matches(
    stage: Stage, policy: SchedulerPolicy, second: float
) -> None:
    await stage.clock.advance_to(at(10, 5, second))
    await stage.scheduler(policy).initialize(
        [
            stage.task("this minute", "5 10 * * *"),
            stage.task("five minutes ago", "0 10 * * *"),
            stage.task("last minute", "4 10 * * *"),
            stage.task("next minute", "6 10 * * *"),
        ]
    )
    await stage.clock.advance(timedelta(0))
    assert stage.starts == [("this minute", at(10, 5, second))]
    await stage.clock.advance_to(at(11, 0))
    assert stage.starts[1:] == [("next minute", at(10, 6))]


async def test_first_start_is_a_matter_of_each_task_and_not_of_the_store(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize([stage.task("old", "0 10 * * *")])
    await stage.clock.advance(seconds(20))
    await scheduler.stop()
    await scheduler.initialize([stage.task("old", "0 10 * * *"), stage.task("new", "0 10 * * *")])
    await stage.clock.advance(minutes(30))
    assert stage.starts == [("old", at(10)), ("new", at(10, 0, 20))]


async def test_a_restart_within_the_period_runs_nothing_again(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    for _ in range(3):
        scheduler = stage.scheduler(policy)
        await scheduler.initialize([stage.task(cron="0 * * * *")])
        await stage.clock.advance(minutes(10))
        await scheduler.stop()
    assert stage.started() == [at(10)]
    assert (await stage.record())["lastSuccessAt"] == "2027-01-04T10:00:00Z"


@pytest.mark.parametrize("pause", [HOUR, 7 * DAY])
async def test_after_downtime_each_task_runs_once_and_then_as_usual(
    stage: Stage, policy: SchedulerPolicy, pause: timedelta
) -> None:
    registrations = [stage.task("a", "15,30,45,0 * * * *"), stage.task("b", "20 * * * *")]
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(1))
    await scheduler.stop()
    await stage.clock.advance(pause + minutes(4))
    stage.starts.clear()
    await stage.scheduler(policy).initialize(registrations)
    await stage.clock.advance(minutes(12))
    back = at(10, 5) + pause
    assert sorted(stage.starts) == [
        ("a", back),
        ("a", at(10, 15) + pause),
        ("b", back),
    ]


async def test_missed_and_due_at_the_same_moment_is_one_start(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize([stage.task(cron="0 * * * *")])
    await stage.clock.advance(seconds(1))
    await scheduler.stop()
    await stage.clock.advance_to(at(13))
    await scheduler.initialize([stage.task(cron="0 * * * *")])
    await stage.clock.advance(minutes(30))
    assert stage.started() == [at(10), at(13)]


async def test_misses_of_a_task_that_never_ran_count_from_its_registration(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await stage.clock.advance(minutes(10))
    registrations = [stage.task("missed", "20 * * * *"), stage.task("earlier", "5 * * * *")]
    await scheduler.initialize(registrations)
    await scheduler.stop()
    await stage.clock.advance_to(at(10, 40))
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(10))
    assert stage.starts == [("missed", at(10, 40))]


@pytest.mark.parametrize("changed", [False, True])
async def test_a_bare_record_counts_as_registered_when_it_is_first_seen(
    stage: Stage, policy: SchedulerPolicy, changed: bool
) -> None:
    cron = "5 * * * *" if changed else "0 * * * *"
    await seed_tasks(stage.store, [{"name": "a", "cronExpression": cron, "retryDelayMs": 300000}])
    await stage.clock.advance(minutes(1))
    await stage.scheduler(policy).initialize([stage.task(cron="0 * * * *")])
    await stage.clock.advance(2 * HOUR)
    assert stage.started() == [at(11), at(12)]


@pytest.mark.parametrize("pause", [5 * HOUR, 7 * DAY])
async def test_a_host_that_slept_runs_each_task_once_and_says_so(
    quick: Stage, policy: SchedulerPolicy, pause: timedelta
) -> None:
    await quick.scheduler(policy).initialize(
        [quick.task("a", "* * * * *"), quick.task("b", "0 * * * *")]
    )
    await quick.clock.advance(minutes(1.5))
    quick.starts.clear()
    woken = at(10, 1, 30) + pause
    await quick.clock.jump_to(woken)
    assert sorted(quick.starts) == [("a", woken), ("b", woken)]
    (delayed,) = quick.emitted(PollDelayed)
    assert delayed.by == (pause - seconds(30)) / timedelta(milliseconds=1)
    await quick.clock.advance(minutes(2))
    assert quick.starts[2:] == [("a", woken + seconds(30)), ("a", woken + seconds(90))]


async def test_a_clock_set_back_reruns_nothing_and_is_reported(quick: Stage) -> None:
    await quick.scheduler().initialize(
        [
            quick.task("a"),
            quick.task("b", "30 * * * *"),
            quick.task("long", "5 10 * * *", takes=minutes(1)),
        ]
    )
    await quick.clock.advance(minutes(5.5))
    quick.starts.clear()
    await quick.clock.jump_to(at(9, 45))
    await quick.clock.advance_to(at(10, 6))
    assert quick.starts == [("a", at(10, 6))]
    (moved,) = quick.emitted(ClockMovedBack)
    assert moved.by == -1_170_000
    await quick.clock.advance_to(at(10, 30))
    assert ("b", at(10, 30)) in quick.starts


async def test_a_clock_set_back_while_the_claim_is_written_reruns_nothing(quick: Stage) -> None:
    spy = SpyStore(quick.store, quick.clock)
    scheduler = quick.scheduler(store=spy)
    await scheduler.initialize([quick.task(cron="5 * * * *")])
    spy.delays["write_each"] = seconds(4)
    await quick.clock.advance_to(at(10, 5, 2))
    await quick.clock.jump_to(at(10, 4, 30))
    await quick.clock.advance_to(at(10, 20))
    assert len(quick.starts) == 1


async def test_an_occurrence_during_a_run_starts_right_after_it_and_once(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await stage.scheduler(policy).initialize(
        [stage.task("long", takes=seconds(200)), stage.task("short")]
    )
    await stage.clock.advance(seconds(420))
    assert stage.started("long") == [at(10), at(10, 3, 20), at(10, 6, 40)]
    assert stage.started("short") == [at(10, minute) for minute in range(8)]


async def test_an_occurrence_during_a_failed_run_starts_right_after_it(stage: Stage) -> None:
    await stage.scheduler().initialize(
        [stage.task(cron="0,1 10 * * *", delay=HOUR, takes=seconds(90), fails=[ValueError("no")])]
    )
    await stage.clock.advance(3 * HOUR)
    assert stage.started() == [at(10), at(10, 1, 30)]
    assert "TaskRetryStarted" not in stage.names()


async def test_a_run_that_ends_within_its_minute_is_not_repeated_in_it(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize([stage.task()])
    for _ in range(10):
        await stage.clock.advance(seconds(5))
        scheduler._session.loop.wake()  # type: ignore[union-attr] # it runs
    assert stage.started() == [at(10)]


async def test_tasks_due_together_run_at_the_same_time(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    meeting = asyncio.Barrier(20)

    async def meet() -> None:
        await meeting.wait()
        stage.starts.append(("met", stage.clock.now()))

    await stage.scheduler(policy).initialize(
        [(f"task {number}", "1 10 * * *", meet, minutes(1)) for number in range(20)]
    )
    await stage.clock.advance(minutes(1))
    assert stage.starts == [("met", at(10, 1))] * 20


async def test_the_same_state_at_the_same_time_selects_the_same_tasks(
    policy: SchedulerPolicy,
) -> None:
    selections = []
    for _ in range(2):
        async with await open_store("memory://") as store:
            stage = Stage(store)
            await seed_tasks(
                store,
                [
                    {
                        "name": f"task {number}",
                        "cronExpression": f"{number} * * * *",
                        "retryDelayMs": 1000,
                        "lastAttemptAt": at(9, 30),
                        "lastSuccessAt": at(9, 30),
                    }
                    for number in range(60)
                ],
            )
            await stage.scheduler(policy).initialize(
                [stage.task(f"task {n}", f"{n} * * * *", seconds(1)) for n in range(60)]
            )
            await stage.clock.advance(seconds(1))
            selections.append(sorted(name for name, _ in stage.starts))
            await stage.close()
    assert selections[0] == selections[1]
    assert selections[0] == sorted(f"task {number}" for number in [0, *range(31, 60)])


async def test_the_attempt_is_stored_before_the_callback_runs(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    seen = []

    async def look() -> None:
        seen.append(await stage.record())

    await stage.scheduler(policy).initialize([("a", "* * * * *", look, minutes(1))])
    await stage.clock.advance(seconds(1))
    (record,) = seen
    assert record["lastAttemptAt"] == "2027-01-04T10:00:00Z"
    assert record["running"] is True
    after = await stage.record()
    assert after["running"] is False
    assert after["lastSuccessAt"] == "2027-01-04T10:00:00Z"
    assert "pendingRetryUntil" not in after
