"""What may be changed about a job, and when it may be deleted."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rota.errors import (
    DependenciesFixedError,
    HasDependentsError,
    InvalidJobError,
    JobChangedError,
    JobEndedError,
)
from rota.jobs.codec import encode_job
from rota.jobs.record import Job, JobId
from rota.jobs.states import JobStatus
from rota.jobs.validation.admission import place_job
from rota.jobs.validation.fields import (
    read_dependencies,
    read_flag,
    read_instant,
    read_name,
    read_priority,
    read_queue,
    read_word,
)
from rota.jobs.validation.payload import read_payload
from rota.jobs.validation.policy import read_retry_policy

_READERS: dict[str, Callable[[object], Any]] = {
    "name": read_name,
    "queue": read_queue,
    "kind": lambda value: read_word(value, "kind"),
    "payload": read_payload,
    "priority": read_priority,
    "due_at": lambda value: read_instant(value, "due_at"),
    "dependencies": read_dependencies,
    "retry_policy": read_retry_policy,
    "is_paused": lambda value: read_flag(value, "is_paused"),
    "auto_remove": lambda value: read_flag(value, "auto_remove"),
}


def amend_job(
    job: Job,
    fields: Mapping[str, Any],
    now: datetime,
    *,
    dependency_statuses: Mapping[JobId, JobStatus] | None = None,
    existing_jobs: Mapping[JobId, Iterable[JobId]] | None = None,
) -> Job:
    """The job with these fields changed, under the rules that hold for a new one.

    A field that never changes may be named with the value it has. With ``updated_at`` it is changed
    only if nobody has changed it since: JobChangedError otherwise. Dependencies change only while
    the job is PENDING; then its status follows from them, as it does for a new job.
    """
    if job.status.is_terminal:
        raise JobEndedError(job.id, job.status)
    known = encode_job(job)
    if "updated_at" in fields:
        _check_unchanged(job, fields["updated_at"], known["updated_at"])
    changes: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "kind" and value == job.kind:
            continue  # taken from the name it need not be a word
        if name in _READERS:
            changes[name] = _READERS[name](value)
        else:
            _check_same(name, value, known)
    amended = replace(job, **changes, updated_at=now)
    if amended.dependencies == job.dependencies:
        return amended
    if job.status is not JobStatus.PENDING:
        raise DependenciesFixedError(job.id, job.status)
    return place_job(amended, dependency_statuses, existing_jobs)


def check_deletion(job_id: JobId, dependents: Iterable[JobId]) -> None:
    """A job goes only when nobody depends on it, not even one that has ended."""
    found = sorted(dependents)
    if found:
        raise HasDependentsError(job_id, found)


def _check_unchanged(job: Job, read_at: object, updated_at: str) -> None:
    if read_instant(read_at, "updated_at") != job.updated_at:
        raise JobChangedError(job.id, updated_at)


def _check_same(name: object, value: object, known: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or name not in known:
        raise InvalidJobError(str(name)[:40], "is not a field of a job")
    kept = known[name]
    if kept is not None and name.endswith("_at"):
        is_same = read_instant(value, name) == read_instant(kept, name)
    else:
        is_same = isinstance(value, bool) is isinstance(kept, bool) and value == kept
    if not is_same:
        raise InvalidJobError(name, "never changes")
