"""One stored record: what is read from it, and the error that says why it cannot be read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.spec.stage import at

from rota.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
)
from rota.scheduler import TaskPhase, parse_task_record

GOOD = {"name": "a", "cronExpression": "0 9 * * *", "retryDelayMs": 1000}
TIMES = ["lastAttemptAt", "lastSuccessAt", "lastFailureAt", "pendingRetryUntil"]


def failure(record: object, names: set[str] | None = None) -> TaskTryDeserializeError:
    with pytest.raises(TaskTryDeserializeError) as caught:
        parse_task_record(record, names)
    return caught.value


@pytest.mark.parametrize(
    ("record", "type_name"),
    [
        (None, "null"),
        ([], "array"),
        ([GOOD], "array"),
        ("a", "string"),
        (7, "number"),
        (1.5, "number"),
        (True, "boolean"),
    ],
)
def test_a_record_must_be_an_object(record: object, type_name: str) -> None:
    error = failure(record)
    assert type(error) is TaskInvalidStructureError
    assert error.message == f"Task record must be an object, got {type_name}"
    assert error.details == {"value": record}


@pytest.mark.parametrize("field", GOOD)
def test_a_required_field_may_not_be_missing(field: str) -> None:
    error = failure({name: value for name, value in GOOD.items() if name != field})
    assert type(error) is TaskMissingFieldError
    assert error.message == f"Missing required field: {field}"
    assert error.details == {"field": field}


@pytest.mark.parametrize(
    ("field", "value", "expected", "actual"),
    [
        ("name", 5, "string", "number"),
        ("name", None, "string", "null"),
        ("name", [], "string", "array"),
        ("cronExpression", {}, "string", "object"),
        ("cronExpression", True, "string", "boolean"),
        ("retryDelayMs", "1000", "number", "string"),
        ("retryDelayMs", None, "number", "null"),
        ("retryDelayMs", True, "number", "boolean"),
        ("retryDelayMs", [1], "number", "array"),
        ("schedulerIdentifier", 5, "string", "number"),
        ("schedulerIdentifier", None, "string", "null"),
        ("running", "yes", "boolean", "string"),
        *[(field, None, "DateTime or undefined", "null") for field in TIMES],
        *[(field, 1_700_000_000, "DateTime or undefined", "number") for field in TIMES],
        *[(field, [], "DateTime or undefined", "array") for field in TIMES],
    ],
)
def test_a_field_of_the_wrong_type(field: str, value: object, expected: str, actual: str) -> None:
    error = failure({**GOOD, field: value})
    assert type(error) is TaskInvalidTypeError
    assert error.message == (f"Invalid type for field '{field}': expected {expected}, got {actual}")
    assert error.details == {
        "field": field,
        "value": value,
        "expectedType": expected,
        "actualType": actual,
    }
    assert (error.field, error.value, error.expected_type) == (field, value, expected)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("retryDelayMs", -1, "must be a non-negative number"),
        ("retryDelayMs", -0.5, "must be a non-negative number"),
        ("retryDelayMs", float("nan"), "must be a non-negative number"),
        ("retryDelayMs", float("inf"), "must be a non-negative number"),
        ("retryDelayMs", 1.5, "must be an integer"),
        ("lastAttemptAt", "yesterday", "must be an ISO 8601 time"),
        ("lastAttemptAt", "", "must be an ISO 8601 time"),
    ],
)
def test_a_field_of_the_wrong_value(field: str, value: object, reason: str) -> None:
    error = failure({**GOOD, field: value})
    assert type(error) is TaskInvalidValueError
    assert error.message == f"Invalid value for field '{field}': {reason}"
    assert error.details["field"] == field
    assert error.details["value"] is value
    assert error.details["reason"] == reason


def test_a_name_that_is_not_registered_is_a_wrong_value() -> None:
    error = failure(GOOD, {"b"})
    assert type(error) is TaskInvalidValueError
    assert error.message == "Invalid value for field 'name': task not found in registrations"
    assert error.details == {
        "field": "name",
        "value": "a",
        "reason": "task not found in registrations",
    }
    assert parse_task_record(GOOD, {"a"}).name == "a"


@pytest.mark.parametrize(
    "value",
    [
        at(9),
        "2027-01-04T09:00:00Z",
        "2027-01-04T09:00:00.000Z",
        "2027-01-04T11:00:00+02:00",
        "2027-01-04T09:00:00",
        datetime(2027, 1, 4, 9, tzinfo=UTC),
    ],
)
@pytest.mark.parametrize("field", TIMES)
def test_times_are_iso_text_or_datetimes(field: str, value: object) -> None:
    state = parse_task_record({**GOOD, field: value})
    snake = {"lastAttemptAt": "last_attempt_at", "lastSuccessAt": "last_success_at"}
    snake |= {"lastFailureAt": "last_failure_at", "pendingRetryUntil": "pending_retry_until"}
    assert getattr(state, snake[field]) == at(9)


def test_another_spelling_of_a_number_and_another_configuration_are_accepted() -> None:
    assert parse_task_record({**GOOD, "retryDelayMs": 1000.0}).retry_delay_ms == 1000
    assert parse_task_record({**GOOD, "cronExpression": "anything"}).cron_expression == "anything"


@pytest.mark.parametrize(
    ("fields", "phase"),
    [
        ({}, TaskPhase.AWAITING_RUN),
        ({"lastAttemptAt": at(9), "lastSuccessAt": at(9, 1)}, TaskPhase.AWAITING_RUN),
        ({"lastAttemptAt": at(9), "lastSuccessAt": at(9)}, TaskPhase.AWAITING_RUN),
        ({"lastAttemptAt": at(9), "lastFailureAt": at(9)}, TaskPhase.AWAITING_RUN),
        ({"lastAttemptAt": at(9)}, TaskPhase.RUNNING),
        ({"lastAttemptAt": at(9), "schedulerIdentifier": "x"}, TaskPhase.RUNNING),
        ({"lastAttemptAt": at(9), "lastSuccessAt": at(8)}, TaskPhase.RUNNING),
        ({"lastAttemptAt": at(9), "lastFailureAt": at(8)}, TaskPhase.RUNNING),
        ({"lastFailureAt": at(9), "pendingRetryUntil": at(9, 5)}, TaskPhase.AWAITING_RETRY),
        (
            {"lastAttemptAt": at(9), "lastFailureAt": at(9, 1), "pendingRetryUntil": at(9, 5)},
            TaskPhase.AWAITING_RETRY,
        ),
        ({"lastAttemptAt": at(9), "running": False}, TaskPhase.AWAITING_RUN),
        ({"lastAttemptAt": at(9), "lastSuccessAt": at(9), "running": True}, TaskPhase.RUNNING),
    ],
)
def test_the_phase_follows_from_the_fields(fields: dict[str, Any], phase: TaskPhase) -> None:
    assert parse_task_record({**GOOD, **fields}).phase is phase


def test_of_failure_and_attempt_either_stands_in_for_the_other_under_a_pending_retry() -> None:
    state = parse_task_record({**GOOD, "lastFailureAt": at(9), "pendingRetryUntil": at(9, 5)})
    assert state.last_attempt_at == at(9)
    state = parse_task_record({**GOOD, "lastAttemptAt": at(9), "pendingRetryUntil": at(9, 5)})
    assert state.last_failure_at == at(9)
