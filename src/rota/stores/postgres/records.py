"""``dump`` and ``load``: everything in the schema, as it is.

``load`` streams rows to the server, which takes half the time of a statement's values. A stream
ends at the first row that exists already, so existing ones are looked up before.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId, JobStatus
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    check_job_ids,
    describe_unreadable,
    seal,
    unseal,
    walk,
)
from rota.stores.postgres.connections import Database, Session, Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import (
    Row,
    decode_attempt,
    decode_job,
    digest_identity,
    encode_attempt,
    encode_body,
    encode_deferral,
    recurs,
)
from rota.stores.protocol import KeptDocument, KeptJob, Portion, Record, UnreadableJob

_FIRST = str(UUID(int=0))
_WHY = "it could not be read in the store it was copied from"
_DUMPED = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
    *("lease_worker", "lease_taken_at", "lease_until", "body", "is_awaited", "set_aside"),
)
_BODY, _ASIDE = -3, -1
_LOADED = (
    *("id", "tenant", "queue", "priority", "status", "is_due", "is_awaited", "due_at"),
    *("created_at", "updated_at", "attempt_count", "loss_count", "last_token", "last_error"),
    *("ending", "deferral", "identity", "is_recurring", "body"),
    *("lease_worker", "lease_taken_at", "lease_until"),
)
_IDENTITY = _LOADED.index("identity")


async def dump(database: Database, cursor: str | None, limit: int) -> Portion:
    """The portion after a cursor; see the protocol."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        asked = (collection, key, limit, PORTION_SIZE)
        rows = await database.run(lambda session: session.fetch(QUERIES.dump_documents, *asked))
        return [*map(KeptDocument._make, rows)]

    async def read_jobs(place: str) -> JobPortion:
        return await database.run(lambda session: _read_jobs(session, place or _FIRST, limit))

    return await walk(cursor, read_documents, read_jobs)


async def _read_jobs(statements: Statements, first_id: JobId, limit: int) -> JobPortion:
    rows = await statements.fetch(QUERIES.dump_jobs, first_id, limit, PORTION_SIZE)
    if not rows:
        return JobPortion((), None)
    attempts: defaultdict[JobId, list[str]] = defaultdict(list)
    ids = [row[0] for row in rows]
    for job_id, body in await statements.fetch(QUERIES.dump_attempts, ids):
        attempts[job_id].append(body)
    records = [await _read_record(statements, row, attempts[row[0]]) for row in rows]
    following = UUID(ids[-1]).int + 1
    return JobPortion(records, None if following >> 128 else str(UUID(int=following)))


async def _read_record(
    statements: Statements, row: Row, attempts: Sequence[str]
) -> KeptJob | UnreadableJob:
    reason = row[_ASIDE]
    if reason is None:
        try:
            tried = tuple(decode_attempt(row[0], body) for body in attempts)
            return KeptJob(decode_job(row[:_ASIDE]), tried)
        except DamagedJobError as damage:
            reason = damage.reason
    job_id, tenant, queue = row[:3]
    content = unseal(row[_BODY].encode())
    if content is None:
        kept = {**dict(zip(_DUMPED, row, strict=True)), "attempts": attempts}
        content = describe_unreadable("postgresql", reason, kept)
    parents = await statements.fetch(QUERIES.find_parents, [job_id])
    return UnreadableJob(job_id, tenant, queue, tuple(parent for _, parent in parents), content)


async def load(session: Session, records: Sequence[Record], now: datetime) -> int:
    """Store the records that are new, in one transaction; how many that were."""
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
    columns = [list(column) for column in zip(*documents, strict=True)]
    return len(await session.fetch(QUERIES.load_documents, *columns))


async def _load_jobs(session: Session, records: Sequence[KeptJob], now: datetime) -> int:
    if not records:
        return 0
    rows = [_encode_job(each.job, now) for each in records]
    identities = ",".join(row[_IDENTITY] for row in rows if row[_IDENTITY] is not None)
    found = await session.fetch(QUERIES.find_loaded, ",".join(row[0] for row in rows), identities)
    known = {name for (name,) in found}
    new = {row[0]: row for row in rows if known.isdisjoint((row[0], row[_IDENTITY]))}
    await session.stream("jobs", _LOADED, new.values())
    attempts = [
        (each.job_id, encode_attempt(each))
        for record in records
        if record.job.id in new
        for each in record.attempts
    ]
    await session.stream("job_attempts", ("job_id", "body"), attempts)
    return len(new)


def _encode_job(job: Job, now: datetime) -> tuple[Any, ...]:
    """The row of a job, in the order of ``_LOADED``."""
    lease = job.lease
    return (
        *(job.id, job.tenant, job.queue, job.priority, job.status),
        job.due_at <= now if job.status is JobStatus.READY else None,
        False,
        *(job.due_at, job.created_at, job.updated_at, job.attempt_count, job.loss_count),
        *(job.last_token, job.last_error, job.ending, encode_deferral(job.deferral)),
        *(digest_identity(identity_of(job)), recurs(job), encode_body(job)),
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
    """Write the dependencies, and mark awaited jobs, as far as they have come."""
    needs = [(each.job.id, each.job.dependencies) for each in jobs]
    needs += [(each.job_id, each.dependencies) for each in unreadable]
    edges = [(parent, child) for child, parents in needs for parent in parents]
    if edges:
        parents, children = zip(*edges, strict=True)
        await session.fetch(QUERIES.add_dependencies, list(parents), list(children))
    named = sorted({child for child, _ in needs} | {parent for parent, _ in edges})
    if named:
        await session.fetch(QUERIES.load_awaited, named)
