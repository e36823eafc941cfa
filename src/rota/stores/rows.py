"""Jobs and attempts as rows of SQL tables; ``BodyCodec`` encodes what has no column."""

import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias, TypedDict

import msgspec
from msgspec.structs import FieldInfo, replace
from msgspec.structs import fields as fields_of

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Completion,
    Deferral,
    Ending,
    Job,
    JobId,
    JobStatus,
    Lease,
    RetryPolicy,
)
from rota.jobs.transitions import SUCCEEDED
from rota.stores.kernel.limits import Standing
from rota.stores.kernel.records import UNREADABLE_COPY, seal

_encode = msgspec.json.Encoder().encode


class BodyCodec:
    """Encodes the fields of a job that are not among ``columns`` as JSON, for stores with tables.

    Fields that statements use have columns of their own. The rest is stored together, without
    fields at their default: a plain job's body is little more than its name and payload.
    """

    def __init__(self, columns: Collection[str]) -> None:
        rest = [field for field in fields_of(Job) if field.name not in columns]
        self._read: Callable[[Job], tuple[Any, ...]] = attrgetter(*(field.name for field in rest))
        self._policy_at = [field.name for field in rest].index("retry_policy")
        self._usual_policy: RetryPolicy = rest[self._policy_at].default
        self._body: Callable[..., Any] = msgspec.defstruct(
            "_Body", [_field_with_default(field) for field in rest], omit_defaults=True, gc=False
        )
        kept: Any = TypedDict("kept", {field.name: field.type for field in rest}, total=False)  # type: ignore[misc] # the fields are those of Job
        self.decode: Callable[[str | bytes], Any] = msgspec.json.Decoder(kept).decode
        """The fields by name, without those at their default."""

    def encode(self, job: Job) -> bytes:
        """The fields, as JSON."""
        rest = self._read(job)
        policy, at = rest[self._policy_at], self._policy_at
        # Left out only when it is the same object.
        if policy is not self._usual_policy and policy == self._usual_policy:
            rest = (*rest[:at], self._usual_policy, *rest[at + 1 :])
        return _encode(self._body(*rest))


def _field_with_default(field: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    return field.name, field.type


Row: TypeAlias = tuple[Any, ...]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = (
    *("id", "tenant", "queue", "kind", "priority", "status", "due_at", "created_at"),
    *("updated_at", "attempt_count", "loss_count", "last_error", "ending", "lease_token"),
    *("lease_worker", "lease_taken_at", "lease_until", "last_token", "deferral"),
    *("idempotency_key", "occurrence", "body"),
)
"""What ``decode_job`` reads, in its order."""

_STATUSES = {str(status): status for status in JobStatus}
_ENDINGS = {str(ending): ending for ending in Ending}
_bodies = BodyCodec(frozenset({*COLUMNS, "lease", "completion"}))
_ASIDE, _BODY = 26, 27
"""Where ``encode_job`` has these two."""
_UNTRIED = (0, 0, None, None)
_DAMAGE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, OverflowError)
logger = logging.getLogger("rota.stores")

_decode_body = _bodies.decode
_decode_deferral = msgspec.json.Decoder(Deferral).decode

encode_body = _bodies.encode


def to_micros(instant: datetime) -> int:
    """Microseconds since 1970; exact, and ordered as the instants are."""
    elapsed = instant - EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


@lru_cache(maxsize=64)  # the jobs of one lease share most instants
def to_instant(micros: int) -> datetime:
    """The instant, in UTC."""
    return EPOCH + timedelta(0, 0, micros)


def encode_ids(names: Iterable[str]) -> str:
    """Ids or other names as the JSON array that statements take."""
    return _encode(list(names)).decode()


def made_ready(jobs: Iterable[Job]) -> list[Job]:
    """The jobs as a native path stores them: without dependencies a job is READY."""
    return [
        job
        if job.dependencies or job.status is JobStatus.READY
        else replace(job, status=JobStatus.READY)
        for job in jobs
    ]


def is_due_at(job: Job, now: datetime) -> bool | None:
    """The column ``is_due``: None unless the job is READY."""
    return job.due_at <= now if job.status is JobStatus.READY else None


def encode_deferral(deferral: Deferral | None) -> str | None:
    """A deferral as JSON."""
    return None if deferral is None else _encode(deferral).decode()


def encode_job(
    job: Job, now: datetime, open_count: int = 0, *, is_awaited: bool = False
) -> tuple[Any, ...]:
    """All columns of the table, in its order."""
    due_at = to_micros(job.due_at)
    created_at = due_at if job.created_at is job.due_at else to_micros(job.created_at)
    updated_at = created_at if job.updated_at is job.created_at else to_micros(job.updated_at)
    return (
        job.id,
        job.tenant,
        job.queue,
        job.kind,
        job.priority,
        job.status,
        due_at,
        is_due_at(job, now),
        created_at,
        updated_at,
        updated_at if job.status.is_terminal else None,
        job.attempt_count,
        job.loss_count,
        job.last_error,
        job.ending,
        *_encode_lease(job),
        job.last_token,
        encode_deferral(job.deferral),
        job.idempotency_key,
        job.occurrence,
        None if job.recurrence is None else 1,
        is_awaited,
        open_count,
        None,
        encode_body(job),
    )


def encode_unreadable(row: Row, content: bytes) -> Row:
    """The row of a stand-in, made into that of a job that cannot be read."""
    return (*row[:7], None, *row[8:_ASIDE], UNREADABLE_COPY, seal(content), *row[_BODY + 1 :])


def encode_move(job: Job, now: datetime) -> Row:
    """The values of ``move_job``."""
    updated_at = to_micros(job.updated_at)
    return (
        *(job.id, job.status, to_micros(job.due_at), is_due_at(job, now)),
        *(job.attempt_count, job.loss_count, job.last_error, job.ending),
        *_encode_lease(job),
        *(job.last_token, encode_deferral(job.deferral)),
        *(updated_at, updated_at if job.status.is_terminal else None),
    )


def encode_amendment(job: Job, now: datetime) -> Row:
    """The values of ``amend_job``."""
    updated_at = to_micros(job.updated_at)
    return (
        *(job.id, job.queue, job.kind, job.priority, job.status),
        *(to_micros(job.due_at), is_due_at(job, now)),
        *(updated_at, updated_at if job.status.is_terminal else None),
        *(encode_deferral(job.deferral), encode_body(job)),
    )


def read_payload(row: Row) -> Any:
    """A copy of the payload in a row that ``encode_job`` made."""
    return _decode_body(row[_BODY]).get("payload", {})


def decode_job(row: Row) -> Job:
    """The job in the first columns of a row; DamagedJobError if they are not a job's."""
    job_id, tenant, queue, kind, priority, status, due_at, created_at, updated_at = row[:9]
    try:
        rest = _decode_body(row[21])
        job = Job(
            id=job_id,
            tenant=tenant,
            queue=queue,
            kind=kind,
            name=rest.pop("name"),
            payload=rest.pop("payload", {}),
            priority=priority,
            status=_STATUSES[status],
            due_at=to_instant(due_at),
            created_at=to_instant(created_at),
            updated_at=to_instant(updated_at),
            lease=None if row[13] is None else _decode_lease(*row[13:17]),
            last_token=row[17],
            idempotency_key=row[19],
            occurrence=row[20],
        )
        # Most jobs are plain and succeed at once: what is rare is read last.
        if row[9:13] != _UNTRIED or row[18] is not None:
            rest |= _decode_history((*row[9:13], row[18]))
        if row[13] is None and row[14] is not None:
            rest["completion"] = _decode_completion(row[14], row[15], updated_at)
        return replace(job, **rest) if rest else job
    except _DAMAGE as error:
        raise DamagedJobError(job_id, str(error)) from error


def _decode_history(columns: Row) -> dict[str, Any]:
    attempt_count, loss_count, last_error, ending, deferral = columns
    return {
        "attempt_count": attempt_count,
        "loss_count": loss_count,
        "last_error": last_error,
        "ending": None if ending is None else _ENDINGS[ending],
        "deferral": None if deferral is None else _decode_deferral(deferral),
    }


def decode_readable(
    rows: Iterable[Row], decode: Callable[[Row], Job] = decode_job, *, skips_damaged: bool = True
) -> list[Job]:
    """The jobs in these rows; DamagedJobError for one that cannot be read, or it is left out."""
    found: list[Job] = []
    for row in rows:
        try:
            found.append(decode(row))
        except DamagedJobError as damage:
            if not skips_damaged:
                raise
            logger.warning("%s", damage)
    return found


def decode_standings(rows: Iterable[Row]) -> list[Standing]:
    """Due jobs in rows; a damaged instant is found when the job is taken."""
    found: list[Standing] = []
    created = EPOCH
    for job_id, tenant, queue, priority, created_at in rows:
        with suppress(OverflowError):
            created = to_instant(created_at)
        found.append(Standing(job_id, tenant, queue, priority, created))
    return found


def encode_attempt(attempt: Attempt) -> Row:
    """The columns of the table, in its order."""
    return (
        *(attempt.job_id, attempt.token, attempt.number, attempt.worker),
        *(to_micros(attempt.started_at), to_micros(attempt.ended_at)),
        *(attempt.outcome, attempt.error or ""),
    )


def encode_reports(attempts: Iterable[Attempt]) -> list[Row]:
    """The rows of what workers reported about these attempts."""
    return [
        (each.job_id, each.token, each.traceback, each.log)
        for each in attempts
        if each.traceback is not None or each.log is not None
    ]


def decode_attempt(row: Row) -> Attempt:
    """The attempt in a row of ``attempt_columns``."""
    job_id, token, number, worker, started_at, ended_at, outcome, error, traceback, log = row
    return Attempt(
        job_id=job_id,
        number=number,
        token=token,
        worker=worker,
        started_at=to_instant(started_at),
        ended_at=to_instant(ended_at),
        outcome=outcome,
        error=None if outcome == SUCCEEDED else error,
        traceback=traceback,
        log=log,
    )


def decode_attempts(job_id: JobId, rows: Iterable[Row]) -> tuple[Attempt, ...]:
    """The attempts in rows; DamagedJobError if one cannot be read."""
    try:
        return tuple(map(decode_attempt, rows))
    except (OverflowError, TypeError) as error:
        raise DamagedJobError(job_id, f"an attempt: {error}") from error


def _encode_lease(job: Job) -> tuple[int | str | None, ...]:
    """The columns of the lease. A job without a lease has its completion in two of them."""
    lease, completion = job.lease, job.completion
    if lease is not None:
        return lease.token, lease.worker, to_micros(lease.taken_at), to_micros(lease.until)
    if completion is not None:
        return None, completion.worker, to_micros(completion.started_at), None
    return None, None, None, None


def _decode_lease(token: int, worker: str, taken_at: int, until: int) -> Lease:
    return Lease(token=token, worker=worker, taken_at=to_instant(taken_at), until=to_instant(until))


def _decode_completion(worker: str, started_at: int, updated_at: int) -> Completion:
    """A COMPLETED job never changes: it ended when it was updated."""
    return Completion(
        worker=worker, started_at=to_instant(started_at), ended_at=to_instant(updated_at)
    )
