"""Tasks in the store: how a record is written and read, and what is wrong with a bad one.

Records that Rota wrote are decoded in one step. Any other record, such as one of another program
with the same specification, is read field by field, so that the error names the field.

Every write names the version it was decided on. A write that comes too late changes nothing and is
reported. Several instances on one store need no more to run each occurrence once.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2s
from math import isfinite
from typing import Any, NamedTuple, TypeVar

import msgspec

from rota.errors import (
    StoreError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
)
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.task import TaskState
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

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
    """Decode a record of Rota's own; None when it is foreign or damaged."""
    try:
        state = _decode_own(body)
    except msgspec.DecodeError:
        return None
    if b"null" in body and None in msgspec.json.decode(body).values():
        return None  # Rota omits absent fields; an explicit null needs a proper error
    return state


def decode_foreign_task(body: bytes, defaults: Mapping[str, Any]) -> TaskState:
    """Decode field by field; ``defaults`` completes a record that lacks its configuration."""
    try:
        record = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise TaskInvalidStructureError("Task record is not JSON", body) from error
    if isinstance(record, dict):
        record = {**defaults, **record}
    return parse_task_record(record)


def parse_task_record(record: object, registered_names: Collection[str] | None = None) -> TaskState:
    """The task state in a persisted record, a mapping in specification 1's words.

    Raises the ``TaskTryDeserializeError`` that names the bad field. With ``registered_names``, a
    task that is not among them is refused too.
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
    if retry_at is not None:  # if only one of the two times is known, it serves for both
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
    """Whether the attempt is later than every end. One that ended in the same instant has ended."""
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
    """An instant, from ISO 8601 text or a datetime. Without an offset it is UTC."""
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
    """The JSON name of the type."""
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return "array"
    if isinstance(value, Mapping):
        return "object"
    return _TYPE_NAMES.get(type(value), type(value).__name__)


TASKS = "scheduler.tasks"
SET_ASIDE = "scheduler.set_aside"


class StoredTask(NamedTuple):
    """A task as found in the store. ``is_foreign``: another program wrote the record."""

    name: str
    version: int
    state: TaskState
    is_foreign: bool = False


class BrokenRecord(NamedTuple):
    """A record that cannot be read, and why. Its bytes are never thrown away."""

    name: str
    version: int
    body: bytes
    error: TaskTryDeserializeError

    def kept_as(self, identifier: str) -> str:
        """The key under which the instance with this identifier keeps the bytes."""
        digest = blake2s(self.name.encode() + b"\0" + self.body, digest_size=16).hexdigest()
        return f"{identifier}:{digest}"


async def scan_tasks(
    store: DocumentStore, accepted: Mapping[str, AcceptedTask] | None = None
) -> AsyncIterator[StoredTask | BrokenRecord]:
    """All stored tasks, one by one. A broken record does not stop the others.

    A record that lacks its configuration takes it from the registration of that name.
    """
    accepted = accepted or {}
    async for page in store.scan(TASKS):
        for document in page:
            yield interpret(document, _configuration(accepted.get(document.key)))


async def find_tasks(
    store: DocumentStore, names: Sequence[str]
) -> dict[str, StoredTask | BrokenRecord]:
    """These tasks as stored now. Missing tasks are left out."""
    documents = await store.read(TASKS, names)
    return {name: interpret(document, {}) for name, document in documents.items()}


async def remove_notes(
    store: DocumentStore, collections: Sequence[str], names: Sequence[str]
) -> None:
    """Remove what these collections say about removed tasks, as far as the store answers."""
    with suppress(StoreError):
        for collection in collections if names else ():
            found = (await store.read(collection, names)).values()
            removals = [DocumentWrite(collection, it.key, it.version, None) for it in found]
            if removals:
                await store.write_each(removals)


def write_task(state: TaskState, version: int | None) -> DocumentWrite:
    return DocumentWrite(TASKS, state.name, version, encode_task(state))


def remove_task(name: str, version: int) -> DocumentWrite:
    return DocumentWrite(TASKS, name, version, None)


def keep_aside(record: BrokenRecord, identifier: str) -> DocumentWrite:
    return DocumentWrite(SET_ASIDE, record.kept_as(identifier), None, record.body)


def interpret(document: Document, defaults: Mapping[str, Any]) -> StoredTask | BrokenRecord:
    key, version, body = document
    state = decode_own_task(body)
    is_foreign = state is None
    try:
        if state is None:
            state = decode_foreign_task(body, defaults)
        if state.name != key:
            raise TaskInvalidValueError("name", state.name, f'the record is kept under "{key}"')
    except TaskTryDeserializeError as error:
        return BrokenRecord(key, version, body, error)
    return StoredTask(key, version, state, is_foreign)


def _configuration(accepted: AcceptedTask | None) -> Mapping[str, Any]:
    if accepted is None:
        return {}
    return {"cronExpression": accepted.cron.text, "retryDelayMs": accepted.retry_delay_ms}
