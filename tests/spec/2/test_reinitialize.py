"""initialize() on a running scheduler: the older edition brings the tasks in line anew."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, polling_state_of, seconds, state_of

from rota import POLLING
from rota.errors import (
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
    SchedulerAlreadyActiveError,
    SchedulerInitializationError,
    ScheduleTaskError,
    StoreUnavailableError,
)
from rota.events import (
    SchedulerInitializationCompleted,
    SchedulerReinitializationStarted,
    TaskOverridden,
    TaskPreserved,
    TaskSkipped,
)
from rota.scheduler import PollingState, SchedulerState
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)


async def test_an_identical_list_changes_nothing(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    registrations = [stage.task(takes=seconds(90))]
    await scheduler.initialize(registrations)
    await stage.clock.advance(seconds(10))
    before = await stage.documents()
    for _ in range(3):
        again = scheduler.initialize(registrations)
        assert state_of(scheduler) is SchedulerState.REINITIALIZING
        await again
        assert state_of(scheduler) is SchedulerState.RUNNING
    assert await stage.documents() == before
    assert len(stage.emitted(SchedulerReinitializationStarted)) == 3
    assert len(stage.emitted(TaskPreserved)) == 3
    await stage.clock.advance_to(at(10, 4))
    assert stage.started() == [at(10), at(10, 1, 30), at(10, 3)]


async def test_a_changed_list_is_followed_without_a_stop(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    await scheduler.initialize([stage.task("kept"), stage.task("changed"), stage.task("removed")])
    await stage.clock.advance(seconds(90))
    stage.starts.clear()
    await scheduler.initialize(
        [stage.task("kept"), stage.task("changed", "3 * * * *"), stage.task("added")]
    )
    await stage.clock.advance_to(at(10, 3, 30))
    assert stage.started("kept") == [at(10, 2), at(10, 3)]
    assert stage.started("changed") == [at(10, 3)]
    assert stage.started("removed") == []
    assert stage.started("added") == [at(10, 1, 30), at(10, 2), at(10, 3)]
    assert sorted(await stage.documents()) == ["added", "changed", "kept"]
    assert [event.task_name for event in stage.emitted(TaskOverridden)] == ["changed"]


async def test_a_running_task_goes_on_and_is_not_started_again(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    await scheduler.initialize([stage.task(takes=minutes(5))])
    await stage.clock.advance(seconds(10))
    await scheduler.initialize([stage.task(cron="* * * * *", delay=minutes(1), takes=minutes(5))])
    await stage.clock.advance(minutes(4))
    assert stage.started() == [at(10)]
    await stage.clock.advance(minutes(2))
    assert stage.started() == [at(10), at(10, 5)]
    assert (await stage.record())["retryDelayMs"] == 60_000


async def test_a_task_removed_and_added_again_during_its_run_does_not_overlap_itself(
    stage: Stage,
) -> None:
    scheduler = stage.scheduler(POLLING)
    long = stage.task("long", takes=minutes(5))
    await scheduler.initialize([long])
    await stage.clock.advance(seconds(10))
    await scheduler.initialize([])
    await stage.clock.advance(seconds(10))
    await scheduler.initialize([long])
    await stage.clock.advance(minutes(4))
    assert stage.started("long") == [at(10)]
    await stage.clock.advance(minutes(7))
    assert stage.started("long") == [at(10), at(10, 5), at(10, 10)]
    assert (await stage.record("long"))["lastSuccessAt"] == "2027-01-04T10:10:00Z"


async def test_a_run_whose_task_was_removed_ends_and_leaves_nothing(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    await scheduler.initialize([stage.task(takes=minutes(5), fails=[ValueError()])])
    await stage.clock.advance(seconds(10))
    await scheduler.initialize([])
    assert polling_state_of(scheduler) is PollingState.INACTIVE
    await stage.clock.advance(HOUR)
    assert stage.ended() == [at(10, 5)]
    assert stage.started() == [at(10)]
    assert await stage.documents() == {}


async def test_a_bad_list_is_refused_and_everything_goes_on(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    await scheduler.initialize([stage.task()])
    await stage.clock.advance(seconds(10))
    before = await stage.documents()
    with pytest.raises(RegistrationsNotArrayError):
        scheduler.initialize(None)  # type: ignore[arg-type] # the point
    with pytest.raises(ScheduleDuplicateTaskError):
        scheduler.initialize([stage.task(), stage.task()])
    assert state_of(scheduler) is SchedulerState.RUNNING
    assert await stage.documents() == before
    await stage.clock.advance(minutes(1))
    assert stage.started() == [at(10), at(10, 1)]


@pytest.mark.parametrize("verb", ["write_all", "scan scheduler.tasks"])
async def test_a_store_that_fails_stops_the_scheduler(stage: Stage, verb: str) -> None:
    spy = SpyStore(stage.store, stage.clock)
    scheduler = stage.scheduler(POLLING, store=spy)
    await scheduler.initialize([stage.task(takes=seconds(30))])
    await stage.clock.advance(seconds(10))
    before = sorted(await stage.documents())
    spy.errors[verb] = StoreUnavailableError("gone")
    with pytest.raises((ScheduleTaskError, SchedulerInitializationError)):
        await scheduler.initialize([stage.task("b")])
    await stage.clock.advance(seconds(1))
    assert state_of(scheduler) is SchedulerState.STOPPING
    await stage.clock.advance(minutes(5))
    assert state_of(scheduler) is SchedulerState.STOPPED
    assert stage.starts == [("a", at(10))]
    assert stage.ended() == [at(10, 0, 30)]
    assert sorted(await stage.documents()) == before
    names = stage.names("Poll", "Task")
    assert names[-3:] == [
        "SchedulerInitializationFailed",
        "SchedulerStopRequested",
        "SchedulerStopped",
    ]
    spy.errors.clear()
    await scheduler.initialize([stage.task("b")])
    assert state_of(scheduler) is SchedulerState.RUNNING


async def test_a_store_that_stays_unavailable_is_logged_without_a_waiter_for_the_stop(
    quick: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    spy = SpyStore(quick.store, quick.clock)
    scheduler = quick.scheduler(POLLING, store=spy)
    await scheduler.initialize([quick.task(takes=seconds(30))])
    await quick.clock.advance(seconds(10))
    spy.errors["write_all"] = spy.errors["write_each"] = StoreUnavailableError("gone")
    with pytest.raises(ScheduleTaskError):
        await scheduler.initialize([quick.task("b")])
    await quick.clock.advance(minutes(1))
    assert state_of(scheduler) is SchedulerState.STOPPED
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["StopSchedulerError: Failed to stop scheduler: gone"]


async def test_a_task_that_was_interrupted_elsewhere_is_restarted(stage: Stage) -> None:
    scheduler = stage.scheduler(POLLING)
    registrations = [stage.task(cron="0 12 * * *")]
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(1))
    await seed_tasks(
        stage.store,
        [
            {"name": "a", "cronExpression": "0 12 * * *", "retryDelayMs": 300_000}
            | {"lastAttemptAt": at(10), "schedulerIdentifier": "came and went"}
        ],
    )
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(1))
    assert stage.started() == [at(10, 1)]


async def test_a_call_during_another_is_refused(stage: Stage) -> None:
    spy = SpyStore(stage.store, stage.clock)
    scheduler = stage.scheduler(POLLING, store=spy)
    await scheduler.initialize([stage.task()])
    spy.delays["scan scheduler.tasks"] = seconds(5)
    again = scheduler.initialize([stage.task(), stage.task("b")])
    with pytest.raises(SchedulerAlreadyActiveError, match="already initializing"):
        scheduler.initialize([stage.task("c")])
    await stage.clock.run(again)
    assert sorted(await stage.documents()) == ["a", "b"]


async def test_stop_waits_for_a_repeated_initialize(stage: Stage) -> None:
    spy = SpyStore(stage.store, stage.clock)
    scheduler = stage.scheduler(POLLING, store=spy)
    await scheduler.initialize([stage.task(cron="0 12 * * *")])
    spy.delays["write_all"] = seconds(5)
    again = scheduler.initialize([stage.task("b")])
    await stage.clock.run(asyncio.gather(again, scheduler.stop()))
    await stage.clock.advance(minutes(5))
    assert state_of(scheduler) is SchedulerState.STOPPED
    completed = stage.emitted(SchedulerInitializationCompleted)[-1]
    assert (completed.scheduled_count, completed.skipped_count) == (0, 1)
    assert [event.task_name for event in stage.emitted(TaskSkipped)] == ["b"]
    assert stage.starts == []
    assert list(await stage.documents()) == ["b"]


async def test_a_pending_retry_survives_an_unchanged_list_and_not_a_changed_task(
    stage: Stage,
) -> None:
    scheduler = stage.scheduler(POLLING)
    tasks = [
        stage.task("kept", "0 10 * * *", minutes(5), fails=[ValueError()]),
        stage.task("changed", "0 10 * * *", minutes(5), fails=[ValueError()]),
    ]
    await scheduler.initialize(tasks)
    await stage.clock.advance(minutes(1))
    await scheduler.initialize([tasks[0], stage.task("changed", "0 10 * * *", minutes(6))])
    await stage.clock.advance(HOUR)
    assert stage.started("kept") == [at(10), at(10, 5)]
    assert stage.started("changed") == [at(10)]
