"""When two jobs are the same job."""

from typing import NamedTuple

import msgspec

from rota.errors import DuplicateJobError
from rota.jobs import Job

_encode = msgspec.json.Encoder(order="sorted").encode


class Identity(NamedTuple):
    """What only one job may have. No occurrence counts as an occurrence."""

    tenant: str
    kind: str
    idempotency_key: str
    occurrence: str | None


def identity_of(job: Job) -> Identity | None:
    """None without an idempotency key: the job is never a duplicate."""
    if job.idempotency_key is None:
        return None
    return Identity(job.tenant, job.kind, job.idempotency_key, job.occurrence)


def canonical_payload(job: Job) -> bytes:
    """The payload as compact JSON with sorted keys: equal for equal values."""
    return _encode(job.payload)


def check_duplicate(asked: Job, existing: Job) -> None:
    """Refuse a job that has the id or key of an existing one but differs from it.

    With the same id, tenant, kind, key and payload must be equal; with the same key, the payload.
    """
    has_its_id = asked.id == existing.id
    if has_its_id and (asked.tenant, asked.kind) != (existing.tenant, existing.kind):
        raise DuplicateJobError(asked.id, "its id is taken by another job")
    if has_its_id and identity_of(asked) != identity_of(existing):
        raise DuplicateJobError(asked.id, "with another idempotency key")
    if canonical_payload(asked) != canonical_payload(existing):
        raise DuplicateJobError(existing.id, "with another payload")
