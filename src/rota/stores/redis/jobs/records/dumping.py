"""``dump``: everything under the keys of a store, a portion at a time."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rota.errors import DamagedJobError, InvalidCursorError, StoreUnavailableError
from rota.jobs import Attempt, JobId
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    unseal,
    walk,
)
from rota.stores.protocol import KeptDocument, KeptJob, Portion, UnreadableJob
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.rows import decode_attempt, decode_job
from rota.stores.redis.scripts import load_script

DUMP_DOCUMENTS = load_script(__package__, "dump_documents")
DUMP_JOBS = load_script(__package__, "dump_jobs")

CODES = "PRLUCFDB"
"""The listings, in the order in which they are gone through; each job is in one of them."""

_ID_LENGTH = 36
_SOUND_BODY = b'{"name":"","kind":""}'


class _Shown(NamedTuple):
    """A job as it is kept."""

    job_id: JobId
    head: bytes
    body: bytes
    attempts: Sequence[bytes]


async def dump(database: Database, cursor: str | None, limit: int) -> Portion:
    """The portion behind a cursor; see the protocol."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        last = f"{collection}\0{key}" if collection else ""
        arguments = (last, limit, PORTION_SIZE)
        shown = await database.read(DUMP_DOCUMENTS, database.keys.documents, arguments)
        return [_document(*each) for each in zip(*shown, strict=True)]

    async def read_jobs(place: str) -> JobPortion:
        code, last = place[:1] or CODES[0], place[1:]
        if code not in CODES:
            raise InvalidCursorError("is none of this store's")
        arguments = (code, last, limit, PORTION_SIZE)
        answer = await database.read(DUMP_JOBS, database.keys.jobs, arguments)
        cascade_count, last_member, *shown = answer
        _refuse_when_unfinished(cascade_count)
        records = [
            _read_record(_Shown(each[0].decode(), *each[1:])) for each in zip(*shown, strict=True)
        ]
        return JobPortion(records, _following(code, last_member.decode()))

    return await walk(cursor, read_documents, read_jobs)


def _following(code: str, last_member: str) -> str | None:
    """The place behind a member, or the beginning of the next listing; None behind the last."""
    if last_member:
        return code + last_member
    left = CODES.partition(code)[2]
    return left[0] if left else None


def _refuse_when_unfinished(cascade_count: int) -> None:
    if cascade_count:
        raise StoreUnavailableError(
            "Jobs have ended whose dependents have not all been told yet: a process was "
            "interrupted. Run a worker for a minute, which completes it, and try again",
            {"reason": "dependents are still to be told", "outcome": "nothing was written"},
        )


def _document(name: bytes, version: bytes, body: bytes) -> KeptDocument:
    collection, _, key = name.decode().partition("\0")
    return KeptDocument(collection, key, int(version), body)


def _read_record(shown: _Shown) -> KeptJob | UnreadableJob:
    try:
        job = decode_job(shown.job_id, shown.head, shown.body)
        return KeptJob(job, _read_attempts(shown))
    except DamagedJobError as damage:
        return _set_aside(shown, damage.reason)


def _read_attempts(shown: _Shown) -> tuple[Attempt, ...]:
    try:
        return tuple(decode_attempt(each[_ID_LENGTH:]) for each in shown.attempts)
    except msgspec.MsgspecError as error:
        raise DamagedJobError(shown.job_id, f"an attempt: {error}") from error


def _set_aside(shown: _Shown, reason: str) -> UnreadableJob:
    content = unseal(shown.body)
    if content is None:
        kept = {"id": shown.job_id, "head": shown.head, "body": shown.body}
        kept |= {"attempts": shown.attempts}
        content = describe_unreadable("redis", reason, kept)
    tenant, queue, parents = _read_place(shown)
    return UnreadableJob(shown.job_id, tenant, queue, parents, content)


def _read_place(shown: _Shown) -> tuple[str, str, tuple[JobId, ...]]:
    """Tenant, queue and dependencies, where at least the head can be read."""
    try:
        job = decode_job(shown.job_id, shown.head, _SOUND_BODY)
    except DamagedJobError:
        return "", "", ()
    return job.tenant, job.queue, tuple(sorted(job.dependencies))
