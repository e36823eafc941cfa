"""Jobs and attempts <-> documents of MongoDB.

Fields that queries use are fields of the document; ``BodyCodec`` encodes the rest. Instants are
whole microseconds since 1970, since dates of MongoDB have only milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

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
    is_dead_letter,
)
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.mongo.connection import Raw
from rota.stores.rows import BodyCodec, to_instant, to_micros

_DIRECT = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral", "lease"),
    *("completion", "on_parent_failure"),
)
MOVABLE = (
    *("status", "due_at", "attempt_count", "loss_count", "last_error", "ending", "last_token"),
    *("deferral", "updated_at", "worker", "taken_at", "until", "phase", "ended_at"),
)
"""The fields that a move sets or removes."""

_STATUSES: Mapping[str, JobStatus] = {str(status): status for status in JobStatus}
_bodies = BodyCodec(_DIRECT)
_encode = encode_attempt = msgspec.json.Encoder().encode
_decode_deferral = msgspec.json.Decoder(Deferral).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, TypeError, KeyError, ValueError, OverflowError)


def digest(identity: Identity) -> str:
    """An identity in 32 characters."""
    return sha256(_encode(identity)).hexdigest()[:32]


def encode_job(job: Job, now: datetime) -> Raw:
    """The document of a job, without what only the store knows of it."""
    raw: Raw = {
        "_id": job.id,
        **encode_move(job, now),
        "tenant": job.tenant,
        "queue": job.queue,
        "kind": job.kind,
        "priority": job.priority,
        "created_at": to_micros(job.created_at),
        "body": _bodies.encode(job),
    }
    if job.label is not None:
        raw["label"] = job.label
    if job.dependencies:
        raw["dependencies"] = list(job.dependencies)
    if job.recurrence is not None:
        raw["is_recurring"] = True
    if job.on_parent_failure != "block":
        raw["on_parent_failure"] = job.on_parent_failure
    identity = identity_of(job)
    if identity is not None:
        raw["key"] = digest(identity)
    return raw


def encode_move(job: Job, now: datetime) -> Raw:
    """The fields that moves write, without those that have no value.

    A job without a lease has its completion in two fields of the lease.
    """
    lease, completion = job.lease, job.completion
    worker, taken_at = None, None
    if lease is not None:
        worker, taken_at = lease.worker, to_micros(lease.taken_at)
    elif completion is not None:
        worker, taken_at = completion.worker, to_micros(completion.started_at)
    fields = {
        "status": str(job.status),
        "due_at": to_micros(job.due_at),
        "updated_at": to_micros(job.updated_at),
        "attempt_count": job.attempt_count,
        "loss_count": job.loss_count,
        "last_token": job.last_token,
        "last_error": job.last_error,
        "ending": None if job.ending is None else str(job.ending),
        "deferral": None if job.deferral is None else _encode(job.deferral),
        "worker": worker,
        "taken_at": taken_at,
        "until": lease and to_micros(lease.until),
        "phase": phase_of(job, now),
        "ended_at": to_micros(job.updated_at) if job.status.is_terminal else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def phase_of(job: Job, now: datetime) -> str | None:
    """Which partial indexes hold the job: due, later, running, dead, or none of them."""
    if job.status is JobStatus.READY:
        return "due" if job.due_at <= now else "later"
    if job.status is JobStatus.RUNNING:
        return "running"
    return "dead" if is_dead_letter(job) else None


def move_update(job: Job, now: datetime, attempts: Sequence[Attempt] = ()) -> Raw:
    """The update that moves a job and adds attempts."""
    moved = encode_move(job, now)
    update = _set_fields(moved, MOVABLE)
    if attempts:
        update["$push"] = {"attempts": {"$each": [_encode(each) for each in attempts]}}
    return update


def amend_update(job: Job, now: datetime) -> Raw:
    """The update that writes every field of a job."""
    raw = encode_job(job, now)
    del raw["_id"]
    rare = ("label", "dependencies", "is_recurring", "on_parent_failure", "key")
    return _set_fields(raw, (*MOVABLE, *rare))


def _set_fields(values: Raw, names: Iterable[str]) -> Raw:
    removed = {name: "" for name in names if name not in values}
    return {"$set": values, "$unset": removed} if removed else {"$set": values}


def decode_job(raw: Raw) -> Job:
    """The job in a document; DamagedJobError if it cannot be read."""
    try:
        ending, deferral = raw.get("ending"), raw.get("deferral")
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
            on_parent_failure=raw.get("on_parent_failure", "block"),
            **_decode_holder(raw),
            **_bodies.decode(bytes(raw["body"])),
        )
    except _UNREADABLE as error:
        raise DamagedJobError(raw["_id"], f"{type(error).__name__}: {error}") from error


def decode_readable(found: Iterable[Raw]) -> list[Job]:
    """The jobs in documents, without those that cannot be read."""
    jobs: list[Job] = []
    for raw in found:
        with suppress(DamagedJobError):
            jobs.append(decode_job(raw))
    return jobs


def _decode_holder(raw: Raw) -> dict[str, Any]:
    """The lease; or the completion, of a job that never changes again."""
    if "worker" not in raw and "until" not in raw:
        return {}
    worker, taken_at = raw["worker"], to_instant(raw["taken_at"])
    if "until" in raw:
        until = to_instant(raw["until"])
        lease = Lease(token=raw["last_token"], worker=worker, taken_at=taken_at, until=until)
        return {"lease": lease}
    ended_at = to_instant(raw["updated_at"])
    return {"completion": Completion(worker=worker, started_at=taken_at, ended_at=ended_at)}


def decode_attempts(job_id: JobId, bodies: Iterable[Any]) -> tuple[Attempt, ...]:
    """The attempts of a job; DamagedJobError if one cannot be read."""
    try:
        return tuple(_decode_attempt(bytes(body)) for body in bodies)
    except _UNREADABLE as error:
        raise DamagedJobError(job_id, f"{type(error).__name__}: {error}") from error
