"""``dump``: everything in the schema, a portion at a time."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from rota.errors import DamagedJobError
from rota.jobs import JobId
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    unseal,
    walk,
)
from rota.stores.postgres.database import Database
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.rows import Row, decode_attempt, decode_job
from rota.stores.postgres.schema.records.queries import QUERIES
from rota.stores.protocol import KeptDocument, KeptJob, Portion, UnreadableJob

_FIRST = str(UUID(int=0))
_COLUMNS = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
    *("lease_worker", "lease_taken_at", "lease_until", "body", "is_awaited", "set_aside"),
)
_BODY, _ASIDE = -3, -1


async def dump(database: Database, cursor: str | None, limit: int) -> Portion:
    """The portion behind a cursor; see the protocol."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        return await database.run(lambda session: _read_documents(session, collection, key, limit))

    async def read_jobs(place: str) -> JobPortion:
        return await database.run(lambda session: _read_jobs(session, place or _FIRST, limit))

    return await walk(cursor, read_documents, read_jobs)


async def _read_documents(
    statements: Statements, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    asked = (collection, key, limit, PORTION_SIZE)
    return [*map(KeptDocument._make, await statements.fetch(QUERIES.dump_documents, *asked))]


async def _read_jobs(statements: Statements, first_id: JobId, limit: int) -> JobPortion:
    rows = await statements.fetch(QUERIES.dump_jobs, first_id, limit, PORTION_SIZE)
    if not rows:
        return JobPortion((), None)
    attempts: defaultdict[JobId, list[str]] = defaultdict(list)
    ids = [row[0] for row in rows]
    for job_id, body in await statements.fetch(QUERIES.dump_attempts, ids):
        attempts[job_id].append(body)
    records = [await _read_record(statements, row, attempts[row[0]]) for row in rows]
    return JobPortion(records, _following(ids[-1]))


def _following(job_id: JobId) -> str | None:
    number = UUID(job_id).int + 1
    return None if number >> 128 else str(UUID(int=number))


async def _read_record(
    statements: Statements, row: Row, attempts: Sequence[str]
) -> KeptJob | UnreadableJob:
    if row[_ASIDE] is not None:
        return await _set_aside(statements, row, attempts, row[_ASIDE])
    try:
        tried = tuple(decode_attempt(row[0], body) for body in attempts)
        return KeptJob(decode_job(row[:_ASIDE]), tried)
    except DamagedJobError as damage:
        return await _set_aside(statements, row, attempts, damage.reason)


async def _set_aside(
    statements: Statements, row: Row, attempts: Sequence[str], reason: str
) -> UnreadableJob:
    job_id, tenant, queue = row[:3]
    content = unseal(row[_BODY].encode())
    if content is None:
        kept = {**dict(zip(_COLUMNS, row, strict=True)), "attempts": attempts}
        content = describe_unreadable("postgresql", reason, kept)
    parents = await statements.fetch(QUERIES.dump_parents, job_id)
    return UnreadableJob(job_id, tenant, queue, tuple(each for (each,) in parents), content)
