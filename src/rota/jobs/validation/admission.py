"""JobRequest -> Job, or the reason why not."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.errors import DependencyCycleError, InvalidJobError, UnknownDependencyError
from rota.jobs.graph import DependencyStatus, dependency_status, detect_cycle
from rota.jobs.record import DEFAULT_TENANT, Job, JobId, JobRequest
from rota.jobs.recurrence import occurrence_key
from rota.jobs.states import JobStatus
from rota.jobs.validation.fields import (
    read_dependencies,
    read_flag,
    read_id,
    read_instant,
    read_name,
    read_priority,
    read_queue,
    read_word,
)
from rota.jobs.validation.payload import read_payload
from rota.jobs.validation.policy import read_retry_policy
from rota.jobs.validation.series import read_recurrence
from rota.triggers.zone import to_utc

_OWN_FIELDS = frozenset({"occurrence", "replaces"})
REQUEST_FIELDS = tuple(name for name in JobRequest.__struct_fields__ if name not in _OWN_FIELDS)
"""What a mapping may say; the others are for programs that make a JobRequest."""

_DEFAULTS: dict[str, Any] = {
    "kind": None,
    "payload": {},
    "priority": JobRequest(name="", queue="").priority,
    "due_at": None,
    "dependencies": (),
    "retry_policy": None,
    "idempotency_key": None,
    "occurrence": None,
    "recurrence": None,
    "auto_remove": False,
    "replaces": None,
}
_STATUS_AT_FIRST = {
    DependencyStatus.SATISFIED: JobStatus.READY,
    DependencyStatus.WAITING: JobStatus.PENDING,
    DependencyStatus.BLOCKED: JobStatus.BLOCKED,
}


def admit_job(
    request: JobRequest | Mapping[str, Any],
    *,
    job_id: JobId,
    now: datetime,
    tenant: str = DEFAULT_TENANT,
    dependency_statuses: Mapping[JobId, JobStatus] | None = None,
) -> Job:
    """The job that was asked for, with every field checked; InvalidJobError names the first wrong.

    ``kind`` left out is the name, whatever its characters. With ``dependency_statuses`` the
    dependencies must exist and decide the first status; without, a job that has any is PENDING
    until ``place_job`` has seen them.
    """
    fields = _fields_of(request)
    now = to_utc(now, "now")
    name = read_name(fields["name"])
    kind = name if fields["kind"] is None else read_word(fields["kind"], "kind")
    job = Job(
        id=read_id(job_id, "id"),
        tenant=read_word(tenant, "tenant"),
        queue=read_queue(fields["queue"]),
        name=name,
        kind=kind,
        payload=read_payload(fields["payload"]),
        priority=read_priority(fields["priority"]),
        due_at=now if fields["due_at"] is None else read_instant(fields["due_at"], "due_at"),
        status=JobStatus.READY,
        dependencies=read_dependencies(fields["dependencies"]),
        retry_policy=read_retry_policy(fields["retry_policy"]),
        idempotency_key=_read_optional_text(fields, "idempotency_key"),
        occurrence=_read_optional_text(fields, "occurrence"),
        auto_remove=read_flag(fields["auto_remove"], "auto_remove"),
        replaces=None if fields["replaces"] is None else read_id(fields["replaces"], "replaces"),
        created_at=now,
        updated_at=now,
    )
    return place_job(_with_series(job, fields, now), dependency_statuses)


def place_job(
    job: Job,
    dependency_statuses: Mapping[JobId, JobStatus] | None,
    existing_jobs: Mapping[JobId, Iterable[JobId]] | None = None,
) -> Job:
    """The job with the status that its dependencies give it.

    Raises DependencyCycleError when they lead back to it, ``existing_jobs`` being the dependencies
    of others, and UnknownDependencyError when ``dependency_statuses`` lacks one of them.
    """
    found = detect_cycle(job.id, job.dependencies, existing_jobs or {})
    if found.has_cycle:
        raise DependencyCycleError(found.cycle_path)
    if dependency_statuses is not None:
        missing = [each for each in job.dependencies if each not in dependency_statuses]
        if missing:
            raise UnknownDependencyError(missing)
    readiness = dependency_status(job, dependency_statuses or {})
    return replace(job, status=_STATUS_AT_FIRST[readiness])


def _fields_of(request: JobRequest | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(request, JobRequest):
        return msgspec.structs.asdict(request)
    if not isinstance(request, Mapping):
        raise InvalidJobError("job", "must be an object")
    for name in request:
        if name not in REQUEST_FIELDS:
            raise InvalidJobError(str(name)[:40], "is not a field of a job")
    for name in ("name", "queue"):
        if name not in request:
            raise InvalidJobError(name, "is missing")
    return _DEFAULTS | dict(request)


def _with_series(job: Job, fields: Mapping[str, Any], now: datetime) -> Job:
    """In a series the first occurrence decides when; left to itself, the series is its own key."""
    if fields["recurrence"] is None:
        return job
    if fields["due_at"] is not None:
        raise InvalidJobError("due_at", "cannot be given beside a recurrence, which says when")
    recurrence, first_at = read_recurrence(fields["recurrence"], now)
    return replace(
        job,
        due_at=first_at,
        recurrence=recurrence,
        occurrence_at=first_at,
        origin=job.id,
        idempotency_key=job.idempotency_key or job.id,
        occurrence=job.occurrence or occurrence_key(job.kind, recurrence, first_at),
    )


def _read_optional_text(fields: Mapping[str, Any], field: str) -> str | None:
    return None if fields[field] is None else read_name(fields[field], field)
