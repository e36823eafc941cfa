from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota import DECLARATIVE, POLLING, SchedulerPolicy, parse_cron
from rota.scheduler.reconciliation import (
    FieldChange,
    Moment,
    Reconciled,
    Standing,
    list_changes,
    reconcile_task,
)
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.task import TaskState

NOON = datetime(2027, 1, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MOMENT = Moment(NOON, "me", frozenset({"me", "peer"}))


async def nothing() -> None:
    """A callback."""


def accepted(cron: str = "0 9 * * *", delay: int = 1000) -> AcceptedTask:
    return AcceptedTask("a", parse_cron(cron), nothing, delay)


def stored(**fields: Any) -> TaskState:
    defaults = {"name": "a", "cron_expression": "0 9 * * *", "retry_delay_ms": 1000}
    return TaskState(**{**defaults, "running": False, "last_attempt_at": NOON - HOUR, **fields})


Decide = Callable[..., Reconciled]


@pytest.fixture(params=[DECLARATIVE, POLLING], ids=["declarative", "polling"])
def policy(request: pytest.FixtureRequest) -> SchedulerPolicy:
    chosen = request.param
    assert isinstance(chosen, SchedulerPolicy)
    return chosen


def test_an_unknown_task_is_new_and_registered_now(policy: SchedulerPolicy) -> None:
    decided = reconcile_task(accepted(), None, policy, MOMENT)
    assert decided.standing is Standing.NEW
    assert decided.state.registered_at == NOON
    assert decided.state.scheduler_identifier == "me"
    assert not decided.is_interrupted


def test_an_unchanged_task_keeps_everything(policy: SchedulerPolicy) -> None:
    state = stored(scheduler_identifier="x", pending_retry_until=NOON, last_failure_at=NOON)
    decided = reconcile_task(accepted(), state, policy, MOMENT)
    assert decided == Reconciled(Standing.KEPT, state, (), is_interrupted=False)


def test_a_changed_task_keeps_its_history_or_not(policy: SchedulerPolicy) -> None:
    decided = reconcile_task(accepted("5 9 * * *"), stored(), policy, MOMENT)
    assert decided.standing is Standing.CHANGED
    assert decided.changes == (FieldChange("cronExpression", "0 9 * * *", "5 9 * * *"),)
    kept = None if policy is POLLING else NOON - HOUR
    assert decided.state.last_attempt_at == kept


@pytest.mark.parametrize(
    ("runner", "interrupted"), [("me", False), ("peer", False), ("dead", True), (None, True)]
)
@pytest.mark.parametrize("cron", ["0 9 * * *", "5 9 * * *"])
def test_only_the_runs_of_the_dead_are_interrupted(
    policy: SchedulerPolicy, cron: str, runner: str | None, interrupted: bool
) -> None:
    state = stored(running=True, scheduler_identifier=runner)
    decided = reconcile_task(accepted(cron), state, policy, MOMENT)
    assert decided.is_interrupted is interrupted
    if not interrupted:  # it goes on undisturbed, whatever else changes
        assert decided.state.running
        assert decided.state.scheduler_identifier == runner
        assert decided.state.cron_expression == cron


@pytest.mark.parametrize("cron", ["0 9 * * *", "5 9 * * *"])
def test_a_record_without_any_time_counts_as_registered_now(
    policy: SchedulerPolicy, cron: str
) -> None:
    decided = reconcile_task(accepted(cron), stored(last_attempt_at=None), policy, MOMENT)
    assert decided.state.registered_at == NOON
    known = stored(last_attempt_at=None, registered_at=NOON - HOUR)
    kept = reconcile_task(accepted(), known, policy, MOMENT)
    assert kept.state.registered_at == NOON - HOUR


@pytest.mark.parametrize(
    ("cron", "delay", "fields"),
    [
        ("0 9 * * *", 1000, []),
        ("0 9 * *  *", 1000, ["cronExpression"]),
        ("0 9 * * *", 999, ["retryDelayMs"]),
        ("1 9 * * *", 1, ["cronExpression", "retryDelayMs"]),
    ],
)
def test_identical_means_the_same_text_and_the_same_delay(
    cron: str, delay: int, fields: list[str]
) -> None:
    assert [change.field for change in list_changes(stored(), accepted(cron, delay))] == fields
