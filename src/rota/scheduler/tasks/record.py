"""Stored bytes and task states: how a record is written, read, and why it cannot be read.

Records that Rota wrote take the short way. Any other, such as one written by an earlier program
with the same specification, is read field by field, so that the error says what is wrong with it.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

import msgspec

from rota.errors import (
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
)
from rota.scheduler.tasks.state import TaskState

encode_task = msgspec.json.Encoder().encode
_decode_own = msgspec.json.Decoder(TaskState).decode
_LEGACY_NAMES = {
    "lastAttemptAt": "lastAttemptTime",
    "lastSuccessAt": "lastSuccessTime",
    "lastFailureAt": "lastFailureTime",
}
_TYPE_NAMES: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}

Value = TypeVar("Value")
Default = TypeVar("Default")


def decode_own_task(body: bytes) -> TaskState | None:
    """Read what Rota wrote; None when it was another program, or when something is wrong."""
    try:
        state = _decode_own(body)
    except msgspec.DecodeError:
        return None
    if b"null" in body and None in msgspec.json.decode(body).values():
        return None  # Rota omits what is absent; an explicit null deserves a proper error
    return state


def decode_foreign_task(body: bytes, defaults: Mapping[str, Any]) -> TaskState:
    """Read field by field; ``defaults`` completes a record that lacks its configuration."""
    try:
        record = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise TaskInvalidStructureError("Task record is not JSON", body) from error
    if isinstance(record, dict):
        record = {**defaults, **record}
    return parse_task_record(record)


def parse_task_record(record: object, registered_names: Collection[str] | None = None) -> TaskState:
    """One persisted record, a mapping in specification 1's words, as a task state.

    Raises the ``TaskTryDeserializeError`` that names the offending field. With ``registered_names``
    a record of a task that is not among them is refused too.
    """
    if not isinstance(record, Mapping):
        raise TaskInvalidStructureError(
            f"Task record must be an object, got {_type_name(record)}", record
        )
    name = _read_text(record, "name")
    if registered_names is not None and name not in registered_names:
        raise TaskInvalidValueError("name", name, "task not found in registrations")
    attempt_at = _read_instant(record, "lastAttemptAt")
    success_at = _read_instant(record, "lastSuccessAt")
    failure_at = _read_instant(record, "lastFailureAt")
    retry_at = _read_instant(record, "pendingRetryUntil")
    if retry_at is not None:  # either time stands in for the other where only one was kept
        attempt_at, failure_at = attempt_at or failure_at, failure_at or attempt_at
    return TaskState(
        name=name,
        cron_expression=_read_text(record, "cronExpression"),
        retry_delay_ms=_read_delay(record),
        registered_at=_read_instant(record, "registeredAt"),
        last_attempt_at=attempt_at,
        last_success_at=success_at,
        last_failure_at=failure_at,
        pending_retry_until=retry_at,
        retry_count=_read_optional(record, "retryCount", int, int(retry_at is not None)),
        running=_read_optional(
            record,
            "running",
            bool,
            retry_at is None and _is_unfinished(attempt_at, success_at, failure_at),
        ),
        scheduler_identifier=_read_optional(record, "schedulerIdentifier", str, None),
        last_reason=_read_optional(record, "lastReason", str, None),
    )


def _is_unfinished(
    attempt_at: datetime | None, success_at: datetime | None, failure_at: datetime | None
) -> bool:
    """An attempt later than every completion; one that ended in the same instant has ended."""
    if attempt_at is None:
        return False
    return all(end is None or end < attempt_at for end in (success_at, failure_at))


def _read_text(record: Mapping[Any, Any], field: str) -> str:
    if field not in record:
        raise TaskMissingFieldError(field)
    value = record[field]
    if not isinstance(value, str):
        raise TaskInvalidTypeError(field, value, "string", _type_name(value))
    return value


def _read_delay(record: Mapping[Any, Any]) -> int:
    field = "retryDelayMs"
    if field not in record:
        raise TaskMissingFieldError(field)
    value = record[field]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TaskInvalidTypeError(field, value, "number", _type_name(value))
    if not isfinite(value) or value < 0:
        raise TaskInvalidValueError(field, value, "must be a non-negative number")
    if value != int(value):
        raise TaskInvalidValueError(field, value, "must be an integer")
    return int(value)


def _read_instant(record: Mapping[Any, Any], field: str) -> datetime | None:
    """Times may be ISO 8601 text or datetimes; without an offset they are taken as UTC."""
    if field not in record:
        field = _LEGACY_NAMES.get(field, field)
    if field not in record:
        return None
    value = record[field]
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise TaskInvalidValueError(field, value, "must be an ISO 8601 time") from error
    if not isinstance(value, datetime):
        raise TaskInvalidTypeError(field, value, "DateTime or undefined", _type_name(value))
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise TaskInvalidValueError(field, value, "must be a time of the calendar") from error


def _read_optional(
    record: Mapping[Any, Any], field: str, kind: type[Value], default: Default
) -> Value | Default:
    if field not in record:
        return default
    value = record[field]
    if type(value) is not kind:
        raise TaskInvalidTypeError(field, value, _TYPE_NAMES[kind], _type_name(value))
    return value


def _type_name(value: object) -> str:
    """The type in the words of JSON, which is what was stored."""
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "array"
    if isinstance(value, Mapping):
        return "object"
    return _TYPE_NAMES.get(type(value), type(value).__name__)
