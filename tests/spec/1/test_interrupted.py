"""Tasks whose instance died under them, and records that cannot be read."""

from datetime import timedelta
from typing import Any

import pytest
from tests.spec.stage import Stage, at, minutes, seconds

from rota import POLLING, SchedulerPolicy
from rota.events import TaskOrphaned, TaskRecordSetAside, TaskRunStarted
from rota.scheduler.storage import TASKS
from rota.stores.protocol import DocumentWrite
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)


def running(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "cronExpression": "0 9 * * *",
        "retryDelayMs": 300_000,
        "lastAttemptAt": at(9),
        "schedulerIdentifier": "an instance that is gone",
        **fields,
    }


async def test_an_interrupted_task_starts_in_the_first_poll_and_is_reported(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(stage.store, [running()])
    await stage.scheduler(policy).initialize([stage.task(cron="0 9 * * *")])
    names = stage.names()
    assert "TaskRunStarted" not in names[: names.index("SchedulerInitializationCompleted")]
    await stage.clock.advance(timedelta(0))
    assert stage.started() == [at(10)]
    assert [event.fields() for event in stage.emitted(TaskOrphaned)] == [
        {
            "taskName": "a",
            "lastExecutionTime": "2027-01-04T09:00:00Z",
            "schedulerIdentifier": "an instance that is gone",
        }
    ]
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10)]
    assert (await stage.record())["running"] is False


async def test_interrupted_tasks_start_together_also_when_their_configuration_changed(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(stage.store, [running(name) for name in "abc"])
    await stage.scheduler(policy).initialize(
        [
            stage.task("a", "0 9 * * *"),
            stage.task("b", "0 12 * * *"),
            stage.task("c", "0 9 * * *", seconds(7)),
        ]
    )
    await stage.clock.advance(HOUR)
    assert sorted(stage.starts) == [("a", at(10)), ("b", at(10)), ("c", at(10))]


@pytest.mark.parametrize(
    "fields",
    [
        {"lastSuccessAt": at(9)},
        {"lastSuccessAt": at(9, 5)},
        {"lastFailureAt": at(9, 5)},
        {"lastSuccessAt": at(8), "lastFailureAt": at(9, 0, 1)},
        {"lastFailureAt": at(9, 5), "pendingRetryUntil": at(12)},
    ],
)
async def test_a_finished_run_of_another_instance_is_not_an_orphan(
    stage: Stage, fields: dict[str, Any]
) -> None:
    await seed_tasks(stage.store, [running(**fields)])
    await stage.scheduler().initialize([stage.task(cron="0 9 * * *")])
    await stage.clock.advance(HOUR)
    assert stage.starts == []
    assert not stage.emitted(TaskOrphaned)


async def test_a_running_mark_without_an_identifier_never_leaves_a_task_stuck(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    record = running()
    del record["schedulerIdentifier"]
    await seed_tasks(stage.store, [record])
    await stage.scheduler(policy).initialize([stage.task(cron="0 9 * * *")])
    await stage.clock.advance(timedelta(hours=24))
    assert stage.started() == [at(10), at(9) + timedelta(days=1)]
    (orphan,) = stage.emitted(TaskOrphaned)
    assert orphan.fields()["schedulerIdentifier"] is None


async def test_a_crash_during_a_run_is_followed_by_a_restart_of_the_task(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    registrations = [stage.task("a", "0 10 * * *", takes=HOUR), stage.task("b", "0 10 * * *")]
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(5))
    await stage.crash(scheduler)
    assert (await stage.record("a"))["running"] is True
    await stage.clock.advance(minutes(5))
    await stage.scheduler(policy).initialize(registrations)
    await stage.clock.advance(minutes(1))
    assert stage.started("a") == [at(10), at(10, 10)]
    assert stage.started("b") == [at(10)]
    assert [event.scheduled_time for event in stage.emitted(TaskRunStarted)][-1] == at(10)


async def test_an_interrupted_run_is_restarted_once_even_when_that_run_crashes_too(
    stage: Stage,
) -> None:
    registrations = [stage.task(cron="0 10 * * *", takes=HOUR)]
    for _ in range(3):
        scheduler = stage.scheduler()
        await scheduler.initialize(registrations)
        await stage.clock.advance(minutes(1))
        await stage.crash(scheduler)
    await stage.scheduler().initialize(registrations)
    await stage.clock.advance(2 * HOUR)
    assert stage.started() == [at(10), at(10, 1), at(10, 2), at(10, 3)]
    assert stage.ended() == [at(11, 3)]


async def test_a_broken_record_is_set_aside_with_its_bytes_and_the_others_are_unaffected(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    broken = {
        "no json": b"\xff not json",
        "an array": b"[]",
        "a negative delay": b'{"name":"a negative delay","cronExpression":"0 9 * * *",'
        b'"retryDelayMs":-1}',
        "an explicit null": b'{"name":"an explicit null","cronExpression":"0 9 * * *",'
        b'"retryDelayMs":1,"lastAttemptAt":null}',
        "no longer registered": b"{}",
        "under another name": b'{"name":"good","cronExpression":"0 9 * * *","retryDelayMs":1}',
        "out of the calendar": b'{"name":"out of the calendar","cronExpression":"0 9 * * *",'
        b'"retryDelayMs":1,"lastAttemptTime":"0001-01-01T00:00:00+14:00"}',
    }
    await seed_tasks(stage.store, [running("good", lastSuccessAt=at(9))])
    await stage.store.write_all(
        [DocumentWrite(TASKS, name, None, body) for name, body in broken.items()]
    )
    names = [name for name in broken if name != "no longer registered"]
    await stage.scheduler(policy).initialize(
        [stage.task(name, "0 10,11 * * *") for name in names] + [stage.task("good", "0 9 * * *")]
    )
    assert sorted(await stage.set_aside()) == sorted(broken.values())
    found = {event.task_name: event for event in stage.emitted(TaskRecordSetAside)}
    assert found.keys() == broken.keys()
    assert found["a negative delay"].error == (
        "Invalid value for field 'retryDelayMs': must be a non-negative number"
    )
    kept = await stage.documents("scheduler.set_aside")
    assert {event.kept_as for event in found.values()} == kept.keys()
    assert sorted(await stage.documents()) == sorted([*names, "good"])
    await stage.clock.advance(minutes(61))
    for name in names:  # as new: this minute matches
        assert stage.started(name) == [at(10), at(11)]
    assert stage.started("good") == []


async def test_a_record_that_lacks_its_configuration_is_completed_and_keeps_its_history(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(
        stage.store,
        [
            {"name": "a", "lastAttemptAt": at(9), "lastSuccessAt": at(9)},
            {"name": "b", "cronExpression": "0 9 * * *", "lastAttemptAt": at(9, 30)},
            {"name": "c", "retryDelayMs": 60_000, "lastAttemptAt": at(8), "lastSuccessAt": at(8)},
        ],
    )
    await stage.scheduler(policy).initialize(
        [stage.task(name, "0 9 * * *", minutes(1)) for name in "abc"]
    )
    for name in "abc":
        record = await stage.record(name)
        assert (record["cronExpression"], record["retryDelayMs"]) == ("0 9 * * *", 60_000)
    await stage.clock.advance(minutes(1))
    assert sorted(stage.starts) == [("b", at(10)), ("c", at(10))]  # interrupted, missed
    assert await stage.set_aside() == []


async def test_the_names_of_an_earlier_program_are_read(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(
        stage.store,
        [
            {
                "name": "a",
                "cronExpression": "0 9 * * *",
                "retryDelayMs": 60_000,
                "lastAttemptTime": "2027-01-04T11:00:00.000+02:00",
                "lastSuccessTime": "2027-01-03T09:00:00.000Z",
                "lastFailureTime": "2027-01-04T09:00:02.500Z",
                "pendingRetryUntil": "2027-01-04T10:07:02.500Z",
            }
        ],
    )
    await stage.scheduler(policy).initialize([stage.task(cron="0 9 * * *", delay=minutes(1))])
    record = await stage.record()
    assert record["lastAttemptAt"] == "2027-01-04T09:00:00Z"
    assert record["lastSuccessAt"] == "2027-01-03T09:00:00Z"
    assert record["lastFailureAt"] == "2027-01-04T09:00:02.500000Z"
    await stage.clock.advance(HOUR)
    assert stage.started() == [at(10, 7, 2.5)]


@pytest.mark.parametrize("name", ["a", "null", 'x":null'])
async def test_records_are_read_back_whole_under_any_name(stage: Stage, name: str) -> None:
    scheduler = stage.scheduler()
    registrations = [stage.task(name, "0 10 * * *", minutes(1), fails=[ValueError()] * 3)]
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(1.5))
    await scheduler.stop()
    before = await stage.record(name)
    assert before["retryCount"] == 2
    await scheduler.initialize(registrations)
    assert await stage.record(name) == before


async def test_a_reset_task_forgets_its_run_but_an_interrupted_one_still_restarts(
    stage: Stage,
) -> None:
    await seed_tasks(stage.store, [running("a"), running("b", lastSuccessAt=at(9))])
    await stage.scheduler(POLLING).initialize(
        [stage.task("a", "1 9 * * *"), stage.task("b", "1 9 * * *")]
    )
    await stage.clock.advance(HOUR)
    assert stage.starts == [("a", at(10))]
    assert "lastSuccessAt" not in await stage.record("b")
