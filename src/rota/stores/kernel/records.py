"""``dump`` and ``load``: all records of a store, portion by portion, documents before jobs."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from rota.errors import InvalidCursorError, InvalidInputError, InvalidJobError
from rota.jobs import (
    PAUSED_UNTIL,
    Attempt,
    Job,
    JobId,
    JobStatus,
    are_job_ids,
    is_done,
    normalize_job_id,
)
from rota.jobs.states import TERMINAL
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.unit import (
    Decision,
    NewJob,
    Placed,
    Plan,
    Reading,
    ReadStatuses,
    Writes,
    read_dependents,
    read_twins,
    read_waiting,
)
from rota.stores.protocol import KeptDocument, KeptJob, Portion, Record, UnreadableJob

PORTION_SIZE = 4 << 20
"""Bytes after which a portion ends; one record may exceed them."""

UNREADABLE_COPY = "it could not be read in the store it was copied from"
"""Why a loaded job is unreadable."""

_SEAL = b"unreadable:"
"""The start of the stored content of an unreadable job, so that it is never read as a body."""

_DOCUMENTS, _JOBS = "documents", "jobs"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode
_decode_place = msgspec.json.Decoder(list[str]).decode

Sized = TypeVar("Sized")


class JobPortion(NamedTuple):
    """Some jobs, and the place after the last of them; None if there are no more."""

    records: Sequence[KeptJob | UnreadableJob]
    place: str | None


ReadDocumentPortion = Callable[[str, str], Awaitable[Sequence[KeptDocument]]]
"""The documents after a collection and key, in order; none only if there are no more."""

ReadJobPortion = Callable[[str], Awaitable[JobPortion]]
"""The jobs after a place; the first place is empty."""


async def walk(
    cursor: str | None, read_documents: ReadDocumentPortion, read_jobs: ReadJobPortion
) -> Portion:
    """The portion after a cursor; see ``PortableStore.dump``."""
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
    """The limit itself, if it is at least 1."""
    if limit < 1:
        raise InvalidInputError(f"limit must be at least 1, got {limit}", {"field": "limit"})
    return limit


def cut_at_size(items: Iterable[Sized], size_of: Callable[[Sized], int]) -> Iterator[Sized]:
    """The first items that make up a portion, at least one. The rest is not consumed."""
    size = 0
    for item in items:
        yield item
        size += size_of(item)
        if size >= PORTION_SIZE:
            return


def load_jobs(records: Sequence[Record], now: datetime) -> Plan[int]:
    """Store the jobs among these records as they are; how many were new.

    Jobs come in any order. So a new job may have dependents already, and may have ended for jobs
    that came before it and wait for it.
    """
    loaded = [each for each in map(_read_record, records) if each is not None]
    named = {each for one in loaded for each in (one.job.id, *one.job.dependencies)}
    stored: dict[JobId, str] = (yield ReadStatuses(named)) if named else {}
    new = yield from _find_new(loaded, stored)
    statuses = stored | {job_id: one.job.status for job_id, one in new.items()}
    parents = {each for one in new.values() for each in one.job.dependencies}
    dependents = yield from read_dependents(new.keys())
    writes = Writes(now, awaited=parents & stored.keys(), is_silent=True)
    for job_id, one in new.items():
        policy = one.job.on_parent_failure
        is_open = [not is_done(statuses.get(each), policy) for each in one.job.dependencies]
        is_awaited = job_id in parents or bool(dependents[job_id])
        writes.new[job_id] = NewJob(one.job, sum(is_open), is_awaited, one.unreadable)
        writes.attempts += one.attempts
        if one.result is not None:
            writes.results[job_id] = one.result
    ended = [job_id for job_id in new if statuses[job_id] in TERMINAL]
    for waiting in (yield from read_waiting(ended, is_deep=False)):
        policy = waiting.on_parent_failure
        left = waiting.open_count - sum(is_done(statuses[each], policy) for each in waiting.parents)
        writes.placed[waiting.job_id] = Placed(waiting, JobStatus.PENDING, left)
    return Decision(writes, len(new))


class _Loaded(NamedTuple):
    job: Job
    attempts: Sequence[Attempt] = ()
    unreadable: bytes | None = None
    result: bytes | None = None


def _read_record(record: Record) -> _Loaded | None:
    if isinstance(record, KeptDocument):
        return None
    if isinstance(record, KeptJob):
        return _Loaded(record.job, record.attempts, result=record.result)
    return _Loaded(make_stand_in(record), unreadable=record.content)


def _find_new(
    loaded: Sequence[_Loaded], stored: Mapping[JobId, str]
) -> Reading[dict[JobId, _Loaded]]:
    """Those whose id and key do not exist yet."""
    identities = {identity for one in loaded if (identity := identity_of(one.job)) is not None}
    taken = {identity_of(twin) for twin in (yield from read_twins(identities))} - {None}
    new: dict[JobId, _Loaded] = {}
    for one in loaded:
        if one.job.id not in stored and identity_of(one.job) not in taken:
            new.setdefault(one.job.id, one)
    return new


def check_job_ids(records: Iterable[Record]) -> None:
    """As ``check_ids``, for the jobs among these records."""
    jobs = (each for each in records if not isinstance(each, KeptDocument))
    check_ids([each.job.id if isinstance(each, KeptJob) else each.job_id for each in jobs])


def check_ids(job_ids: Sequence[JobId]) -> None:
    """InvalidJobError if a job has an id that a store on a server cannot keep."""
    if not are_job_ids(job_ids):
        strange = next(each for each in job_ids if normalize_job_id(each) != each)
        raise InvalidJobError("id", f'must be a UUID in lower case, got "{strange[:40]}"')


def describe_unreadable(store: str, reason: str, kept: Mapping[str, Any]) -> bytes:
    """The content of a job that cannot be read; ``kept`` is all that the store has of it."""
    return _encode({"store": store, "reason": reason, "kept": kept})


def seal(content: bytes) -> bytes:
    """The content, in a form that is never a job's body."""
    return _SEAL + content


def unseal(body: bytes) -> bytes | None:
    """The content in a sealed body; None if the body is a job's."""
    return body[len(_SEAL) :] if body.startswith(_SEAL) else None


def make_stand_in(record: UnreadableJob) -> Job:
    """A job in place of one that cannot be read.

    It is never due and never ends. So the jobs it depends on are not pruned, and its dependents
    keep waiting.
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
        raise InvalidCursorError("is not from this store") from error
    if [*place[:1], len(place)] not in ([_DOCUMENTS, 3], [_JOBS, 2]):
        raise InvalidCursorError("is not from this store")
    return place
