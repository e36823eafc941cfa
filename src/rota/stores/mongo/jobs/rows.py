"""Jobs and attempts <-> documents of MongoDB.

What queries look at has a field of its own; the rest is kept together, as ``BodyCodec`` says.
Instants are whole microseconds since 1970: dates of MongoDB know only milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from rota.errors import DamagedJobError
from rota.jobs import Attempt, Deferral, Ending, Job, JobId, JobStatus, Lease
from rota.jobs.codec import BodyCodec
from rota.stores.kernel.identity import identity_of
from rota.stores.mongo.gateway import Raw
from rota.stores.mongo.steps.names import JOBS, VERSION
from rota.stores.mongo.steps.step import StagedWrite
from rota.stores.survey import is_dead

_DIRECT = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral", "lease"),
)
_MOVABLE = (
    *("status", "due_at", "attempt_count", "loss_count", "last_error", "ending", "last_token"),
    *("deferral", "updated_at", "worker", "taken_at", "until", "lane", "ended_at"),
)
"""The fields that a move writes or removes."""

LEASE_MARK = "mark"
"""The mark of the call that leased the job."""
SETTLE_MARKS = "settled"
"""The marks of the last calls that settled it: it may be leased again before one has looked."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STATUSES: Mapping[str, JobStatus] = {str(status): status for status in JobStatus}
_bodies = BodyCodec(_DIRECT)
_encode = msgspec.json.Encoder().encode
_decode_deferral = msgspec.json.Decoder(Deferral).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, TypeError, KeyError, ValueError, OverflowError)


class Kept(NamedTuple):
    """A job as it was read."""

    job: Job
    version: int
    is_awaited: bool
    """Whether any other depends on it."""
    attempts: Sequence[bytes]
    marks: Mapping[str, Any]
    """By what a call that has written the job knows that it was the one, whoever writes it next."""


def to_number(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def to_instant(number: int) -> datetime:
    return _EPOCH + number * _MICROSECOND


def digest_identity(job: Job) -> str | None:
    """The job's identity in 32 characters; None when it has none."""
    identity = identity_of(job)
    return None if identity is None else sha256(_encode(identity)).hexdigest()[:32]


def encode_job(
    job: Job, now: datetime, *, is_awaited: bool = False, attempts: Sequence[bytes] = ()
) -> Raw:
    """All of the job but its id and version."""
    raw: Raw = {
        **encode_move(job, now, is_awaited=is_awaited),
        "tenant": job.tenant,
        "queue": job.queue,
        "priority": job.priority,
        "created_at": to_number(job.created_at),
        "body": _bodies.encode(job),
    }
    if job.dependencies:
        raw["dependencies"] = list(job.dependencies)
    if job.recurrence is not None:
        raw["is_recurring"] = True
    if is_awaited:
        raw["is_awaited"] = True
    if attempts:
        raw["attempts"] = list(attempts)
    digest = digest_identity(job)
    if digest is not None:
        raw |= {"key": digest, "keys": [digest]}
    return raw


def encode_move(job: Job, now: datetime, *, is_awaited: bool) -> Raw:
    """What moves with the job, without what is not there."""
    lease = job.lease
    fields = {
        "status": str(job.status),
        "due_at": to_number(job.due_at),
        "updated_at": to_number(job.updated_at),
        "attempt_count": job.attempt_count,
        "loss_count": job.loss_count,
        "last_token": job.last_token,
        "last_error": job.last_error,
        "ending": None if job.ending is None else str(job.ending),
        "deferral": None if job.deferral is None else _encode(job.deferral),
        "worker": lease and lease.worker,
        "taken_at": lease and to_number(lease.taken_at),
        "until": lease and to_number(lease.until),
        "lane": lane_of(job, now),
        "ended_at": to_number(job.updated_at)
        if job.status.is_terminal and not is_awaited
        else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def move_update(job: Job, now: datetime) -> dict[str, Any]:
    """The update that moves a job on which nobody depends, whatever else has become of it."""
    moved = encode_move(job, now, is_awaited=False)
    update: dict[str, Any] = {"$set": moved, "$inc": {VERSION: 1}}
    removed = {name: "" for name in _MOVABLE if name not in moved}
    return {**update, "$unset": removed} if removed else update


def lane_of(job: Job, now: datetime) -> str | None:
    """Where the job is looked for, if anywhere: among those due, due later, running or dead."""
    if job.status is JobStatus.READY:
        return "due" if job.due_at <= now else "later"
    if job.status is JobStatus.RUNNING:
        return "running"
    return "dead" if is_dead(job) else None


def stage_new(job: Job, now: datetime, *, is_awaited: bool = False) -> StagedWrite:
    """The write that keeps a new job."""
    raw = encode_job(job, now, is_awaited=is_awaited)
    return StagedWrite(JOBS, job.id, None, {VERSION: 1, **raw})


def stage_kept(kept: Kept, now: datetime) -> StagedWrite:
    """The write that keeps a job as it now is; ``version`` is that at which it was read."""
    raw = encode_job(kept.job, now, is_awaited=kept.is_awaited, attempts=kept.attempts)
    after = {VERSION: kept.version + 1, **raw, **kept.marks}
    return StagedWrite(JOBS, kept.job.id, kept.version, after)


def stage_removal(kept: Kept) -> StagedWrite:
    """The write that keeps a job no longer."""
    return StagedWrite(JOBS, kept.job.id, kept.version, None)


def decode_kept(raw: Raw) -> Kept:
    """The job in a document; DamagedJobError when it cannot be one."""
    attempts = [bytes(each) for each in raw.get("attempts", ())]
    marks = {name: raw[name] for name in (LEASE_MARK, SETTLE_MARKS) if name in raw}
    return Kept(decode_job(raw), raw[VERSION], raw.get("is_awaited", False), attempts, marks)


def decode_job(raw: Raw) -> Job:
    """The job in a document; DamagedJobError when it cannot be one."""
    try:
        return _decode_job(raw)
    except _UNREADABLE as error:
        raise DamagedJobError(raw["_id"], f"{type(error).__name__}: {error}") from error


def decode_readable(found: Iterable[Raw]) -> list[Job]:
    """The jobs in documents, without those that are not there yet or cannot be read."""
    return [decode_job(raw) for raw in found if VERSION in raw and not is_damaged(raw)]


def is_damaged(raw: Raw) -> bool:
    """Whether the job in a document cannot be read."""
    try:
        decode_job(raw)
    except DamagedJobError:
        return True
    return False


def _decode_job(raw: Raw) -> Job:
    until, ending, deferral = raw.get("until"), raw.get("ending"), raw.get("deferral")
    lease = None
    if until is not None:
        lease = Lease(
            token=raw["last_token"],
            worker=raw["worker"],
            taken_at=to_instant(raw["taken_at"]),
            until=to_instant(until),
        )
    return Job(
        id=raw["_id"],
        tenant=raw["tenant"],
        queue=raw["queue"],
        priority=raw["priority"],
        status=_STATUSES[raw["status"]],
        due_at=to_instant(raw["due_at"]),
        created_at=to_instant(raw["created_at"]),
        updated_at=to_instant(raw["updated_at"]),
        attempt_count=raw["attempt_count"],
        loss_count=raw["loss_count"],
        last_token=raw["last_token"],
        last_error=raw.get("last_error"),
        ending=None if ending is None else Ending(ending),
        deferral=None if deferral is None else _decode_deferral(bytes(deferral)),
        lease=lease,
        **_bodies.decode(bytes(raw["body"])),
    )


def encode_attempt(attempt: Attempt) -> bytes:
    return _encode(attempt)


def decode_attempt(job_id: JobId, body: bytes) -> Attempt:
    """The attempt; DamagedJobError when it cannot be read."""
    try:
        return _decode_attempt(body)
    except _UNREADABLE as error:
        raise DamagedJobError(job_id, f"{type(error).__name__}: {error}") from error
