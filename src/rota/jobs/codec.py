"""Encodes jobs and attempts as plain JSON values, and decodes them.

Instants become UTC text of fixed length with microseconds, so that text order is time order.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from rota.clock.protocol import to_utc
from rota.errors import DamagedJobError, InvalidInputError
from rota.jobs.record import Attempt, Job

Record = TypeVar("Record", Job, Attempt)

_OPAQUE_FIELDS = frozenset({"payload"})


def format_instant(instant: datetime) -> str:
    """An aware instant as ``2026-05-01T12:00:00.000000Z``, always of that length."""
    return to_utc(instant).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def parse_instant(text: str, field: str = "instant") -> datetime:
    """Parse ISO 8601 text with an offset into UTC. ``field`` names it in errors."""
    try:
        instant = datetime.fromisoformat(text)
        # The parser ignores everything after a NUL.
        if instant.utcoffset() is not None and text.isprintable():
            return instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _no_instant(field, text) from error
    raise _no_instant(field, text)


def encode_job(job: Job) -> dict[str, Any]:
    """Every field of the job by name, as plain JSON values. The payload is not copied."""
    return _encode(job)


def decode_job(record: object) -> Job:
    """Decode what ``encode_job`` wrote. Raises DamagedJobError when it is not a valid job.

    Unknown fields, such as those of a later version, are ignored.
    """
    return _decode(record, Job, "id")


def encode_attempt(attempt: Attempt) -> dict[str, Any]:
    return _encode(attempt)


def decode_attempt(record: object) -> Attempt:
    return _decode(record, Attempt, "job_id")


def _encode(record: Job | Attempt) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record, builtin_types=(datetime,))
    return _with_instants_as_text(plain)


def _with_instants_as_text(fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        if isinstance(value, datetime):
            fields[name] = format_instant(value)
        elif isinstance(value, tuple):
            fields[name] = list(value)
        elif isinstance(value, dict) and name not in _OPAQUE_FIELDS:
            _with_instants_as_text(value)
    return fields


def _decode(record: object, kind: type[Record], id_field: str) -> Record:
    try:
        return msgspec.convert(record, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # or half a character in a name
        job_id = record.get(id_field) if isinstance(record, Mapping) else None
        raise DamagedJobError(job_id if isinstance(job_id, str) else None, str(error)) from error


def _no_instant(field: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f'{field} must be an ISO 8601 time with an offset, got "{text[:40]}"', {"field": field}
    )
