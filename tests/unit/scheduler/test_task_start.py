from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.scheduler.task import Start, StartReason, TaskState, decide_start

NINE = datetime(2027, 1, 4, 9, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return NINE.replace(hour=hour, minute=minute, second=second)


def a_state(**fields: Any) -> TaskState:
    defaults = {"name": "a", "cron_expression": "0 * * * *", "retry_delay_ms": 0, "running": False}
    return TaskState(**{**defaults, **fields})


RAN = {"last_attempt_at": at(9)}
FAILED = {"last_attempt_at": at(9), "last_failure_at": at(9, 1), "pending_retry_until": at(9, 30)}


@pytest.mark.parametrize(
    ("fields", "last_due_at", "now", "expected"),
    [
        ({}, at(9), at(9), None),  # neither run nor registered: nothing is owed
        ({"registered_at": at(9, 0, 30)}, at(9), at(9, 0, 30), (StartReason.OCCURRENCE, at(9))),
        ({"registered_at": at(9, 1)}, at(9), at(9, 1), None),
        ({"registered_at": at(8, 30)}, at(9), at(9, 5), (StartReason.CATCH_UP, at(9))),
        (RAN, None, at(10), None),
        (RAN, at(9), at(9, 59), None),
        (RAN, at(10), at(10), (StartReason.OCCURRENCE, at(10))),
        (RAN, at(10), at(10, 0, 59), (StartReason.OCCURRENCE, at(10))),
        (RAN, at(10), at(10, 1), (StartReason.CATCH_UP, at(10))),
        ({**RAN, "running": True}, at(10), at(10), None),
        (FAILED, at(9), at(9, 29, 59), None),
        (FAILED, at(9), at(9, 30), (StartReason.RETRY, at(9, 30))),
        (FAILED, at(9), at(11), (StartReason.RETRY, at(9, 30))),
        (FAILED, at(9, 10), at(9, 10), (StartReason.OCCURRENCE, at(9, 10), at(9, 30))),
        (FAILED, at(10), at(10), (StartReason.OCCURRENCE, at(10), at(9, 30))),
        (  # reached during the failed run, and the retry is due as well: the retry answers it
            {**FAILED, "last_failure_at": at(9, 20)},
            at(9, 10),
            at(9, 30),
            (StartReason.RETRY, at(9, 30)),
        ),
        (  # reached during the failed run, the retry is not due yet
            {**FAILED, "last_failure_at": at(9, 20)},
            at(9, 10),
            at(9, 20),
            (StartReason.CATCH_UP, at(9, 10), at(9, 30)),
        ),
        (  # a delay of zero waits a second
            {**RAN, "last_failure_at": at(9, 1), "pending_retry_until": at(9, 1)},
            at(9),
            at(9, 1),
            None,
        ),
        (
            {**RAN, "last_failure_at": at(9, 1), "pending_retry_until": at(9, 1)},
            at(9),
            at(9, 1, 1),
            (StartReason.RETRY, at(9, 1, 1)),
        ),
    ],
)
def test_starts_and_their_reasons(
    fields: dict[str, Any],
    last_due_at: datetime | None,
    now: datetime,
    expected: tuple[Any, ...] | None,
) -> None:
    start = decide_start(a_state(**fields), last_due_at, now)
    assert start == (None if expected is None else Start(*expected))


def test_an_interrupted_task_starts_with_other_work_due() -> None:
    state = a_state(last_attempt_at=at(9), running=True)
    for last_due_at in (None, at(9), at(10)):
        start = decide_start(state, last_due_at, at(10), is_interrupted=True)
        assert start == Start(StartReason.INTERRUPTED, at(9))


def test_a_late_attempt_answers_its_occurrence() -> None:
    late = a_state(last_attempt_at=at(9) + timedelta(days=3))
    assert decide_start(late, at(10), at(10)) is None
