"""Jobs and attempts <-> rows of the tables; see ``BodyCodec`` for what has no column."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Deferral,
    Ending,
    Job,
    JobId,
    JobStatus,
    Lease,
)
from rota.jobs.codec import BodyCodec

Row: TypeAlias = tuple[Any, ...]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = frozenset(
    {
        *("id", "tenant", "queue", "kind", "priority", "status", "due_at"),
        *("created_at", "updated_at", "attempt_count", "loss_count", "last_error", "ending"),
        *("lease", "last_token", "deferral", "idempotency_key", "occurrence"),
    }
)
_STATUSES = {str(status): status for status in JobStatus}
_ENDINGS = {str(ending): ending for ending in Ending}
_bodies = BodyCodec(_COLUMNS)
_UNTRIED = (0, 0, None, None, None)
_DAMAGE = (msgspec.MsgspecError, KeyError, TypeError, ValueError, OverflowError)
logger = logging.getLogger("rota.stores.sqlite")

_encode = msgspec.json.Encoder().encode
_decode_body = _bodies.decode
_decode_deferral = msgspec.json.Decoder(Deferral).decode


def to_micros(instant: datetime) -> int:
    """Microseconds since 1970; exact, and ordered as the instants are."""
    elapsed = instant - EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def to_instant(micros: int) -> datetime:
    """The instant, in UTC."""
    return EPOCH + timedelta(0, 0, micros)


def encode_ids(job_ids: Iterable[JobId]) -> str:
    """Names of any kind as the JSON array that statements take."""
    return _encode(list(job_ids)).decode()


encode_body = _bodies.encode
"""What has no column of its own."""


def place_of(job: Job, now: datetime) -> int | None:
    """``is_due``: the line a READY job stands in."""
    return job.due_at <= now if job.status is JobStatus.READY else None


def end_of(job: Job, updated_at: int) -> int | None:
    """``ended_at``: when the job ended, if it has."""
    status = job.status
    has_ended = (
        status is JobStatus.COMPLETED or status is JobStatus.FAILED or status is JobStatus.BLOCKED
    )
    return updated_at if has_ended else None


def encode_lease(lease: Lease | None) -> tuple[int | str | None, ...]:
    """The four columns of a lease."""
    if lease is None:
        return None, None, None, None
    return lease.token, lease.worker, to_micros(lease.taken_at), to_micros(lease.until)


def encode_deferral(deferral: Deferral | None) -> str | None:
    """A deferral as JSON."""
    return None if deferral is None else _encode(deferral).decode()


def encode_job(job: Job, now: datetime) -> Row:
    """The row that ``insert`` takes."""
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
        place_of(job, now),
        created_at,
        updated_at,
        end_of(job, updated_at),
        job.attempt_count,
        job.loss_count,
        job.last_error,
        job.ending,
        *encode_lease(job.lease),
        job.last_token,
        encode_deferral(job.deferral),
        job.idempotency_key,
        job.occurrence,
        None if job.recurrence is None else 1,
        encode_body(job),
    )


def read_payload(row: Row) -> Any:
    """A copy of the payload in a row that ``encode_job`` made."""
    return _decode_body(row[-1]).get("payload", {})


def decode_job(row: Row) -> Job:
    """The job in a row; DamagedJobError when it cannot be one."""
    job_id, tenant, queue, kind, priority, status, due_at, created_at, updated_at = row[:9]
    attempt_count, loss_count, last_error, ending = row[9:13]
    last_token, deferral, idempotency_key, occurrence, body = row[17:]
    try:
        return Job(
            id=job_id,
            tenant=tenant,
            queue=queue,
            kind=kind,
            priority=priority,
            status=_STATUSES[status],
            due_at=to_instant(due_at),
            created_at=to_instant(created_at),
            updated_at=to_instant(updated_at),
            attempt_count=attempt_count,
            loss_count=loss_count,
            last_error=last_error,
            ending=None if ending is None else _ENDINGS[ending],
            lease=_decode_lease(*row[13:17]),
            last_token=last_token,
            deferral=None if deferral is None else _decode_deferral(deferral),
            idempotency_key=idempotency_key,
            occurrence=occurrence,
            **_decode_body(body),
        )
    except _DAMAGE as error:
        raise DamagedJobError(job_id, str(error)) from error


def decode_leased(row: Row, leased: Lease) -> Job:
    """The job in a row of ``lease_lane``; ``leased`` is its lease but for the token."""
    job_id, tenant, queue, kind, priority, due_at, created_at, token = row[:8]
    idempotency_key, occurrence, body = row[13:]
    try:
        rest = _decode_body(body)
        due = to_instant(due_at)
        job = Job(
            id=job_id,
            tenant=tenant,
            queue=queue,
            kind=kind,
            name=rest.pop("name"),
            payload=rest.pop("payload") if "payload" in rest else {},
            priority=priority,
            status=JobStatus.RUNNING,
            due_at=due,
            created_at=due if created_at == due_at else to_instant(created_at),
            updated_at=leased.taken_at,
            lease=_under_token(leased, token),
            last_token=token,
            idempotency_key=idempotency_key,
            occurrence=occurrence,
        )
        # Most jobs are plain and succeed at once: what is rare is looked at last.
        if row[8:13] != _UNTRIED:
            rest |= _decode_trials(*row[8:13])
        return replace(job, **rest) if rest else job
    except _DAMAGE as error:
        raise DamagedJobError(job_id, str(error)) from error


def decode_all(rows: Iterable[Row]) -> list[Job]:
    """The jobs in these rows, without those that cannot be read."""
    found: list[Job] = []
    for row in rows:
        try:
            found.append(decode_job(row))
        except DamagedJobError as damage:
            logger.warning("%s", damage)
    return found


def encode_attempt(attempt: Attempt) -> Row:
    """The row that ``add_attempt`` takes."""
    job_id, number, token, worker, started_at, ended_at, outcome, error = astuple(attempt)
    return (
        *(job_id, number, token, worker),
        *(to_micros(started_at), to_micros(ended_at), outcome, error),
    )


def decode_attempt(row: Row) -> Attempt:
    """The attempt in a row of ``read_attempts``."""
    job_id, number, token, worker, started_at, ended_at, outcome, error = row
    return Attempt(
        job_id=job_id,
        number=number,
        token=token,
        worker=worker,
        started_at=to_instant(started_at),
        ended_at=to_instant(ended_at),
        outcome=outcome,
        error=error,
    )


def _under_token(leased: Lease, token: int) -> Lease:
    return Lease(token=token, worker=leased.worker, taken_at=leased.taken_at, until=leased.until)


def _decode_lease(token: int | None, worker: str, taken_at: int, until: int) -> Lease | None:
    if token is None:
        return None
    taken, lasting = to_instant(taken_at), to_instant(until)
    return Lease(token=token, worker=worker, taken_at=taken, until=lasting)


def _decode_trials(
    attempt_count: int,
    loss_count: int,
    last_error: str | None,
    ending: str | None,
    deferral: str | None,
) -> dict[str, Any]:
    return {
        "attempt_count": attempt_count,
        "loss_count": loss_count,
        "last_error": last_error,
        "ending": None if ending is None else _ENDINGS[ending],
        "deferral": None if deferral is None else _decode_deferral(deferral),
    }
