"""JobRequest -> Job, or the reason why not."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

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
    type_name,
)
from rota.jobs.validation.payload import read_payload
from rota.jobs.validation.policy import read_retry_policy
from rota.jobs.validation.series import read_recurrence
from rota.triggers.zone import to_utc

REQUEST_FIELDS = frozenset(JobRequest.__struct_fields__) - {"occurrence", "replaces"}
"""What a mapping may say; the others are for programs that make a JobRequest."""

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
    asked = request if isinstance(request, JobRequest) else _read_mapping(request)
    now = to_utc(now, "now")
    name, key = read_name(asked.name), asked.idempotency_key
    # Three more fields follow below: with more than 15 keywords a call takes four times as long.
    job = Job(
        id=read_id(job_id, "id"),
        tenant=read_word(tenant, "tenant"),
        queue=read_queue(asked.queue),
        name=name,
        kind=name if asked.kind is None else read_word(asked.kind, "kind"),
        payload=read_payload(asked.payload),
        priority=read_priority(asked.priority),
        due_at=now if asked.due_at is None else read_instant(asked.due_at, "due_at"),
        status=JobStatus.READY,
        dependencies=read_dependencies(asked.dependencies),
        retry_policy=read_retry_policy(asked.retry_policy),
        idempotency_key=None if key is None else read_name(key, "idempotency_key"),
        created_at=now,
        updated_at=now,
    )
    if asked.occurrence is not None:
        job = replace(job, occurrence=read_name(asked.occurrence, "occurrence"))
    if asked.auto_remove is not False:
        job = replace(job, auto_remove=read_flag(asked.auto_remove, "auto_remove"))
    if asked.replaces is not None:
        job = replace(job, replaces=read_id(asked.replaces, "replaces"))
    if asked.recurrence is not None:
        job = _with_series(job, asked, now)
    return place_job(job, dependency_statuses) if job.dependencies else job


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


def _read_mapping(fields: Mapping[str, Any]) -> JobRequest:
    if not isinstance(fields, Mapping):
        raise InvalidJobError("job", f"must be an object, got {type_name(fields)}")
    for name in fields:
        if name not in REQUEST_FIELDS:
            raise InvalidJobError(str(name)[:40], "is not a field of a job")
    for name in ("name", "queue"):
        if name not in fields:
            raise InvalidJobError(name, "is missing")
    return JobRequest(**fields)


def _with_series(job: Job, asked: JobRequest, now: datetime) -> Job:
    """In a series the first occurrence decides when; left to itself, the series is its own key."""
    if asked.due_at is not None:
        raise InvalidJobError("due_at", "cannot be given beside a recurrence, which says when")
    recurrence, first_at = read_recurrence(asked.recurrence, now)
    return replace(
        job,
        due_at=first_at,
        recurrence=recurrence,
        occurrence_at=first_at,
        origin=job.id,
        idempotency_key=job.idempotency_key or job.id,
        occurrence=job.occurrence or occurrence_key(job.kind, recurrence, first_at),
    )
