"""Jobs and attempts <-> what is kept of them: a head, which scripts read, and a body.

The head is an array of texts in MessagePack, which scripts read in half the time of JSON: the code,
the last token, due, updated, the lease's until, worker and taken, and what else a change writes as
JSON; then tenant, queue, rank, created, the dependencies, the identity, how many dependencies are
waited for, which only scripts know, and the sort: a job that comes once, or one of a series.
See ``BodyCodec`` for the body.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

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
    format_instant,
)
from rota.jobs.codec import BodyCodec
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.identity import identity_of
from rota.stores.survey import is_dead

Shown: TypeAlias = tuple[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]]
"""Ids, heads and bodies, as scripts show jobs."""

DEAD = "D"
"""The code of a dead letter, which is FAILED like others."""

LATER = "L"
"""The listing of those that are READY, and due later. No job has it as its code."""

ONCE, SERIES = "o", "s"
ONCE_LETTERS, SERIES_LETTERS = "oO", "sS"
"""As listings have it: a capital for those that were not due from their creation on."""

CODES = {
    JobStatus.PENDING: "P",
    JobStatus.READY: "R",
    JobStatus.RUNNING: "U",
    JobStatus.COMPLETED: "C",
    JobStatus.FAILED: "F",
    JobStatus.BLOCKED: "B",
}
_STATUSES = {code: status for status, code in CODES.items()} | {
    DEAD: JobStatus.FAILED,
    LATER: JobStatus.READY,
}
_COLUMNS = frozenset(
    {
        *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
        *("attempt_count", "loss_count", "last_error", "ending", "lease", "last_token"),
        *("deferral", "dependencies"),
    }
)
_INSTANT_LENGTH = len("2026-05-01T12:00:00.000000")
_DAMAGE = (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError, OverflowError)

logger = logging.getLogger("rota.stores.redis")


class _Trials(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a change writes of a job that no script looks at."""

    attempt_count: int = 0
    loss_count: int = 0
    last_error: str | None = None
    ending: Ending | None = None
    deferral: Deferral | None = None


_UNTRIED = _Trials()
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_decode_trials = msgspec.json.Decoder(_Trials).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_bodies = BodyCodec(_COLUMNS)

encode_body = _bodies.encode
decode_head = msgspec.msgpack.Decoder(list[str]).decode


def code_of(job: Job) -> str:
    """The letter for the job's status; a dead letter has one of its own."""
    return DEAD if is_dead(job) else CODES[job.status]


def status_of(code: str) -> JobStatus:
    """The status that a letter stands for."""
    return _STATUSES[code]


def rank_of(priority: int) -> str:
    """Two digits: the higher the priority, the lower."""
    return f"{HIGHEST_PRIORITY - priority:02}"


def encode_identity(job: Job) -> str:
    """What only one job may have, as JSON; nothing when any may be like it."""
    identity = identity_of(job)
    return "" if identity is None else _encode(identity).decode()


def text_of(instant: datetime) -> str:
    """As ``format_instant`` has it, in a third of the time where it is in UTC, as in a job."""
    if instant.tzinfo is not UTC:
        return format_instant(instant)
    return f"{instant.isoformat(timespec='microseconds')[:_INSTANT_LENGTH]}Z"


def encode_trials(job: Job) -> str:
    """What a change writes of a job that no script looks at, as JSON; mostly nothing."""
    trials = _Trials(job.attempt_count, job.loss_count, job.last_error, job.ending, job.deferral)
    return "" if trials == _UNTRIED else _encode(trials).decode()


def encode_move(job: Job) -> list[str]:
    """The part of a head that a change writes."""
    lease = job.lease
    return [
        code_of(job),
        str(job.last_token),
        text_of(job.due_at),
        text_of(job.updated_at),
        *(
            ("", "", "")
            if lease is None
            else (text_of(lease.until), lease.worker, text_of(lease.taken_at))
        ),
        encode_trials(job),
    ]


def encode_head(job: Job) -> bytes:
    """The head of a job; how many dependencies it waits for is for the script to say."""
    return _pack(_head_of(job))


def encode_addition(job: Job, now: str) -> tuple[str | bytes, ...]:
    """A READY job that depends on nobody, as the script for such jobs takes it.

    Id, head, body, where it stands, when it is due unless that place tells that it is, identity.
    """
    head = _head_of(job)
    due_at, (tenant, queue, rank, created_at, _, identity, _, sort) = head[2], head[8:]
    is_prompt = due_at == created_at
    letter = sort if is_prompt else sort.upper()
    place = f"{tenant}\0{queue}\0{letter}{rank}{created_at}{job.id}"
    told = "" if is_prompt and due_at <= now else due_at
    return job.id, _pack(head), encode_body(job), place, told, identity


def _head_of(job: Job) -> list[str]:
    return [
        *encode_move(job),
        job.tenant,
        job.queue,
        rank_of(job.priority),
        text_of(job.created_at),
        " ".join(job.dependencies),
        encode_identity(job),
        "0",
        ONCE if job.recurrence is None else SERIES,
    ]


def decode_job(job_id: JobId, head: bytes, body: bytes) -> Job:
    """The job; DamagedJobError when it cannot be one."""
    try:
        code, token, due_at, updated_at, until, worker, taken_at, trials, *place = decode_head(head)
        tenant, queue, rank, created_at, dependencies = place[:5]
        tried = _decode_trials(trials) if trials else _UNTRIED
        return Job(
            id=job_id,
            tenant=tenant,
            queue=queue,
            priority=HIGHEST_PRIORITY - int(rank),
            status=_STATUSES[code],
            due_at=datetime.fromisoformat(due_at),
            created_at=datetime.fromisoformat(created_at),
            updated_at=datetime.fromisoformat(updated_at),
            attempt_count=tried.attempt_count,
            loss_count=tried.loss_count,
            last_error=tried.last_error,
            ending=tried.ending,
            lease=_decode_lease(int(token), worker, taken_at, until) if until else None,
            last_token=int(token),
            deferral=tried.deferral,
            dependencies=tuple(dependencies.split()),
            **_bodies.decode(body),
        )
    except _DAMAGE as error:
        raise DamagedJobError(job_id, str(error)) from error


def decode_all(shown: Shown) -> list[Job]:
    """The jobs that a script shows, without those that are gone or cannot be read."""
    found: list[Job] = []
    for job_id, head, body in zip(*shown, strict=True):
        if head is None or body is None:
            continue
        try:
            found.append(decode_job(job_id.decode(), head, body))
        except DamagedJobError as damage:
            logger.warning("%s", damage)
    return found


def encode_attempt(attempt: Attempt) -> str:
    """An attempt, behind its token so that attempts are in order."""
    return f"{attempt.token:012}{_encode(attempt).decode()}"


def decode_attempt(kept: bytes) -> Attempt:
    return _decode_attempt(kept[12:])


def encode_places(jobs: Iterable[Job]) -> bytes:
    """Where there is something to lease, as listeners are told."""
    return _encode(list({(job.queue, job.tenant): None for job in jobs}))


def encode_names(names: Iterable[str] | None) -> bytes | str:
    """Names that were chosen, as JSON; nothing when all are."""
    return "" if names is None else _encode(list(names))


def _decode_lease(token: int, worker: str, taken_at: str, until: str) -> Lease:
    return Lease(
        token=token,
        worker=worker,
        taken_at=datetime.fromisoformat(taken_at),
        until=datetime.fromisoformat(until),
    )
