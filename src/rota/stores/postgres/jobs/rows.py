"""Jobs and attempts <-> rows of the tables; see ``BodyCodec`` for what has no column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Deferral,
    Ending,
    Job,
    JobId,
    JobStatus,
    Lease,
    normalize_job_id,
)
from rota.jobs.codec import BodyCodec
from rota.stores.kernel.identity import identity_of

Row: TypeAlias = Sequence[Any]
"""As a driver gives it: columns by position."""

_PLAIN = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
)
_bodies = BodyCodec((*_PLAIN, "lease"))
_STATUSES: Mapping[str, JobStatus] = {str(status): status for status in JobStatus}
_ENDINGS: Mapping[str, Ending] = {str(ending): ending for ending in Ending}
_encode = msgspec.json.Encoder().encode
_decode_rest = _bodies.decode
_decode_deferral = msgspec.json.Decoder(Deferral).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, TypeError, KeyError)


class KeptJob(NamedTuple):
    """A job as it was read, and whether any other depends on it."""

    job: Job
    is_awaited: bool


class Damage(NamedTuple):
    """A job that cannot be read, and why."""

    job_id: JobId
    reason: str


class Reading(NamedTuple):
    """What was read: the jobs by id, in the order they came in, and those that are damaged."""

    kept: dict[JobId, KeptJob]
    damaged: list[Damage]

    @property
    def jobs(self) -> dict[JobId, Job]:
        return {job_id: kept.job for job_id, kept in self.kept.items()}


def known_ids(job_ids: Iterable[JobId]) -> list[JobId]:
    """Those that a job may have, each once and in order; no job is called anything else."""
    return sorted({job_id for job_id in job_ids if normalize_job_id(job_id) == job_id})


def digest_identity(job: Job) -> str | None:
    """The job's identity in the 128 bits of a UUID; None when it has none."""
    identity = identity_of(job)
    return None if identity is None else sha256(_encode(identity)).hexdigest()[:32]


def encode_body(job: Job) -> str:
    """What has no column of its own."""
    return _bodies.encode(job).decode()


def recurs(job: Job) -> bool | None:
    """``is_recurring``: nothing is kept for a job that does not."""
    return None if job.recurrence is None else True


def encode_deferral(deferral: Deferral | None) -> str | None:
    return None if deferral is None else _encode(deferral).decode()


def encode_attempt(attempt: Attempt) -> str:
    return _encode(attempt).decode()


def encode_jobs(
    jobs: Sequence[Job], bodies: Sequence[str], awaited: Collection[JobId] = ()
) -> list[Sequence[Any]]:
    """The columns that ``insert_jobs`` takes; ``awaited`` are those that others depend on.

    A column in which all is as usual stays empty, and one in which all is the same has that once:
    the statement fills them in. Most of the time that a job takes here goes into writing each
    single value for the server.
    """
    created = [job.created_at for job in jobs]
    return [
        [job.id for job in jobs],
        bodies,
        _unless_all([job.status for job in jobs], JobStatus.READY),
        [job.id in awaited for job in jobs] if awaited else [],
        _unless_same([job.due_at for job in jobs], created),
        _unless_same([job.updated_at for job in jobs], created),
        _unless_all([job.attempt_count for job in jobs], 0),
        _unless_all([job.loss_count for job in jobs], 0),
        _unless_all([job.last_token for job in jobs], 0),
        _unless_all([job.last_error for job in jobs], None),
        _unless_all([job.ending for job in jobs], None),
        _unless_all([encode_deferral(job.deferral) for job in jobs], None),
        _unless_all([digest_identity(job) for job in jobs], None),
        _unless_all([recurs(job) for job in jobs], None),
        _once_if_same([job.tenant for job in jobs]),
        _once_if_same([job.queue for job in jobs]),
        _once_if_same([job.priority for job in jobs]),
        _once_if_same(created),
    ]


def are_alike(columns: Sequence[Sequence[Any]]) -> bool:
    """Whether jobs, as ``encode_jobs`` has them, differ in nothing but their ids and bodies."""
    return not any(columns[2:-4]) and all(len(column) == 1 for column in columns[-4:])


def _unless_all(values: list[Any], usual: object) -> list[Any]:
    return [] if values.count(usual) == len(values) else values


def _unless_same(values: list[Any], usual: list[Any]) -> list[Any]:
    return [] if values == usual else values


def _once_if_same(values: list[Any]) -> list[Any]:
    return values[:1] if values.count(values[0]) == len(values) else values


def encode_moves(jobs: Sequence[Job]) -> list[list[Any]]:
    """The columns that ``move_jobs`` takes."""
    leases = [job.lease for job in jobs]
    return [
        [job.id for job in jobs],
        [job.status for job in jobs],
        [job.due_at for job in jobs],
        [job.attempt_count for job in jobs],
        [job.loss_count for job in jobs],
        [job.last_token for job in jobs],
        [job.last_error for job in jobs],
        [job.ending for job in jobs],
        [encode_deferral(job.deferral) for job in jobs],
        [lease and lease.worker for lease in leases],
        [lease and lease.taken_at for lease in leases],
        [lease and lease.until for lease in leases],
        [job.updated_at for job in jobs],
    ]


def decode_jobs(rows: Iterable[Row]) -> Reading:
    """All jobs that can be read, and those that cannot."""
    reading = Reading({}, [])
    for row in rows:
        try:
            reading.kept[row[0]] = KeptJob(_decode_job(row), row[-1])
        except _UNREADABLE as error:
            reading.damaged.append(Damage(row[0], _say(error)))
    return reading


def decode_job(row: Row) -> Job:
    """The job in a row; DamagedJobError when it cannot be one."""
    try:
        return _decode_job(row)
    except _UNREADABLE as error:
        raise DamagedJobError(row[0], _say(error)) from error


def _decode_job(row: Row) -> Job:
    job_id, tenant, queue, priority, status, due_at, created_at, updated_at = row[:8]
    attempt_count, loss_count, token, last_error, ending, deferral = row[8:14]
    worker, taken_at, until, body, _ = row[14:]
    return Job(
        id=job_id,
        tenant=tenant,
        queue=queue,
        priority=priority,
        status=_STATUSES[status],
        due_at=in_calendar(due_at),
        created_at=in_calendar(created_at),
        updated_at=in_calendar(updated_at),
        attempt_count=attempt_count,
        loss_count=loss_count,
        last_token=token,
        last_error=last_error,
        ending=None if ending is None else _ENDINGS[ending],
        deferral=None if deferral is None else _decode_deferral(deferral),
        lease=None if until is None else _decode_lease(token, worker, taken_at, until),
        **_decode_rest(body),
    )


def _decode_lease(token: int, worker: str, taken_at: datetime, until: datetime) -> Lease:
    taken, lasting = in_calendar(taken_at), in_calendar(until)
    return Lease(token=token, worker=worker, taken_at=taken, until=lasting)


class LeaseTerms:
    """Who leases, from when and until when: reads the rows of one lease."""

    def __init__(self, worker: str, now: datetime, until: datetime) -> None:
        self._worker = worker
        self._now = now
        self._until = until
        self._leases: dict[int, Lease] = {}

    def decode(self, rows: Iterable[Row]) -> tuple[list[Job], list[Damage]]:
        """The jobs that were leased, in order, and those among them that are damaged."""
        jobs: list[Job] = []
        damaged: list[Damage] = []
        for row in rows:
            try:
                jobs.append(self._decode_job(row))
            except _UNREADABLE as error:
                damaged.append(Damage(row[0], _say(error)))
        return jobs, damaged

    def _decode_job(self, row: Row) -> Job:
        (
            job_id,
            tenant,
            queue,
            priority,
            due_at,
            created_at,
            attempt_count,
            loss_count,
            token,
            last_error,
            deferral,
            body,
            _,
        ) = row
        return Job(
            id=job_id,
            tenant=tenant,
            queue=queue,
            priority=priority,
            status=JobStatus.RUNNING,
            due_at=in_calendar(due_at),
            created_at=in_calendar(created_at),
            updated_at=self._now,
            attempt_count=attempt_count,
            loss_count=loss_count,
            last_token=token,
            last_error=last_error,
            deferral=None if deferral is None else _decode_deferral(deferral),
            lease=self._leases.get(token) or self._lease(token),
            **_decode_rest(body),
        )

    def _lease(self, token: int) -> Lease:
        """Leases that are the same in everything are one object."""
        lease = Lease(token=token, worker=self._worker, taken_at=self._now, until=self._until)
        self._leases[token] = lease
        return lease


def in_calendar(instant: datetime) -> datetime:
    """The driver takes the ends of the calendar for infinities, which it gives back as naive."""
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def decode_attempt(job_id: JobId, body: str) -> Attempt:
    """The attempt; DamagedJobError when it cannot be read."""
    try:
        return _decode_attempt(body)
    except _UNREADABLE as error:
        raise DamagedJobError(job_id, _say(error)) from error


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
