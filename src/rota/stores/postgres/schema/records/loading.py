"""``load``: records are put into the tables as they are, in one transaction.

Rows are streamed to the server: the values of a statement take it, and above all its client, twice
as long. What is there already would end such a stream, and is asked for before.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rota.jobs import Job, JobStatus
from rota.stores.kernel.records import check_job_ids, seal
from rota.stores.postgres.jobs import queries as job_queries
from rota.stores.postgres.jobs.rows import (
    digest_identity,
    encode_attempt,
    encode_body,
    encode_deferral,
    recurs,
)
from rota.stores.postgres.schema.records.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob

_WHY = "it could not be read in the store it was copied from"
_COLUMNS = (
    *("id", "tenant", "queue", "priority", "status", "is_due", "is_awaited", "due_at"),
    *("created_at", "updated_at", "attempt_count", "loss_count", "last_token", "last_error"),
    *("ending", "deferral", "identity", "is_recurring", "body"),
    *("lease_worker", "lease_taken_at", "lease_until"),
)
_IDENTITY = _COLUMNS.index("identity")


async def load(session: Session, records: Sequence[Record], now: datetime) -> int:
    """Keep what is new; how much that was."""
    check_job_ids(records)
    documents = [each for each in records if isinstance(each, KeptDocument)]
    jobs = [each for each in records if isinstance(each, KeptJob)]
    unreadable = [each for each in records if isinstance(each, UnreadableJob)]
    async with session.transaction():
        new_count = await _load_documents(session, documents)
        new_count += await _load_jobs(session, jobs, now)
        new_count += await _load_unreadable(session, unreadable)
        await _link(session, jobs, unreadable)
    return new_count


async def _load_documents(session: Session, documents: Sequence[KeptDocument]) -> int:
    if not documents:
        return 0
    columns = map(list, zip(*documents, strict=True))
    return len(await session.fetch(QUERIES.load_documents, *columns))


async def _load_jobs(session: Session, records: Sequence[KeptJob], now: datetime) -> int:
    if not records:
        return 0
    rows = [_encode_job(each.job, now) for each in records]
    identities = ",".join(row[_IDENTITY] for row in rows if row[_IDENTITY] is not None)
    found = await session.fetch(QUERIES.find_loaded, ",".join(row[0] for row in rows), identities)
    known = {name for (name,) in found}
    new = {row[0]: row for row in rows if known.isdisjoint((row[0], row[_IDENTITY]))}
    await session.stream("jobs", _COLUMNS, new.values())
    attempts = [
        (each.job_id, encode_attempt(each))
        for record in records
        if record.attempts and record.job.id in new
        for each in record.attempts
    ]
    await session.stream("job_attempts", ("job_id", "body"), attempts)
    return len(new)


def _encode_job(job: Job, now: datetime) -> tuple[Any, ...]:
    """The row of a job, in the order of the columns."""
    lease = job.lease
    return (
        job.id,
        job.tenant,
        job.queue,
        job.priority,
        job.status,
        job.due_at <= now if job.status is JobStatus.READY else None,
        False,
        job.due_at,
        job.created_at,
        job.updated_at,
        job.attempt_count,
        job.loss_count,
        job.last_token,
        job.last_error,
        job.ending,
        encode_deferral(job.deferral),
        digest_identity(job),
        recurs(job),
        encode_body(job),
        *((None,) * 3 if lease is None else (lease.worker, lease.taken_at, lease.until)),
    )


async def _load_unreadable(session: Session, records: Sequence[UnreadableJob]) -> int:
    if not records:
        return 0
    columns = (
        [each.job_id for each in records],
        [each.tenant for each in records],
        [each.queue for each in records],
        [seal(each.content).decode() for each in records],
    )
    return len(await session.fetch(QUERIES.load_unreadable, *columns, _WHY))


async def _link(
    session: Session, jobs: Sequence[KeptJob], unreadable: Sequence[UnreadableJob]
) -> None:
    """Write who depends on whom, and who is depended on, as far as they have come."""
    needs = [(each.job.id, each.job.dependencies) for each in jobs]
    needs += [(each.job_id, each.dependencies) for each in unreadable]
    edges = [(parent, child) for child, parents in needs for parent in parents]
    if edges:
        parents, children = zip(*edges, strict=True)
        add = job_queries.QUERIES.add_dependencies
        await session.fetch(add, list(parents), list(children))
    named = sorted({child for child, _ in needs} | {parent for parent, _ in edges})
    if named:
        await session.fetch(QUERIES.load_awaited, named)
