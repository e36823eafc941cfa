from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.scheduler.storage import decode_own_task, encode_task
from rota.scheduler.task import (
    END_OF_TIME,
    TaskPhase,
    TaskState,
    begin_attempt,
    reconfigure,
    record_failure,
    record_success,
)

NOON = datetime(2027, 1, 4, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_state(**fields: Any) -> TaskState:
    defaults = {"name": "a", "cron_expression": "* * * * *", "retry_delay_ms": 60_000}
    return TaskState(**{**defaults, "running": False, **fields})


def test_a_task_moves_through_its_phases() -> None:
    waiting = a_state()
    running = begin_attempt(waiting, NOON, "me", "occurrence")
    failed = record_failure(running, NOON + SECOND)
    again = begin_attempt(failed, NOON + 61 * SECOND, "me", "retry")
    done = record_success(again, NOON + 62 * SECOND)
    phases = [state.phase for state in (waiting, running, failed, again, done)]
    assert phases == [
        *(TaskPhase.AWAITING_RUN, TaskPhase.RUNNING, TaskPhase.AWAITING_RETRY),
        *(TaskPhase.RUNNING, TaskPhase.AWAITING_RUN),
    ]
    assert failed.pending_retry_until == NOON + 61 * SECOND
    assert again.pending_retry_until is None
    assert again.retry_count == 1
    assert done.retry_count == 0
    assert (done.last_attempt_at, done.last_failure_at, done.last_success_at) == (
        *(NOON + 61 * SECOND, NOON + SECOND),
        NOON + 62 * SECOND,
    )


def test_failures_in_a_row_are_counted() -> None:
    state = a_state()
    for number in range(1, 4):
        state = record_failure(begin_attempt(state, NOON, "me", "retry"), NOON)
        assert state.retry_count == number


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"registered_at": NOON + 30 * SECOND}, NOON - timedelta(microseconds=1)),
        ({"registered_at": NOON, "last_attempt_at": NOON + SECOND}, NOON + SECOND),
    ],
)
def test_occurrences_up_to_this_instant_need_no_run(
    fields: dict[str, Any], expected: datetime | None
) -> None:
    assert a_state(**fields).answered_until == expected


@pytest.mark.parametrize(("delay", "pause"), [(0, SECOND), (1, SECOND / 1000), (5000, 5 * SECOND)])
def test_a_retry_is_due_after_its_delay_but_never_at_once(delay: int, pause: timedelta) -> None:
    failed = record_failure(a_state(retry_delay_ms=delay, running=True), NOON)
    assert failed.pending_retry_until == NOON + timedelta(milliseconds=delay)
    assert failed.retry_due_at == NOON + pause


def test_a_delay_beyond_the_calendar_means_never() -> None:
    failed = record_failure(a_state(retry_delay_ms=10**18, running=True), NOON)
    assert failed.pending_retry_until == END_OF_TIME
    assert failed.phase is TaskPhase.AWAITING_RETRY


def test_another_configuration_keeps_history_and_retry() -> None:
    failed = record_failure(begin_attempt(a_state(), NOON, "me", "occurrence"), NOON)
    changed = reconfigure(failed, "0 * * * *", 5)
    assert (changed.cron_expression, changed.retry_delay_ms) == ("0 * * * *", 5)
    assert changed.pending_retry_until == failed.pending_retry_until
    assert changed.last_attempt_at == NOON


def test_every_state_survives_being_written() -> None:
    states = [
        a_state(),
        a_state(registered_at=NOON, scheduler_identifier="x"),
        begin_attempt(a_state(), NOON + timedelta(microseconds=1), "me", "occurrence"),
        record_failure(begin_attempt(a_state(), NOON, "me", "retry"), NOON + SECOND),
    ]
    for state in states:
        assert decode_own_task(encode_task(state)) == state
