"""Builds jobs and stored records, valid by default."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Ending, Job, JobStatus, Lease, make_job_id
from rota.scheduler.storage import TASKS
from rota.stores.protocol import DocumentStore, DocumentWrite

_MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
_LEASED_FOR = timedelta(minutes=1)
_numbers = count(1)


def a_job(**fields: Any) -> Job:
    """A job with these fields and sensible defaults for the others.

    Each has its own id, greater than those of earlier jobs. ``status`` defaults to READY or, with
    dependencies, PENDING; ``kind`` to the name; ``due_at`` and ``updated_at`` to ``created_at``. A
    RUNNING job has a lease for a minute, a FAILED one is exhausted. Nothing is validated, so a test
    can build an odd job.
    """
    dependencies = tuple(fields.get("dependencies", ()))
    created_at = fields.get("created_at", _MADE_AT)
    requested = {
        "id": make_job_id(_MADE_AT, next(_numbers)),
        "queue": "default",
        "name": "a job",
        "status": JobStatus.PENDING if dependencies else JobStatus.READY,
        "due_at": created_at,
        "created_at": created_at,
        "updated_at": created_at,
        **fields,
        "dependencies": dependencies,
    }
    return Job(
        **{"kind": requested["name"], **_implied_by(requested["status"], created_at), **requested}
    )


def _implied_by(status: JobStatus, created_at: datetime) -> dict[str, Any]:
    if status is JobStatus.RUNNING:
        until = created_at + _LEASED_FOR
        lease = Lease(token=1, worker="a worker", taken_at=created_at, until=until)
        return {"lease": lease, "last_token": 1}
    return {"ending": Ending.EXHAUSTED} if status is JobStatus.FAILED else {}


async def seed_tasks(store: DocumentStore, records: Iterable[Mapping[str, Any]]) -> None:
    """Write task records into the store, each under its name, replacing earlier ones.

    The fields are those of specification 1 (name, cronExpression, retryDelayMs, lastAttemptAt,
    lastSuccessAt, lastFailureAt, pendingRetryUntil, schedulerIdentifier); times may be datetimes.
    Only the name is validated, so a test can write a broken record.
    """
    bodies = {_name_of(record): msgspec.json.encode(record) for record in records}
    present = await store.read(TASKS, list(bodies))
    await store.write_all(
        [
            DocumentWrite(TASKS, name, present[name].version if name in present else None, body)
            for name, body in bodies.items()
        ]
    )


def _name_of(record: Mapping[str, Any]) -> str:
    name = record.get("name")
    if not isinstance(name, str):
        raise InvalidInputError("name must be a text: it is the record's key", {"field": "name"})
    return name
