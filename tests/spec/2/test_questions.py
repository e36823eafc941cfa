"""plan() and why(): what would happen, and why something does, did or does not."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.spec.stage import SpyStore, Stage, at, minutes, seconds

from rota import POLLING, SchedulerPolicy
from rota.errors import (
    RegistrationsNotArrayError,
    TaskMissingFieldError,
    TaskNotRegisteredError,
)
from rota.scheduler import Plan
from rota.scheduler.reconciliation import FieldChange
from rota.scheduler.storage import TASKS
from rota.stores.protocol import DocumentWrite
from rota.testing import seed_tasks

HOUR = timedelta(hours=1)


def stored(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "cronExpression": "0 9 * * *", "retryDelayMs": 60_000, **fields}


async def make_plan(stage: Stage, policy: SchedulerPolicy) -> Plan:
    """A plan in which everything occurs."""
    done = {"lastAttemptAt": at(9), "lastSuccessAt": at(9)}
    await seed_tasks(
        stage.store,
        [
            stored("kept", **done),
            stored("changed", **done),
            stored("removed", **done),
            stored("interrupted", lastAttemptAt=at(9), schedulerIdentifier="gone"),
        ],
    )
    await stage.store.write_all([DocumentWrite(TASKS, "broken", None, b"{}")])
    before = await stage.documents()
    plan = await stage.scheduler(policy).plan(
        [
            stage.task("kept", "0 9 * * *", minutes(1)),
            stage.task("changed", "0 12 * * *", minutes(2)),
            stage.task("interrupted", "0 9 * * *", minutes(1)),
            stage.task("new", "30 * * * *"),
            stage.task("broken", "30 * * * *"),
        ]
    )
    assert await stage.documents() == before
    return plan


async def test_a_plan_says_what_initialize_would_do_and_does_nothing(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    plan = await make_plan(stage, policy)
    assert stage.events == []
    assert await stage.set_aside() == []
    assert {task.name: task.standing for task in plan.tasks} == {
        "broken": "new",
        "changed": "changed",
        "interrupted": "kept",
        "kept": "kept",
        "new": "new",
        "removed": "removed",
    }
    assert plan.made_at == at(10)
    assert plan.has_changes
    assert plan.unreadable == ("broken",)
    assert [task.name for task in plan.interrupted] == ["interrupted"]
    assert [task.name for task in plan.new] == ["broken", "new"]
    assert [task.name for task in plan.kept] == ["interrupted", "kept"]


async def test_a_plan_shows_the_changes_and_the_next_occurrences_before_and_after(
    stage: Stage, policy: SchedulerPolicy
) -> None:
    plan = await make_plan(stage, policy)
    (changed,), (removed,) = plan.changed, plan.removed
    assert changed.changes == (
        FieldChange("cronExpression", "0 9 * * *", "0 12 * * *"),
        FieldChange("retryDelayMs", 60_000, 120_000),
    )
    day = timedelta(days=1)
    assert changed.occurrences_before == tuple(at(9) + number * day for number in range(1, 6))
    assert changed.occurrences_after == tuple(at(12) + number * day for number in range(5))
    assert removed.occurrences_before == changed.occurrences_before
    assert removed.occurrences_after == ()
    (new,) = [task for task in plan.new if task.name == "new"]
    assert new.occurrences_before == ()
    assert new.occurrences_after == tuple(at(10, 30) + number * HOUR for number in range(5))


async def test_a_plan_writes_nothing(stage: Stage) -> None:
    spy = SpyStore(stage.store, stage.clock)
    await stage.scheduler(store=spy).plan([stage.task()])
    assert spy.calls
    assert spy.write_count == 0


async def test_after_initialize_the_plan_is_empty(stage: Stage, policy: SchedulerPolicy) -> None:
    scheduler = stage.scheduler(policy)
    registrations = [stage.task("a"), stage.task("b", takes=HOUR)]
    assert [task.standing for task in (await scheduler.plan(registrations)).tasks] == ["new"] * 2
    await scheduler.initialize(registrations)
    await stage.clock.advance(seconds(1))
    plan = await scheduler.plan(registrations)
    assert not plan.has_changes
    assert plan.interrupted == []  # b runs, and its instance is alive


async def test_an_unreadable_record_that_would_be_set_aside_is_a_change(quick: Stage) -> None:
    await quick.store.write_all([DocumentWrite(TASKS, "broken", None, b"{}")])
    plan = await quick.scheduler().plan([])
    assert plan.tasks == ()
    assert plan.has_changes


async def test_a_plan_of_bad_registrations_is_refused(quick: Stage) -> None:
    with pytest.raises(RegistrationsNotArrayError):
        await quick.scheduler().plan(None)  # type: ignore[arg-type] # the point


async def test_the_unknown_and_the_unreadable_have_no_why(quick: Stage) -> None:
    scheduler = quick.scheduler()
    with pytest.raises(TaskNotRegisteredError) as caught:
        await scheduler.why("nobody")
    assert caught.value.details == {"taskName": "nobody"}
    await quick.store.write_all([DocumentWrite(TASKS, "broken", None, b'{"name":"broken"}')])
    with pytest.raises(TaskMissingFieldError):
        await scheduler.why("broken")


RAN = {"lastAttemptAt": at(9), "lastSuccessAt": at(9, 1), "registeredAt": at(8, 30)}


@pytest.mark.parametrize(
    ("fields", "when", "answer", "words"),
    [
        (RAN, at(9, 0, 30), "ran", "It started at Mon 2027-01-04 09:00:00 UTC"),
        (RAN, at(9, 30), "did not run", 'does not match "0 * * * *"'),
        (RAN, at(10), "due", "has not started since"),
        (RAN, at(8), "did not run", "the task was registered later"),
        (RAN, at(11), "will run", 'matches "0 * * * *" in UTC'),
        (RAN, at(11, 1), "will not run", "does not match"),
        ({**RAN, "registeredAt": at(1)}, at(8), "unknown", "does not reach further back"),
        (RAN, None, "due", "It is due now (occurrence)"),
        (
            {"lastAttemptAt": at(10), "lastSuccessAt": at(10)},
            None,
            "will run",
            "Its next occurrence is Mon 2027-01-04 11:00:00 UTC",
        ),
        (
            {"lastAttemptAt": at(10), "lastFailureAt": at(10), "pendingRetryUntil": at(10, 7)},
            at(10, 7, 30),
            "will run",
            "A retry is pending until Mon 2027-01-04 10:07:00 UTC",
        ),
        (
            {"lastAttemptAt": at(10), "lastFailureAt": at(10), "pendingRetryUntil": at(10, 7)},
            None,
            "will run",
            "it is tried again at Mon 2027-01-04 10:07:00 UTC",
        ),
        (
            {"lastAttemptAt": at(9), "schedulerIdentifier": "gone"},
            None,
            "due",
            "It is due now (interrupted)",
        ),
        ({"registeredAt": at(9, 30), "running": False}, at(10), "due", "has not started since"),
        ({"registeredAt": at(10, 0, 5), "running": False}, None, "due", "It has not run yet."),
    ],
)
async def test_why_gives_an_answer_and_its_reason(
    quick: Stage, fields: dict[str, Any], when: datetime | None, answer: str, words: str
) -> None:
    await seed_tasks(quick.store, [stored("a", cronExpression="0 * * * *", **fields)])
    await quick.clock.advance(seconds(10))
    explanation = await quick.scheduler().why("a", when)
    assert explanation.answer == answer
    assert words in str(explanation)
    assert explanation.at == when
    assert quick.events == []


async def test_why_of_a_task_that_runs(quick: Stage) -> None:
    scheduler = quick.scheduler()
    await scheduler.initialize([quick.task(takes=HOUR)])
    await quick.clock.advance(minutes(2.5))
    now = await scheduler.why("a")
    assert now.answer == "running"
    assert "running since Mon 2027-01-04 10:00:00 UTC" in str(now)
    missed = await scheduler.why("a", at(10, 1))
    assert missed.answer == "due"
    assert "it starts after that" in str(missed)
    assert now.next_at == at(10, 3)


@pytest.mark.parametrize(
    ("policy", "rule", "second"),
    [
        (SchedulerPolicy(), "both count", "will run"),
        (POLLING, "only the first counts", "will not run"),
    ],
)
async def test_why_knows_the_days_when_the_clocks_change(
    quick: Stage, policy: SchedulerPolicy, rule: str, second: str
) -> None:
    kyiv = ZoneInfo("Europe/Kyiv")
    await seed_tasks(
        quick.store,
        [stored("a", cronExpression="30 3 * * *", lastAttemptAt=at(9), lastSuccessAt=at(9))],
    )
    scheduler = quick.scheduler(policy, zone=kyiv)
    gap = await scheduler.why("a", datetime(2027, 3, 28, 3, 30))  # noqa: DTZ001 - wall time
    assert gap.answer == "will not run"
    assert "does not exist in Europe/Kyiv: the clocks go forward" in str(gap)
    assert "skipped that day" in str(gap)
    first = await scheduler.why("a", datetime(2027, 10, 31, 3, 30))  # noqa: DTZ001 - wall time
    assert first.answer == "will run"
    assert first.at == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert f"03:30 is shown twice, and {rule}" in str(first)
    again = await scheduler.why("a", datetime(2027, 10, 31, 1, 30, tzinfo=UTC))
    assert again.answer == second
