"""Encodes jobs and attempts as rows, and decodes them; ``BodyCodec`` has what has no column."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

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
    normalize_job_id,
)
from rota.jobs.transitions import SUCCEEDED
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.unit import Stored
from rota.stores.rows import BodyCodec, encode_deferral

Row: TypeAlias = Sequence[Any]
"""Columns by position."""

_PLAIN = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
)
_bodies = BodyCodec((*_PLAIN, "lease", "completion"))
# A member of an enumeration takes longer to look up than the rest of a check.
_READY, _RUNNING = JobStatus.READY, JobStatus.RUNNING
_STATUSES: Mapping[str, JobStatus] = {str(status): status for status in JobStatus}
_ENDINGS: Mapping[str, Ending] = {str(ending): ending for ending in Ending}
_encode = msgspec.json.Encoder().encode
_decode_rest = _bodies.decode
_decode_deferral = msgspec.json.Decoder(Deferral).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
BETWEEN_BODIES = chr(30)
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, TypeError, KeyError)


class Damage(NamedTuple):
    """A job that cannot be read, and why."""

    job_id: JobId
    reason: str


class Decoded(NamedTuple):
    """The jobs of some rows by id, in the order of the rows, and those that cannot be read.

    Others listen for the end of ``watched`` jobs.
    """

    stored: dict[JobId, Stored]
    damaged: list[Damage]
    watched: set[JobId]

    @property
    def jobs(self) -> list[Job]:
        return [one.job for one in self.stored.values()]


def known_ids(job_ids: Iterable[JobId]) -> list[JobId]:
    """The valid ids among these, each once and in order; no job has another one."""
    return sorted({job_id for job_id in job_ids if normalize_job_id(job_id) == job_id})


def digest_identity(identity: Identity | None) -> str | None:
    """An identity in the 128 bits of a UUID; None for none."""
    return None if identity is None else sha256(_encode(identity)).hexdigest()[:32]


def encode_body(job: Job) -> str:
    """What has no column of its own."""
    return _bodies.encode(job).decode()


def recurs(job: Job) -> bool | None:
    """The column ``is_recurring``: NULL for a job that does not recur."""
    return None if job.recurrence is None else True


def encode_attempt(attempt: Attempt) -> str:
    """Programs that do not know successes expect an error."""
    known = replace(attempt, error="") if attempt.error is None else attempt
    return _encode(known).decode()


def encode_jobs(
    jobs: Sequence[Job], bodies: Sequence[str], awaited: Collection[JobId]
) -> list[Any]:
    """The columns that ``insert_missing`` takes; ``awaited`` jobs have dependents.

    A column of usual values stays empty, and one of equal values holds one: the statement fills
    them in. Most of the time of an insert goes into encoding every single value.
    """
    created = [job.created_at for job in jobs]
    return [
        ",".join([job.id for job in jobs]),
        BETWEEN_BODIES.join(bodies),
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
        _unless_all([digest_identity(identity_of(job)) for job in jobs], None),
        _unless_all([recurs(job) for job in jobs], None),
        *[_unless_all(column, None) for column in _encode_leases(jobs)],
        once_if_same([job.tenant for job in jobs]),
        once_if_same([job.queue for job in jobs]),
        once_if_same([job.priority for job in jobs]),
        once_if_same(created),
    ]


def _unless_all(values: list[Any], usual: object) -> list[Any]:
    return [] if values.count(usual) == len(values) else values


def _unless_same(values: list[Any], usual: list[Any]) -> list[Any]:
    return [] if values == usual else values


def once_if_same(values: list[Any]) -> list[Any]:
    """One value if all are equal: to encode a single value takes as long as to compare ten."""
    return values[:1] if values.count(values[0]) == len(values) else values


def encode_moves(jobs: Sequence[Job]) -> list[list[Any]]:
    """The columns that ``move_jobs`` takes."""
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
        *_encode_leases(jobs),
        [job.updated_at for job in jobs],
    ]


def _encode_leases(jobs: Iterable[Job]) -> tuple[list[Any], list[Any], list[Any]]:
    """Worker, start and end of each lease; a job without a lease has its completion there."""
    workers, starts, ends = [], [], []
    for job in jobs:
        lease, completion = job.lease, job.completion
        workers.append(lease.worker if lease else completion and completion.worker)
        starts.append(lease.taken_at if lease else completion and completion.started_at)
        ends.append(lease and lease.until)
    return workers, starts, ends


def decode_jobs(rows: Iterable[Row]) -> Decoded:
    """All jobs that can be read, and those that cannot."""
    decoded = Decoded({}, [], set())
    for row in rows:
        if row[-1]:
            decoded.watched.add(row[0])
        try:
            decoded.stored[row[0]] = Stored(_decode_job(row), row[-2])
        except _UNREADABLE as error:
            decoded.damaged.append(Damage(row[0], _describe(error)))
    return decoded


def is_fresh(job: Job) -> bool:
    """Whether the job has only just been made, and depends on no other."""
    return (
        job.status is _READY
        and not (job.dependencies or job.attempt_count or job.loss_count or job.last_token)
        and job.last_error is None
        and not (job.lease or job.ending or job.deferral)
        and job.updated_at == job.created_at
    )


def encode_fresh(job: Job) -> tuple[Any, ...]:
    """The columns that ``insert_one`` takes."""
    place = (job.id, job.tenant, job.queue, job.priority, job.due_at, job.created_at)
    return (*place, digest_identity(identity_of(job)), recurs(job), encode_body(job))


def encode_all_fresh(jobs: Sequence[Job], bodies: Sequence[str]) -> tuple[Any, ...]:
    """The columns that ``insert_jobs`` takes."""
    return (
        ",".join([job.id for job in jobs]),
        BETWEEN_BODIES.join(bodies),
        once_if_same([job.tenant for job in jobs]),
        once_if_same([job.queue for job in jobs]),
        once_if_same([job.priority for job in jobs]),
        once_if_same([job.due_at for job in jobs]),
        once_if_same([job.created_at for job in jobs]),
    )


class Leases(dict[int, Lease]):
    """The leases of one call by token: equal ones are one object."""

    def __init__(self, worker: str, taken_at: datetime, until: datetime) -> None:
        super().__init__()
        self._terms = (worker, taken_at, until)

    def __missing__(self, token: int) -> Lease:
        worker, taken_at, until = self._terms
        self[token] = lease = Lease(token=token, worker=worker, taken_at=taken_at, until=until)
        return lease


def decode_leased(rows: Iterable[Row], leases: Leases) -> tuple[list[Job], list[Damage]]:
    """Jobs that were just leased, in order, and those that cannot be read."""
    jobs: list[Job] = []
    damaged: list[Damage] = []
    for row in rows:
        try:
            jobs.append(_decode_leased(row, leases))
        except _UNREADABLE as error:
            damaged.append(Damage(row[0], _describe(error)))
    return jobs, damaged


def decode_job(row: Row) -> Job:
    """The job in a row; DamagedJobError if it cannot be read."""
    try:
        return _decode_job(row)
    except _UNREADABLE as error:
        raise DamagedJobError(row[0], _describe(error)) from error


def _decode_leased(row: Row, leases: Leases) -> Job:
    """Without what is the same for all: to decode it for each job would take as long again."""
    # fmt: off
    (
        job_id, tenant, queue, priority, due_at, created_at, attempt_count, loss_count, token,
        last_error, deferral, body,
    ) = row
    # fmt: on
    lease, created_at = leases[token], in_calendar(created_at)
    return Job(
        id=job_id,
        tenant=tenant,
        queue=queue,
        priority=priority,
        status=_RUNNING,
        due_at=created_at if due_at is None else in_calendar(due_at),
        created_at=created_at,
        updated_at=lease.taken_at,
        attempt_count=attempt_count,
        loss_count=loss_count,
        last_token=token,
        last_error=last_error,
        deferral=None if deferral is None else _decode_deferral(deferral),
        lease=lease,
        **_decode_rest(body),
    )


def _decode_job(row: Row) -> Job:
    # fmt: off
    (
        job_id, tenant, queue, priority, status, due_at, created_at, updated_at, attempt_count,
        loss_count, token, last_error, ending, deferral, worker, taken_at, until, body, *_,
    ) = row
    # fmt: on
    is_completed = until is None and taken_at is not None
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
        completion=_decode_completion(worker, taken_at, updated_at) if is_completed else None,
        **_decode_rest(body),
    )


def _decode_lease(token: int, worker: str, taken_at: datetime, until: datetime) -> Lease:
    taken, lasting = in_calendar(taken_at), in_calendar(until)
    return Lease(token=token, worker=worker, taken_at=taken, until=lasting)


def _decode_completion(worker: str, started_at: datetime, updated_at: datetime) -> Completion:
    """A COMPLETED job never changes: it ended when it was updated."""
    started, ended = in_calendar(started_at), in_calendar(updated_at)
    return Completion(worker=worker, started_at=started, ended_at=ended)


def in_calendar(instant: datetime) -> datetime:
    """The driver takes the ends of the calendar for infinities, and returns those as naive."""
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def decode_attempt(job_id: JobId, body: str) -> Attempt:
    """The attempt; DamagedJobError when it cannot be read."""
    try:
        attempt = _decode_attempt(body)
    except _UNREADABLE as error:
        raise DamagedJobError(job_id, _describe(error)) from error
    return replace(attempt, error=None) if attempt.outcome == SUCCEEDED else attempt


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
