"""What a changed list of registrations does to what is stored, and that it does it whole."""

from datetime import timedelta
from typing import Any

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, seconds

from rota import DECLARATIVE, POLLING, SchedulerPolicy
from rota.errors import ScheduleTaskError, StoreUnavailableError, TaskListMismatchError
from rota.events import (
    SchedulerInitializationCompleted,
    TaskAdded,
    TaskOrphaned,
    TaskOverridden,
    TaskPreserved,
    TasksOverridden,
)
from rota.scheduler.storage import TASKS
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)
HISTORY = {
    "lastAttemptAt": "2027-01-04T09:00:00Z",
    "lastSuccessAt": "2027-01-04T09:00:30Z",
    "lastFailureAt": "2027-01-03T09:00:30Z",
}


def stored(name: str = "a", cron: str = "0 9 * * *", **fields: Any) -> dict[str, Any]:
    return {"name": name, "cronExpression": cron, "retryDelayMs": 300_000, **HISTORY, **fields}


async def test_an_unchanged_task_is_preserved(stage: Stage, policy: SchedulerPolicy) -> None:
    await seed_tasks(stage.store, [stored()])
    await stage.scheduler(policy).initialize([stage.task(cron="0 9 * * *")])
    await stage.clock.advance(HOUR)
    assert stage.starts == []
    assert HISTORY.items() <= (await stage.record()).items()
    assert [event.task_name for event in stage.emitted(TaskPreserved)] == ["a"]
    assert not stage.emitted(TaskAdded)
    assert not stage.emitted(TaskOverridden)
    assert not stage.emitted(TasksOverridden)


@pytest.mark.parametrize(
    ("cron", "delay", "fields"),
    [
        ("55 8 * * *", 300_000, ["cronExpression"]),
        ("0  9 * * *", 300_000, ["cronExpression"]),  # another text, whatever it means
        ("00 9 * * *", 300_000, ["cronExpression"]),
        ("0 9 * * *", 300_001, ["retryDelayMs"]),
        ("55 8 * * *", 0, ["cronExpression", "retryDelayMs"]),
    ],
)
async def test_any_difference_is_an_override_with_history_kept_or_reset_by_edition(
    stage: Stage, policy: SchedulerPolicy, cron: str, delay: int, fields: list[str]
) -> None:
    await seed_tasks(stage.store, [stored()])
    await stage.clock.advance(seconds(30))
    await stage.scheduler(policy).initialize(
        [stage.task(cron=cron, delay=timedelta(milliseconds=delay))]
    )
    record = await stage.record()
    assert (record["cronExpression"], record["retryDelayMs"]) == (cron, delay)
    if policy is DECLARATIVE:
        assert HISTORY.items() <= record.items()
    else:
        assert not HISTORY.keys() & record.keys()
    (found,) = stage.emitted(TaskOverridden)
    assert found.fields() == {
        "taskName": "a",
        "changeType": ",".join(fields),
        "oldState": {"cronExpression": "0 9 * * *", "retryDelayMs": 300_000},
        "newState": {"cronExpression": cron, "retryDelayMs": delay},
    }


async def test_a_missed_occurrence_of_the_new_expression_counts_where_history_is_kept(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(stage.store, [stored("missed"), stored("none"), stored("now")])
    await stage.scheduler(policy).initialize(
        [
            stage.task("missed", "30 9 * * *"),  # after its last start and before now
            stage.task("none", "30 8 * * *"),
            stage.task("now", "0 10 * * *"),
        ]
    )
    await stage.clock.advance(HOUR)
    started = {"missed", "now"} if policy is DECLARATIVE else {"now"}
    assert {name for name, _ in stage.starts} == started
    assert {instant for _, instant in stage.starts} == {at(10)}


async def test_a_removed_task_vanishes_and_is_new_when_it_comes_back(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    both = [stage.task("a", "0 10 * * *"), stage.task("b", "0 10 * * *")]
    await scheduler.initialize(both)
    await stage.clock.advance(seconds(10))
    await scheduler.stop()
    await scheduler.initialize(both[1:])
    assert list(await stage.documents()) == ["b"]
    await stage.clock.advance(seconds(10))
    await scheduler.stop()
    await scheduler.initialize(both)  # still 10:00: a new task that matches runs at once
    await stage.clock.advance(HOUR)
    assert stage.started("a") == [at(10), at(10, 0, 20)]
    assert stage.started("b") == [at(10)]


async def test_a_removed_task_is_reported_as_orphaned_by_the_polling_edition(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(stage.store, [stored(schedulerIdentifier="earlier")])
    await stage.scheduler(policy).initialize([])
    assert await stage.documents() == {}
    orphans = [event.fields() for event in stage.emitted(TaskOrphaned)]
    assert orphans == (
        [
            {
                "taskName": "a",
                "lastExecutionTime": "2027-01-04T09:00:00Z",
                "schedulerIdentifier": "earlier",
            }
        ]
        if policy is POLLING
        else []
    )


async def test_the_whole_override_is_one_event(stage: Stage) -> None:
    await seed_tasks(stage.store, [stored("kept"), stored("changed"), stored("gone")])
    await stage.scheduler().initialize(
        [
            stage.task("kept", "0 9 * * *"),
            stage.task("changed", "1 9 * * *", minutes(1)),
            stage.task("new", "2 9 * * *"),
        ]
    )
    (found,) = stage.emitted(TasksOverridden)
    assert found.fields() == {
        "removedTasks": ["gone"],
        "addedTasks": ["new"],
        "modifiedTasks": [
            {"name": "changed", "field": "cronExpression", "from": "0 9 * * *", "to": "1 9 * * *"},
            {"name": "changed", "field": "retryDelayMs", "from": 300_000, "to": 60_000},
        ],
        "totalChanges": 4,
    }
    assert stage.emitted(SchedulerInitializationCompleted)[0].scheduled_count == 3


async def test_every_record_names_its_configuration_and_the_instance(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    await seed_tasks(stage.store, [stored("old"), stored("legacy", schedulerIdentifier="x")])
    await stage.scheduler(policy).initialize(
        [stage.task(name, "0 9 * * *") for name in ("old", "legacy", "new")]
    )
    for name in ("old", "legacy", "new"):
        record = await stage.record(name)
        assert (record["name"], record["cronExpression"], record["retryDelayMs"]) == (
            *(name, "0 9 * * *"),
            300_000,
        )
        assert isinstance(record["schedulerIdentifier"], str)


async def test_each_life_has_an_identifier_of_its_own(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    seen = set()
    for _ in range(3):
        await scheduler.initialize([stage.task()])
        await stage.clock.advance(minutes(1))
        seen.add((await stage.record())["schedulerIdentifier"])
        await scheduler.stop()
    assert len(seen) == 3


class BreakingStore(SpyStore):
    """Fails in the middle of the n-th write of a transaction."""

    def __init__(self, store: DocumentStore, stage: Stage, after: int) -> None:
        super().__init__(store, stage.clock)
        self._after = after

    async def write_all(self, writes: Any) -> None:
        def breaking() -> Any:
            for number, write in enumerate(writes):
                if number == self._after:
                    raise StoreUnavailableError("the cable was pulled")
                yield write

        await super().write_all(breaking())


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_an_override_that_fails_half_way_leaves_every_byte_as_it_was(
    stage: Stage, policy: SchedulerPolicy, after: int
) -> None:
    await seed_tasks(stage.store, [stored("gone"), stored("changed"), stored("kept")])
    before = await stage.documents()
    scheduler = stage.scheduler(policy, store=BreakingStore(stage.store, stage, after))
    registrations = [
        stage.task("changed", "1 9 * * *"),
        stage.task("kept", "0 9 * * *"),
        stage.task("new", "0 9 * * *"),
    ]
    with pytest.raises(ScheduleTaskError, match="the cable was pulled"):
        await scheduler.initialize(registrations)
    assert await stage.documents() == before
    assert scheduler.state.value == "uninitialized"
    await stage.clock.advance(minutes(2))
    assert stage.starts == []
    await stage.scheduler(policy).initialize(registrations)
    assert sorted(await stage.documents()) == ["changed", "kept", "new"]


async def test_a_failed_removal_names_the_task_that_was_to_go(stage: Stage) -> None:
    await seed_tasks(stage.store, [stored("gone")])
    with pytest.raises(ScheduleTaskError) as caught:
        await stage.scheduler(store=BreakingStore(stage.store, stage, 0)).initialize([])
    assert caught.value.details["name"] == "gone"
    assert caught.value.details["cronExpression"] == "0 9 * * *"


async def test_an_identical_list_writes_nothing_again(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    registrations = [stage.task(f"t{number}", "0 12 * * *") for number in range(10)]
    scheduler = stage.scheduler(policy)
    await scheduler.initialize(registrations)
    before = await stage.documents()
    for _ in range(3):
        await scheduler.stop()
        await scheduler.initialize(registrations)
    assert await stage.documents() == before
    assert len(stage.emitted(TaskAdded)) == 10
    assert len(stage.emitted(TaskPreserved)) == 30


async def test_a_change_is_seen_after_any_number_of_identical_calls(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    scheduler = stage.scheduler(policy)
    for cron in ("0 12 * * *", "0 12 * * *", "0 13 * * *", "0 13 * * *"):
        await scheduler.initialize([stage.task(cron=cron)])
        await scheduler.stop()
    assert len(stage.emitted(TaskOverridden)) == 1


class RestlessStore(SpyStore):
    """Somebody else writes every task just before each of our writes."""

    async def write_all(self, writes: Any) -> None:
        async for page in self._store.scan(TASKS):
            others = [DocumentWrite(TASKS, it.key, it.version, it.body) for it in page]
            await self._store.write_each(others)
        await super().write_all(writes)


async def test_tasks_that_others_keep_changing_are_a_mismatch(stage: Stage) -> None:
    await seed_tasks(stage.store, [stored()])
    before = (await stage.documents())["a"].body
    scheduler = stage.scheduler(store=RestlessStore(stage.store, stage.clock))
    with pytest.raises(TaskListMismatchError) as caught:
        await scheduler.initialize([stage.task(cron="1 9 * * *")])
    assert caught.value.details == {"expected": ["a"], "actual": ["a"]}
    assert (await stage.documents())["a"].body == before
    assert scheduler.state.value == "uninitialized"
