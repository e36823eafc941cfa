"""What ``dump`` reads: everything under the keys of a store."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rota.errors import DamagedJobError, InvalidCursorError
from rota.jobs import Attempt, JobId
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    unseal,
)
from rota.stores.protocol import KeptDocument, KeptJob, UnreadableJob
from rota.stores.redis.database import NO_LIMIT, Database
from rota.stores.redis.documents import scan_documents
from rota.stores.redis.keys import LISTING_CODES
from rota.stores.redis.rows import decode_attempt, decode_job

_CONTENTS = ("heads", "bodies", "parents", "results")
_SOUND_BODY = b'{"name":"","kind":""}'


class _Shown(NamedTuple):
    """A job as it is stored."""

    job_id: JobId
    attempts: Sequence[bytes]
    head: bytes
    body: bytes
    parents: bytes
    result: bytes


async def read_document_portion(
    database: Database, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """The documents after a collection and key."""
    first = f"({collection}\0{key}" if collection else "-"
    return await scan_documents(database, first, "+", limit, PORTION_SIZE)


async def read_job_portion(database: Database, place: str, limit: int) -> JobPortion:
    """The jobs after a place: a listing, and the last member read of it."""
    code, last = place[:1] or LISTING_CODES[0], place[1:]
    if code not in LISTING_CODES:
        raise InvalidCursorError("is not from this store")
    part = "ready" if code == "R" else f"listing-{code}"
    ranges = (f"({last}" if last else "-", "+")
    found = await database.read_ranges(part, _CONTENTS, limit, ranges, size=PORTION_SIZE)
    members, *columns = found
    ids = [member[-36:].decode() for member in members]
    attempts = await _read_attempts(database, ids)
    shown = zip(ids, (attempts[each] for each in ids), *columns, strict=True)
    records = [_read_record(_Shown(*each)) for each in shown]
    return JobPortion(records, _following(code, members[-1].decode() if members else ""))


async def _read_attempts(database: Database, ids: Sequence[JobId]) -> dict[JobId, list[bytes]]:
    ranges = [part for each in ids for part in (f"[{each}", f"({each}~")]
    (members,) = await database.read_ranges("attempts", (), NO_LIMIT, ranges)
    found: dict[JobId, list[bytes]] = {each: [] for each in ids}
    for member in members:
        found[member[:36].decode()].append(member)
    return found


def _following(code: str, last_member: str) -> str | None:
    """The place behind a member, or the beginning of the next listing; None behind the last."""
    if last_member:
        return code + last_member
    left = LISTING_CODES.partition(code)[2]
    return left[0] if left else None


def _read_record(shown: _Shown) -> KeptJob | UnreadableJob:
    try:
        job = decode_job(shown.job_id, shown.head, shown.body)
        return KeptJob(job, _decode_attempts(shown), shown.result or None)
    except DamagedJobError as damage:
        return _set_aside(shown, damage.reason)


def _decode_attempts(shown: _Shown) -> tuple[Attempt, ...]:
    try:
        return tuple(map(decode_attempt, shown.attempts))
    except msgspec.MsgspecError as error:
        raise DamagedJobError(shown.job_id, f"an attempt: {error}") from error


def _set_aside(shown: _Shown, reason: str) -> UnreadableJob:
    content = unseal(shown.body)
    if content is None:
        kept = {"id": shown.job_id, "head": shown.head, "body": shown.body}
        content = describe_unreadable("redis", reason, kept | {"attempts": shown.attempts})
    try:  # perhaps the head can be read
        job = decode_job(shown.job_id, shown.head, _SOUND_BODY)
    except DamagedJobError:
        return UnreadableJob(shown.job_id, "", "", (), content)
    parents = tuple(sorted(shown.parents.decode().split()))
    return UnreadableJob(shown.job_id, job.tenant, job.queue, parents, content)
