"""What a job looks like in the API: as it is shown, created, changed and copied."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.errors import InvalidJobError, InvalidRequestError, JobChangedError
from rota.jobs import (
    BackoffStrategy,
    CatchUp,
    Completion,
    Deferral,
    Ending,
    Job,
    JobRequest,
    JobStatus,
    Lease,
    OnParentFailure,
    Overlap,
    Recurrence,
    RetryPolicy,
    admit_job,
)
from rota.jobs.fields import read_instant
from rota.rail.environment import with_usual_attempts
from rota.server.api.fields import (
    DEPENDENCIES,
    INSTANT,
    NAME,
    PRIORITY,
    QUEUE,
    UUID,
    WORD,
    IdempotencyKey,
    InstantText,
    Kind,
    Moment,
    Name,
    PageOf,
    Payload,
    Priority,
    Queue,
    Uuid,
    list_given,
)
from rota.server.http.context import ServerContext
from rota.triggers.zone import Fold, Gap

KEY_HEADER = "Idempotency-Key"


class JobView(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename={"due_at": "run_at"}):
    """A job with all its fields.

    ``run_at`` is when it may start, or start again. ``attempt_count`` counts failed attempts.
    ``ending`` says why a FAILED job failed. ``lease`` says which worker runs a RUNNING job, and
    until when the lease lasts. ``deferral`` says which gate held the job back. In a series,
    ``occurrence_at`` is the occurrence of the job, and ``origin`` the id of the first job.
    ``completion`` is the attempt that completed the job.
    """

    id: Uuid
    name: Name
    queue: Queue
    kind: str
    tenant: Kind
    payload: Payload
    priority: Priority
    status: JobStatus
    dependencies: tuple[Uuid, ...]
    retry_policy: RetryPolicy
    due_at: Moment
    attempt_count: int
    loss_count: int
    last_error: str | None
    ending: Ending | None
    lease: Lease | None
    deferral: Deferral | None
    idempotency_key: str | None
    recurrence: Recurrence | None
    occurrence_at: Moment | None
    origin: Uuid | None
    missed_count: int
    is_paused: bool
    auto_remove: bool
    replaces: Uuid | None
    trace: str | None
    on_parent_failure: OnParentFailure
    notifies: bool | None
    label: str | None
    completion: Completion | None
    created_at: Moment
    updated_at: Moment


class JobDetails(JobView, frozen=True, kw_only=True, gc=False):
    """A job with all its fields.

    ``removed_at`` is there once the job has ended: from then on retention removes it, once no
    other job depends on it. Null means never.
    """

    removed_at: Moment | UnsetType | None = UNSET


class JobPage(PageOf[JobView], frozen=True, gc=False):
    """A page of jobs, newest first."""


def view_job(job: Job) -> JobView:
    return msgspec.convert(job, JobView, from_attributes=True)


def view_jobs(jobs: Iterable[Job]) -> list[JobView]:
    return [view_job(job) for job in jobs]


def _between(lowest: int, highest: int) -> Meta:
    return Meta(extra_json_schema={"minimum": lowest, "maximum": highest})


Rule = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 8192})]


class RetryPolicyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a job is attempted, and the delays in between. All fields are optional.

    ``max_delay_seconds`` must not be less than ``base_delay_seconds``. ``LADDER`` takes its delays
    from ``ladder_seconds`` and repeats the last one.
    """

    max_attempts: Annotated[int, _between(1, 10)] = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: Annotated[int, _between(1, 300)] = 10
    max_delay_seconds: Annotated[int, _between(1, 3600)] = 300
    ladder_seconds: Annotated[
        tuple[Annotated[int, _between(1, 604_800)], ...],
        Meta(extra_json_schema={"minItems": 1, "maxItems": 10}),
    ] = (60, 300, 900, 3600)


class RecurrenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A series of jobs. Exactly one of ``cron``, ``rrule`` and ``interval`` is required.

    ``cron`` is an expression of five or six fields, ``rrule`` an RFC 5545 rule, ``interval`` a
    duration such as ``1h30m``, each in ``zone``. ``start`` defaults to now. ``gap`` and ``fold``
    choose what happens when DST skips or repeats a time, ``overlap`` what happens when an
    occurrence comes due while the previous one runs, ``catch_up`` what happens to occurrences that
    no worker could run in time. With ``jitter`` each starts up to that much later. With
    ``alert_after`` there is an alert when none has succeeded that long after one was due.
    """

    cron: Rule | None = None
    rrule: Rule | None = None
    interval: Rule | None = None
    zone: str = "UTC"
    start: InstantText | None = None
    until: InstantText | None = None
    count: Annotated[int, _between(1, 100_000)] | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "once"
    jitter: Annotated[str, Meta(description="A duration such as 5m.")] | None = None
    alert_after: Annotated[str, Meta(description="A duration such as 26h.")] | None = None


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A new job.

    ``kind`` defaults to the name. ``run_at`` defaults to now, or to the first occurrence of the
    ``recurrence``, with which it cannot be combined. ``dependencies`` must exist. With
    ``auto_remove`` the job is deleted when it is COMPLETED. ``on_parent_failure`` says what the job
    does when a dependency fails: it is blocked, runs anyway, or is skipped. Quiet hours hold it
    back if it ``notifies`` people; left out, its kind decides. With a ``label`` it runs only on
    workers that offer this version label.
    """

    name: Name
    queue: Queue
    kind: Kind | None = None
    payload: Payload = {}
    priority: Priority = 5
    dependencies: Annotated[list[Uuid], Meta(extra_json_schema=DEPENDENCIES)] = []
    retry_policy: RetryPolicyBody | UnsetType = UNSET
    run_at: InstantText | None = None
    recurrence: RecurrenceBody | None = None
    idempotency_key: IdempotencyKey | None = None
    auto_remove: bool = False
    on_parent_failure: OnParentFailure = "block"
    notifies: bool | None = None
    label: Kind | None = None


def admit_new_job(
    asked: NewJob, context: ServerContext, tenant: str, now: datetime, key: str | None = None
) -> Job:
    """The job with a new id. ``key`` is the idempotency key in the header, if any."""
    if key is not None and asked.idempotency_key not in {None, key}:
        raise InvalidRequestError("idempotency_key", f"differs from the header {KEY_HEADER}")
    names = {} if key is None else {"idempotency_key": KEY_HEADER}
    with api_names(**names):
        job = admit_job(_request(asked, key), job_id=context.make_id(now), now=now, tenant=tenant)
    context.served.check(job.kind, job.payload)
    return job


@contextmanager
def api_names(**others: str) -> Iterator[None]:
    """Errors about a job name its fields as the API does."""
    try:
        yield
    except InvalidJobError as error:
        name = {"due_at": "run_at", **others}.get(error.field)
        if name is None:
            raise
        raise InvalidJobError(name, error.reason) from error


def _request(asked: NewJob, key: str | None) -> JobRequest:
    given: dict[str, Any] = {"retry_policy": with_usual_attempts(RetryPolicy())}
    if asked.retry_policy is not UNSET:
        given["retry_policy"] = msgspec.structs.asdict(asked.retry_policy)
    if asked.recurrence is not None:
        given["recurrence"] = msgspec.structs.asdict(asked.recurrence)
    return JobRequest(
        name=asked.name,
        queue=asked.queue,
        kind=asked.kind,
        payload=asked.payload,
        priority=asked.priority,
        due_at=asked.run_at,  # type: ignore[arg-type] # admission reads ISO 8601 text, too
        dependencies=tuple(asked.dependencies),
        idempotency_key=asked.idempotency_key if key is None else key,
        auto_remove=asked.auto_remove,
        on_parent_failure=asked.on_parent_failure,
        notifies=asked.notifies,
        label=asked.label,
        **given,
    )


def _documented(kind: str, schema: Mapping[str, Any]) -> Meta:
    return Meta(extra_json_schema={"type": kind, **schema})


# The values are checked against the stored job, not here: errors about the job come first.
Fixed = (
    Annotated[
        Any,
        Meta(
            description="Never changes: only the value that it has.",
            extra_json_schema={"readOnly": True},
        ),
    ]
    | UnsetType
)


class JobUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values for some fields of a job. The other fields stay.

    A ``retry_policy`` replaces the whole policy. ``dependencies`` replace the old ones and change
    only while the job is PENDING. A job may be sent back as it was read, with changes.
    """

    name: Annotated[Any, _documented("string", NAME)] | UnsetType = UNSET
    queue: Annotated[Any, _documented("string", QUEUE)] | UnsetType = UNSET
    kind: Annotated[Any, _documented("string", WORD)] | UnsetType = UNSET
    payload: Any | UnsetType = UNSET
    priority: Annotated[Any, _documented("integer", PRIORITY)] | UnsetType = UNSET
    run_at: Annotated[Any, _documented("string", INSTANT)] | UnsetType = UNSET
    dependencies: (
        Annotated[Any, _documented("array", {"items": {"type": "string", **UUID}, **DEPENDENCIES})]
        | UnsetType
    ) = UNSET
    retry_policy: (
        Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/RetryPolicyBody"})]
        | UnsetType
    ) = UNSET
    auto_remove: Annotated[Any, _documented("boolean", {})] | UnsetType = UNSET
    notifies: Annotated[Any, _documented("boolean", {"nullable": True})] | UnsetType = UNSET
    label: Annotated[Any, _documented("string", {**WORD, "nullable": True})] | UnsetType = UNSET
    id: Fixed = UNSET
    tenant: Fixed = UNSET
    status: Fixed = UNSET
    attempt_count: Fixed = UNSET
    loss_count: Fixed = UNSET
    last_error: Fixed = UNSET
    ending: Fixed = UNSET
    lease: Fixed = UNSET
    deferral: Fixed = UNSET
    idempotency_key: Fixed = UNSET
    recurrence: Fixed = UNSET
    occurrence_at: Fixed = UNSET
    origin: Fixed = UNSET
    missed_count: Fixed = UNSET
    is_paused: Fixed = UNSET
    replaces: Fixed = UNSET
    trace: Fixed = UNSET
    on_parent_failure: Fixed = UNSET
    completion: Fixed = UNSET
    created_at: Fixed = UNSET
    updated_at: Fixed = UNSET


class CopyChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other values for some fields of a new job that is made from another one."""

    name: Name | UnsetType = UNSET
    queue: Queue | UnsetType = UNSET
    payload: Payload | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at: InstantText | UnsetType = UNSET
    retry_policy: RetryPolicyBody | UnsetType = UNSET
    auto_remove: bool | UnsetType = UNSET
    notifies: bool | UnsetType | None = UNSET
    label: Kind | UnsetType | None = UNSET

    def as_fields(self) -> dict[str, Any]:
        """The values that are given, by the field names of ``rota.jobs``."""
        fields = list_given(self)
        if "run_at" in fields:
            fields["due_at"] = fields.pop("run_at")
        if "retry_policy" in fields:
            fields["retry_policy"] = msgspec.structs.asdict(fields["retry_policy"])
        return fields


CHANGEABLE = JobUpdate.__struct_fields__[: JobUpdate.__struct_fields__.index("id")]
FIXED = JobUpdate.__struct_fields__[len(CHANGEABLE) :]


def list_changes(update: JobUpdate) -> dict[str, Any]:
    """The new values by the field names of ``rota.jobs``.

    They include ``updated_at``: the store checks that the job has not changed since.
    """
    given = list_given(update, (*CHANGEABLE, "updated_at"))
    if "run_at" in given:
        given["due_at"] = given.pop("run_at")
    return given


def check_fixed(fixed: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
    """Refuse a new value for a field that never changes.

    JobChangedError when ``updated_at`` differs: the job has changed since it was read.
    """
    if "updated_at" in fixed and not _is_same("updated_at", fixed, shown):
        raise JobChangedError(shown["id"], shown["updated_at"])
    for name in fixed:
        if not _is_same(name, fixed, shown):
            raise InvalidJobError(name, "never changes")


def _is_same(name: str, fixed: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    value, stored = fixed[name], shown[name]
    if name.endswith("_at") and isinstance(stored, str) and isinstance(value, str):
        return read_instant(value, name) == read_instant(stored, name)
    return isinstance(value, bool) is isinstance(stored, bool) and bool(value == stored)
