"""Jobs and attempts as they are stored: a head, which scripts read, and a body.

The head is an array of texts in MessagePack, which scripts read twice as fast as JSON; ``Head``
names the texts. The body is the JSON of all other fields (``BodyCodec``).
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec.structs import asdict, replace

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
    OnParentFailure,
    format_instant,
    is_dead_letter,
)
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.rows import BodyCodec

Shown: TypeAlias = tuple[Sequence[bytes], Sequence[bytes | None], Sequence[bytes | None]]
"""Ids, heads and bodies, as scripts return jobs."""


class Links(NamedTuple):
    """What a head says about dependencies: one text."""

    is_awaited: bool = False
    """Whether another job depends or once depended on this one."""
    open_count: int = 0
    """The number of dependencies for which the job waits."""
    version: int = 0
    """Grows with each commit, so that no two heads of a job are the same."""
    on_parent_failure: OnParentFailure = "block"

    def encode(self) -> str:
        mark = "a" if self.is_awaited else "-"
        return f"{mark} {self.open_count} {self.version} {self.on_parent_failure}"


class Head(NamedTuple):
    """The texts of a head. A change of a job writes those up to ``slot``.

    Scripts read and write the heads of all jobs they lease or end, and each text costs them time.
    """

    code: str
    token: str
    due: str
    updated: str
    until: str
    """Empty without a lease."""
    worker: str
    taken: str
    """When the job was leased. In a COMPLETED job these two are those of its completion."""
    trials: str
    """JSON of attempts, ending and deferral; mostly empty."""
    slot: str
    """Where the job is in ``ready`` and in every listing, without its id; see ``keys``."""
    identity: str
    links: str
    """See ``Links``."""

    @property
    def partition(self) -> tuple[str, str]:
        """The tenant and the queue."""
        tenant, queue, _ = self.slot.split("\0")
        return tenant, queue

    @property
    def linked(self) -> Links:
        mark, open_count, version, policy = self.links.split(" ")
        return Links(mark == "a", int(open_count), int(version), cast(OnParentFailure, policy))


UNLINKED = Links()

DEAD = "D"
"""The code of a dead letter; its status is FAILED."""

LATER = "L"
"""The listing of READY jobs that are due later. It is not the code of any job."""

ONCE, SERIES = "o", "s"
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
        *("deferral", "completion"),
    }
)
_INSTANT_LENGTH = len("2026-05-01T12:00:00.000000Z")
_DAMAGE = (msgspec.MsgspecError, KeyError, IndexError, TypeError, ValueError, OverflowError)

logger = logging.getLogger("rota.stores.redis")


class _Trials(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a change writes of a job that scripts do not read."""

    attempt_count: int = 0
    loss_count: int = 0
    last_error: str | None = None
    ending: Ending | None = None
    deferral: Deferral | None = None


_UNTRIED = _Trials()
_encode = msgspec.json.Encoder().encode
_decode_trials = msgspec.json.Decoder(_Trials).decode
_decode_attempt = msgspec.json.Decoder(Attempt).decode
_bodies = BodyCodec(_COLUMNS)

encode_body = _bodies.encode
pack_head = msgspec.msgpack.Encoder().encode
unpack_head = msgspec.msgpack.Decoder(list[str]).decode


def code_of(job: Job) -> str:
    """The letter for the job's status; a dead letter has its own."""
    return DEAD if is_dead_letter(job) else CODES[job.status]


def status_of(code: str) -> JobStatus:
    return _STATUSES[code]


def rank_of(priority: int) -> str:
    """Two digits: the higher the priority, the lower."""
    return f"{HIGHEST_PRIORITY - priority:02}"


def encode_identity(identity: Identity | None) -> str:
    """The identity as JSON; empty if there is none."""
    return "" if identity is None else _encode(identity).decode()


def text_of(instant: datetime) -> str:
    """As ``format_instant``, much faster if it is in UTC, as in a job."""
    return _utc_text_of(instant) if instant.tzinfo is UTC else format_instant(instant)


@lru_cache(64)  # a job has the same instant several times, and so have jobs of one call
def _utc_text_of(instant: datetime) -> str:
    text = _encode(instant)[1:-1].decode()
    return text if len(text) == _INSTANT_LENGTH else f"{text[:-1]}.000000Z"


_instant_of = lru_cache(64)(datetime.fromisoformat)


def encode_trials(job: Job) -> str:
    trials = _Trials(job.attempt_count, job.loss_count, job.last_error, job.ending, job.deferral)
    return "" if trials == _UNTRIED else _encode(trials).decode()


def end_trials(trials: str, ending: Ending, error: str | None) -> str:
    """The trials of a job that has ended so."""
    tried = _decode_trials(trials) if trials else _UNTRIED
    return _encode(replace(tried, ending=ending, last_error=error)).decode()


def encode_move(job: Job) -> list[str]:
    """The texts of a head that a change writes."""
    lease, completion = job.lease, job.completion
    leased = ("", "", "")
    if lease is not None:
        leased = (text_of(lease.until), lease.worker, text_of(lease.taken_at))
    elif completion is not None:
        leased = ("", completion.worker, text_of(completion.started_at))
    return [
        code_of(job),
        str(job.last_token),
        text_of(job.due_at),
        text_of(job.updated_at),
        *leased,
        encode_trials(job),
        encode_slot(job),
    ]


def encode_slot(job: Job) -> str:
    letter = ONCE if job.recurrence is None else SERIES
    if job.due_at != job.created_at:
        letter = letter.upper()
    rank, created = rank_of(job.priority), text_of(job.created_at)
    return f"{job.tenant}\0{job.queue}\0{letter}{rank}{created}"


def encode_head(job: Job, links: Links = UNLINKED) -> list[str]:
    """The texts of a head, for a job that is new."""
    return [
        *encode_move(job),
        encode_identity(identity_of(job)),
        links.encode(),
    ]


def decode_head(head: bytes) -> Head:
    return Head(*unpack_head(head))


def decode_job(job_id: JobId, head: bytes, body: bytes) -> Job:
    """The job; DamagedJobError if it cannot be read."""
    try:
        code, token, due, updated, until, worker, taken, trials, slot, _, _ = unpack_head(head)
        tenant, queue, tail = slot.split("\0")
        fields: dict[str, Any] = _bodies.decode(body)
        fields.update(
            id=job_id,
            tenant=tenant,
            queue=queue,
            priority=HIGHEST_PRIORITY - int(tail[1:3]),
            status=_STATUSES[code],
            due_at=_instant_of(due),
            created_at=_instant_of(tail[3:]),
            updated_at=_instant_of(updated),
            last_token=int(token),
        )
        if until:
            taken_at, lasts_until = _instant_of(taken), _instant_of(until)
            fields["lease"] = Lease(
                token=int(token), worker=worker, taken_at=taken_at, until=lasts_until
            )
        elif taken:
            fields["completion"] = Completion(
                worker=worker, started_at=_instant_of(taken), ended_at=_instant_of(updated)
            )
        if trials:
            fields.update(asdict(_decode_trials(trials)))
        return Job(**fields)
    except _DAMAGE as error:
        raise DamagedJobError(job_id, str(error)) from error


def decode_all(shown: Shown) -> list[Job]:
    """The jobs that a script returns, without those that are gone or cannot be read."""
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
    """An attempt behind its job's id and its token, so that attempts are in order."""
    return f"{attempt.job_id}{attempt.token:012}{_encode(attempt).decode()}"


def decode_attempt(member: bytes) -> Attempt:
    return _decode_attempt(member[36 + 12 :])


def encode_names(names: Iterable[str] | None) -> bytes | str:
    """Chosen names as JSON; empty if all are chosen."""
    return "" if names is None else _encode(list(names))
