"""Jobs, and stored things as an earlier instance left them; valid unless told otherwise."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Ending, Job, JobStatus, Lease, make_job_id
from rota.scheduler.keeping.ledger import TASKS
from rota.stores.protocol import DocumentStore, DocumentWrite

_MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
_LEASED_FOR = timedelta(minutes=1)
_numbers = count(1)


def a_job(**fields: Any) -> Job:
    """A job with these fields; the others are such that it makes sense.

    Each has an id of its own, greater than those of the jobs made before. Left out, ``status`` is
    READY or, with dependencies, PENDING; ``kind`` is the name; ``due_at`` and ``updated_at`` are
    ``created_at``. One that is RUNNING has a lease for a minute, one that FAILED is exhausted.
    Nothing is checked, so that a job may be as odd as a test needs it.
    """
    dependencies = tuple(fields.get("dependencies", ()))
    created_at = fields.get("created_at", _MADE_AT)
    told = {
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
    return Job(**{"kind": told["name"], **_implied_by(told["status"], created_at), **told})


def _implied_by(status: JobStatus, created_at: datetime) -> dict[str, Any]:
    if status is JobStatus.RUNNING:
        until = created_at + _LEASED_FOR
        lease = Lease(token=1, worker="a worker", taken_at=created_at, until=until)
        return {"lease": lease, "last_token": 1}
    return {"ending": Ending.EXHAUSTED} if status is JobStatus.FAILED else {}


async def seed_tasks(store: DocumentStore, records: Iterable[Mapping[str, Any]]) -> None:
    """Put task records into the store, each under its name, replacing what was there.

    The fields are those of specification 1 (name, cronExpression, retryDelayMs, lastAttemptAt,
    lastSuccessAt, lastFailureAt, pendingRetryUntil, schedulerIdentifier); times may be datetimes.
    Apart from the name nothing is checked, so that a record may be as broken as a test needs it.
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
