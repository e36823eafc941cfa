"""Walking through everything a store keeps: documents first, then jobs, a portion at a time."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from rota.errors import InvalidCursorError, InvalidInputError, InvalidJobError
from rota.jobs import PAUSED_UNTIL, Job, JobStatus, are_job_ids, normalize_job_id
from rota.stores.protocol import KeptDocument, KeptJob, Portion, Record, UnreadableJob

PORTION_SIZE = 4 << 20
"""Bytes after which a portion ends; one record may exceed them."""

SEAL = b"unreadable:"
"""Before the content of a job that cannot be read: with it, nobody takes it for a job's body."""

_DOCUMENTS, _JOBS = "documents", "jobs"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode
_decode_place = msgspec.json.Decoder(list[str]).decode

Sized = TypeVar("Sized")


class JobPortion(NamedTuple):
    """Some jobs, and the place behind the last of them; None when there are no more."""

    records: Sequence[KeptJob | UnreadableJob]
    place: str | None


ReadDocuments = Callable[[str, str], Awaitable[Sequence[KeptDocument]]]
"""The documents after a collection and key, in their order; none only when there are no more."""

ReadJobs = Callable[[str], Awaitable[JobPortion]]
"""The jobs behind a place; the first one is empty."""


async def walk(cursor: str | None, read_documents: ReadDocuments, read_jobs: ReadJobs) -> Portion:
    """The portion behind a cursor."""
    part, *place = [_DOCUMENTS, "", ""] if cursor is None else _read_cursor(cursor)
    if part == _DOCUMENTS:
        documents = await read_documents(place[0], place[1])
        if documents:
            last = documents[-1]
            return Portion(documents, _cursor(_DOCUMENTS, last.collection, last.key))
        place = [""]
    jobs = await read_jobs(place[0])
    return Portion(jobs.records, None if jobs.place is None else _cursor(_JOBS, jobs.place))


def check_portion(limit: int) -> int:
    """A number of records that is one."""
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, got {limit}", {"field": "limit"})
    return limit


def check_job_ids(records: Iterable[Record]) -> None:
    """InvalidJobError when a job has an id that a store on a server cannot keep."""
    jobs = (each for each in records if not isinstance(each, KeptDocument))
    ids = [each.job.id if isinstance(each, KeptJob) else each.job_id for each in jobs]
    if not are_job_ids(ids):
        strange = next(each for each in ids if normalize_job_id(each) != each)
        raise InvalidJobError("id", f'must be a UUID in lower case, got "{strange[:40]}"')


def cut_at_size(items: Iterable[Sized], size_of: Callable[[Sized], int]) -> Iterator[Sized]:
    """The first of these that make up a portion; at least one. No more is read of the rest."""
    size = 0
    for item in items:
        yield item
        size += size_of(item)
        if size >= PORTION_SIZE:
            return


def describe_unreadable(store: str, reason: str, kept: Mapping[str, Any]) -> bytes:
    """The content of a job that cannot be read; ``kept`` is whatever there is of it."""
    return _encode({"store": store, "reason": reason, "kept": kept})


def seal(content: bytes) -> bytes:
    """The content, as a body that is never a job's."""
    return SEAL + content


def unseal(body: bytes) -> bytes | None:
    """The content in such a body; None in that of a job."""
    return body[len(SEAL) :] if body.startswith(SEAL) else None


def make_stand_in(record: UnreadableJob) -> Job:
    """A job for one that cannot be read, where nothing but a job can be kept.

    It is never due, never ends, and waits for nobody: whatever becomes of those it depends on, it
    stays as it is. They are not pruned, and who depends on it goes on waiting.
    """
    return Job(
        id=record.job_id,
        tenant=record.tenant,
        queue=record.queue,
        name="unreadable",
        kind="unreadable",
        status=JobStatus.READY,
        dependencies=record.dependencies,
        due_at=PAUSED_UNTIL,
        created_at=_EPOCH,
        updated_at=_EPOCH,
    )


def _cursor(*place: str) -> str:
    return _encode(place).decode()


def _read_cursor(cursor: str) -> list[str]:
    try:
        place = _decode_place(cursor)
    except msgspec.DecodeError as error:
        raise InvalidCursorError("is none of this store's") from error
    if [*place[:1], len(place)] not in ([_DOCUMENTS, 3], [_JOBS, 2]):
        raise InvalidCursorError("is none of this store's")
    return place
