"""The scheduler's and the polling's states, and calls that come at awkward moments."""

import asyncio
from datetime import timedelta

import pytest
from tests.spec.stage import (
    SpyStore,
    Stage,
    at,
    minutes,
    polling_state_of,
    seconds,
    state_of,
)

from rota import POLLING, SchedulerPolicy
from rota.errors import (
    SchedulerAlreadyActiveError,
    SchedulerInitializationError,
    ScheduleTaskError,
    StoreUnavailableError,
)
from rota.events import (
    Event,
    SchedulerInitializationCompleted,
    SchedulerInitializationFailed,
    SchedulerInitializationStarted,
    TaskSkipped,
)
from rota.scheduler import PollingState, SchedulerState

QUIET = ("Poll", "Task")


def slow(stage: Stage, verb: str, delay: timedelta = timedelta(seconds=10)) -> SpyStore:
    spy = SpyStore(stage.store, stage.clock)
    spy.delays[verb] = delay
    return spy


async def test_one_life_passes_through_all_states(stage: Stage, policy: SchedulerPolicy) -> None:
    scheduler = stage.scheduler(policy, store=slow(stage, "write_all"))
    seen = [scheduler.state]
    starting = scheduler.initialize([stage.task(takes=seconds(30))])
    seen.append(scheduler.state)
    await stage.clock.run(starting)
    seen.append(scheduler.state)
    await stage.clock.advance(seconds(1))
    stopping = asyncio.create_task(scheduler.stop())
    await stage.clock.advance(seconds(1))
    seen.append(scheduler.state)
    await stage.clock.run(stopping)
    seen.append(scheduler.state)
    assert [state.value for state in seen] == [
        *("uninitialized", "initializing", "running", "stopping", "stopped")
    ]
    assert stage.names(*QUIET) == [
        "SchedulerInitializationStarted",
        "SchedulerInitializationCompleted",
        "SchedulerStopRequested",
        "SchedulerStopped",
    ]
    assert stage.emitted(SchedulerInitializationStarted)[0].fields() == {"totalRegistrations": 1}
    assert stage.emitted(SchedulerInitializationCompleted)[0].fields() == {
        "totalRegistrations": 1,
        "scheduledCount": 1,
        "skippedCount": 0,
    }


async def test_polling_is_active_from_the_first_task_to_the_last_run(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    assert polling_state_of(scheduler) is PollingState.INACTIVE
    await scheduler.initialize([stage.task(takes=seconds(30))])
    assert polling_state_of(scheduler) is PollingState.ACTIVE
    await stage.clock.advance(seconds(1))
    stopping = asyncio.create_task(scheduler.stop())
    await stage.clock.advance(seconds(1))
    assert polling_state_of(scheduler) is PollingState.STOPPING
    await stage.clock.run(stopping)
    assert polling_state_of(scheduler) is PollingState.INACTIVE
    assert [name for name in stage.names() if name.startswith("Polling")] == [
        *("PollingStarted", "PollingStopRequested", "PollingStopped")
    ]
    assert stage.names()[-2:] == ["PollingStopped", "SchedulerStopped"]


async def test_without_tasks_nothing_is_polled(stage: Stage, policy: SchedulerPolicy) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize([])
    assert state_of(scheduler) is SchedulerState.RUNNING
    assert polling_state_of(scheduler) is PollingState.INACTIVE
    await stage.clock.advance(minutes(2))
    await scheduler.stop()
    assert not [name for name in stage.names() if name.startswith("Poll")]


async def test_a_failed_write_leaves_it_uninitialized_and_it_can_be_tried_again(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    spy.errors["write_all"] = StoreUnavailableError("disk full")
    scheduler = stage.scheduler(policy, store=spy)
    with pytest.raises(ScheduleTaskError):
        await scheduler.initialize([stage.task()])
    assert state_of(scheduler) is SchedulerState.UNINITIALIZED
    assert isinstance(stage.events[-1], SchedulerInitializationFailed)
    assert stage.events[-1].error.startswith("ScheduleTaskError: Failed to schedule task 'a'")
    await stage.clock.advance(minutes(3))
    assert stage.starts == []
    spy.errors.clear()
    await scheduler.initialize([stage.task()])
    await stage.clock.advance(seconds(1))
    assert stage.started() == [at(10, 3)]


@pytest.mark.parametrize("cause", [StoreUnavailableError("gone"), RuntimeError("a bug")])
async def test_a_failed_read_is_wrapped_and_leaves_it_uninitialized(
    stage: Stage, cause: Exception, policy: SchedulerPolicy
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    spy.errors["scan scheduler.tasks"] = cause
    scheduler = stage.scheduler(policy, store=spy)
    with pytest.raises(SchedulerInitializationError) as caught:
        await scheduler.initialize([stage.task()])
    assert caught.value.details == {"cause": cause}
    assert caught.value.message == f"Failed to initialize scheduler: {cause}"
    assert caught.value.__cause__ is cause
    assert state_of(scheduler) is SchedulerState.UNINITIALIZED


async def test_a_second_call_while_initializing_is_refused_without_an_event(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy, store=slow(stage, "write_all"))
    starting = scheduler.initialize([stage.task()])
    before = list(stage.events)
    for registrations in ([stage.task()], [stage.task("b")], None):
        with pytest.raises(SchedulerAlreadyActiveError) as caught:
            scheduler.initialize(registrations)  # type: ignore[arg-type] # invalid on purpose
        assert caught.value.message == (
            "Cannot initialize scheduler: scheduler is already initializing"
        )
        assert caught.value.details == {"currentState": "initializing"}
    assert stage.events == before
    await stage.clock.run(starting)
    assert list(await stage.documents()) == ["a"]


async def test_a_second_call_while_running_is_refused_and_changes_nothing(stage: Stage) -> None:
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task(takes=seconds(30))])
    await stage.clock.advance(seconds(1))
    before, stored = list(stage.events), await stage.documents()
    for registrations in ([stage.task()], [stage.task("b")], None):
        with pytest.raises(SchedulerAlreadyActiveError) as caught:
            scheduler.initialize(registrations)  # type: ignore[arg-type] # invalid on purpose
        assert caught.value.message == "Cannot initialize scheduler: scheduler is already running"
        assert caught.value.details == {"currentState": "running"}
    assert stage.events == before
    assert await stage.documents() == stored
    await stage.clock.advance(minutes(2))
    assert stage.started() == [at(10, 0), at(10, 1), at(10, 2)]


async def test_of_three_simultaneous_calls_the_first_wins(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)

    async def call(name: str) -> None:
        await scheduler.initialize([stage.task(name)])

    outcomes = await asyncio.gather(*map(call, "abc"), return_exceptions=True)
    assert outcomes[0] is None
    assert [type(error) for error in outcomes[1:]] == [SchedulerAlreadyActiveError] * 2
    await stage.clock.advance(seconds(1))
    assert [name for name, _ in stage.starts] == ["a"]


async def test_a_call_while_stopping_is_refused_as_running(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.initialize([stage.task(takes=seconds(30))])
    await stage.clock.advance(seconds(1))
    stopping = asyncio.create_task(scheduler.stop())
    await stage.clock.advance(seconds(1))
    with pytest.raises(SchedulerAlreadyActiveError, match="already running"):
        scheduler.initialize([stage.task()])
    await stage.clock.run(stopping)
    assert state_of(scheduler) is SchedulerState.STOPPED


async def test_five_rapid_lives_work_and_nothing_runs_twice(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    for _ in range(5):
        await scheduler.initialize([stage.task()])
        await stage.clock.advance(seconds(1))
        await scheduler.stop()
        assert state_of(scheduler) is SchedulerState.STOPPED
    assert stage.started() == [at(10, 0)]


async def test_a_stopped_scheduler_accepts_another_set(stage: Stage) -> None:
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task("a")])
    await scheduler.stop()
    await scheduler.initialize([stage.task("b")])
    await stage.clock.advance(minutes(1))
    assert stage.started("b")
    assert list(await stage.documents()) == ["b"]


async def test_stopping_what_does_not_run_is_fine(stage: Stage, policy: SchedulerPolicy) -> None:
    scheduler = stage.scheduler(policy)
    await scheduler.stop()
    assert state_of(scheduler) is SchedulerState.UNINITIALIZED
    await scheduler.initialize([stage.task()])
    for _ in range(3):
        await scheduler.stop()
    assert stage.names(*QUIET).count("SchedulerStopped") == 1


async def test_stop_during_initialize_waits_for_it_and_nothing_starts(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy, store=slow(stage, "write_all"))
    order: list[str] = []

    async def start() -> None:
        await scheduler.initialize([stage.task("a"), stage.task("b", "0 12 * * *")])
        order.append("initialized")

    async def stop() -> None:
        await scheduler.stop()
        order.append("stopped")

    both = asyncio.gather(start(), stop())
    await stage.clock.advance(seconds(5))
    assert order == []
    await stage.clock.run(both)
    await stage.clock.advance(minutes(3))
    assert order == ["initialized", "stopped"]
    assert stage.starts == []
    assert state_of(scheduler) is SchedulerState.STOPPED
    assert sorted(await stage.documents()) == ["a", "b"]
    assert not [name for name in stage.names() if name.startswith("Poll")]
    assert stage.emitted(SchedulerInitializationCompleted)[0].fields() == {
        "totalRegistrations": 2,
        "scheduledCount": 0,
        "skippedCount": 2,
    }
    assert "TaskScheduled" not in stage.names()
    assert [event.fields() for event in stage.emitted(TaskSkipped)] == [
        {"taskName": name, "reason": "the scheduler is stopping"} for name in "ab"
    ]


async def test_stop_does_not_repeat_the_error_of_a_failing_initialize(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    spy = slow(stage, "write_all")
    spy.errors["write_all"] = StoreUnavailableError("gone")
    scheduler = stage.scheduler(policy, store=spy)
    starting = scheduler.initialize([stage.task()])
    both = asyncio.gather(starting, scheduler.stop(), return_exceptions=True)
    outcomes = await stage.clock.run(both)
    assert isinstance(outcomes[0], ScheduleTaskError)
    assert outcomes[1] is None
    assert state_of(scheduler) is SchedulerState.STOPPED
    spy.errors.clear()
    await stage.clock.run(scheduler.initialize([stage.task()]))
    assert state_of(scheduler) is SchedulerState.RUNNING


async def test_an_initialize_that_is_cancelled_can_be_repeated(stage: Stage) -> None:
    spy = slow(stage, "scan scheduler.tasks")
    scheduler = stage.scheduler(store=spy)
    starting = asyncio.ensure_future(scheduler.initialize([stage.task()]))
    await stage.clock.advance(seconds(1))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert state_of(scheduler) is SchedulerState.UNINITIALIZED
    spy.delays.clear()
    await scheduler.initialize([stage.task()])
    await stage.clock.advance(seconds(1))
    assert stage.started() == [at(10, 0, 1)]


@pytest.mark.parametrize("cause", [StoreUnavailableError("disk full"), OSError("disk full")])
async def test_a_failed_write_is_reported_with_task_and_cause(
    stage: Stage, policy: SchedulerPolicy, cause: Exception
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    spy.errors["write_all"] = cause
    with pytest.raises(ScheduleTaskError) as caught:
        await stage.scheduler(policy, store=spy).initialize([stage.task("a", "5 * * * *")])
    assert caught.value.message == "Failed to schedule task 'a': disk full"
    assert caught.value.details == {"name": "a", "cronExpression": "5 * * * *", "cause": cause}
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("cause", [StoreUnavailableError("gone"), RuntimeError("gone")])
async def test_a_stop_that_cannot_write_the_last_results_says_so_and_has_stopped(
    stage: Stage, cause: Exception, policy: SchedulerPolicy
) -> None:
    spy = SpyStore(stage.store, stage.clock)
    scheduler = stage.scheduler(policy, store=spy)
    await scheduler.initialize([stage.task(takes=seconds(30))])
    await stage.clock.advance(seconds(1))
    spy.errors["write_each"] = cause
    with pytest.raises(Exception, match="Failed to stop scheduler: gone") as caught:
        await stage.clock.run(scheduler.stop())
    assert type(caught.value).__name__ == "StopSchedulerError"
    assert getattr(caught.value, "details") == {"cause": cause}  # noqa: B009 - any error was caught
    assert state_of(scheduler) is SchedulerState.STOPPED
    assert stage.names()[-2:] == ["PollingStopped", "SchedulerStopped"]


async def test_polling_follows_the_tasks_of_a_repeated_initialize(quick: Stage) -> None:
    scheduler = quick.scheduler(POLLING)
    found: list[str] = []

    def note(event: Event) -> None:
        if event.name.startswith("Polling"):
            found.append(f"{event.name} {scheduler.polling_state.value}")

    scheduler.events.subscribe(note)
    await scheduler.initialize([])
    await scheduler.initialize([quick.task()])
    await scheduler.initialize([quick.task()])
    await scheduler.initialize([])
    await scheduler.stop()
    assert found == ["PollingStarted active", "PollingStopped inactive"]


async def test_while_a_stop_waits_for_an_initialize_that_fails_no_other_is_accepted(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    spy = slow(stage, "write_all")
    spy.errors["write_all"] = StoreUnavailableError("gone")
    scheduler = stage.scheduler(policy, store=spy)
    refusals: list[str] = []

    async def try_again_at_once() -> None:
        with pytest.raises(ScheduleTaskError):
            await scheduler.initialize([stage.task()])
        with pytest.raises(SchedulerAlreadyActiveError) as refusal:
            scheduler.initialize([stage.task()])
        refusals.append(refusal.value.current_state)

    trying = asyncio.create_task(try_again_at_once())
    await stage.clock.advance(seconds(1))
    stopping = asyncio.create_task(scheduler.stop())
    await stage.clock.advance(seconds(20))
    await asyncio.gather(trying, stopping)
    assert refusals == ["running"]
    assert state_of(scheduler) is SchedulerState.STOPPED

    spy.errors.clear()
    await stage.clock.run(scheduler.initialize([stage.task()]))
    await stage.clock.advance(minutes(1))
    await scheduler.stop()
    assert stage.starts
