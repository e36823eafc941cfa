"""``amend``, ``delete`` and ``prune``: decided on what was read, and written if it still is so."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import DuplicateJobError, JobNotFoundError, StoreUnavailableError
from rota.jobs import (
    Job,
    JobId,
    amend_job,
    check_deletion,
    format_instant,
    normalize_job_id,
)
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.changing.settling import Cascade, finish_cascade
from rota.stores.redis.jobs.reading.reading import look_up, show
from rota.stores.redis.jobs.rows import code_of, decode_job, encode_body, encode_head
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import put_in_doubt

AMEND = load_script(__package__, "amend")
REMOVE = load_script(__package__, "remove")
PRUNE = load_script(__package__, "prune")

PRUNED_AT_ONCE = 500
"""How many jobs one script removes."""


class Amendment(NamedTuple):
    """Which fields of whose job are to change, and when; ``sender`` tells listeners."""

    tenant: str
    job_id: JobId
    fields: Mapping[str, Any]
    now: datetime
    sender: str


class _Kept(NamedTuple):
    """A job as it was read: what it is, and what the script compares it with."""

    job: Job
    head: bytes
    body: bytes
    graph: bytes


async def amend(database: Database, wanted: Amendment) -> tuple[Job, list[bytes]]:
    """The job as it has become, and what listeners are to be told."""
    while True:
        kept = await _read(database, wanted.tenant, wanted.job_id)
        others: dict[JobId, Job] = {}
        if "dependencies" in wanted.fields:
            others = await _read_ancestors(database, wanted)
        amended = amend_job(
            kept.job,
            wanted.fields,
            wanted.now,
            dependency_statuses={job.id: job.status for job in others.values()},
            existing_jobs={job.id: job.dependencies for job in others.values()},
        )
        reply = await database.write(
            AMEND, database.keys.jobs, _parts(kept, amended, others, wanted)
        )
        if isinstance(reply, bytes):
            raise DuplicateJobError(reply.decode(), "with the same idempotency key under that kind")
        if reply is not None:
            places, is_unfinished = reply
            return amended, [places, *await _finish(database, wanted, is_unfinished)]


async def delete(database: Database, tenant: str, job_id: JobId) -> Job:
    """The job as it was; it is gone."""
    while True:
        kept = await _read(database, tenant, job_id)
        dependents = await database.write(REMOVE, database.keys.jobs, (job_id, kept.head))
        if dependents is not None:
            check_deletion(job_id, [each.decode() for each in dependents])
            return kept.job


async def prune(database: Database, ended_before: datetime, limit: int) -> int:
    """How many have gone; part by part, so that nobody else waits long."""
    count = 0
    while count < limit:
        part = min(PRUNED_AT_ONCE, limit - count)
        arguments = (format_instant(ended_before), part)
        gone = int(await database.write(PRUNE, database.keys.jobs, arguments))
        count += gone
        if gone < part:
            break
    return count


async def _read(database: Database, tenant: str, job_id: JobId) -> _Kept:
    graph, (_, (head,), (body,)) = await show(database, [job_id])
    if head is None or body is None:
        raise JobNotFoundError(job_id)
    job = decode_job(job_id, head, body)
    if job.tenant != tenant:
        raise JobNotFoundError(job_id)
    return _Kept(job, head, body, graph)


async def _read_ancestors(database: Database, wanted: Amendment) -> dict[JobId, Job]:
    """The tenant's jobs that are named as dependencies, those they depend on, and so on."""
    found: dict[JobId, Job] = {}
    left = _ids_in(wanted.fields["dependencies"])
    while left:
        jobs = (await look_up(database, left)).values()
        mine = [job for job in jobs if job.tenant == wanted.tenant]
        found |= {job.id: job for job in mine}
        left = sorted({each for job in mine for each in job.dependencies} - found.keys())
    return found


def _ids_in(value: object) -> list[JobId]:
    """The ids that new dependencies may name; whether they are right the rules say."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return []
    ids = (normalize_job_id(str(each)) for each in value)
    return sorted({each for each in ids if each is not None})


def _parts(kept: _Kept, amended: Job, others: Mapping[JobId, Job], wanted: Amendment) -> list[Any]:
    has_moved = amended.dependencies != kept.job.dependencies
    parts: list[Any] = [
        format_instant(wanted.now),
        wanted.sender,
        amended.id,
        kept.head,
        kept.body,
        encode_head(amended),
        encode_body(amended),
        kept.graph if has_moved else "",
    ]
    for each in amended.dependencies if has_moved else ():
        parts += each, others[each].tenant, code_of(others[each])
    return parts


async def _finish(database: Database, wanted: Amendment, is_unfinished: int) -> list[bytes]:
    if not is_unfinished:
        return []
    cascade = Cascade(wanted.now, wanted.job_id)
    try:
        places, _, _ = await finish_cascade(database, cascade, wanted.now, wanted.sender)
    except StoreUnavailableError as error:  # the job itself is written
        raise put_in_doubt(error) from error
    return places
