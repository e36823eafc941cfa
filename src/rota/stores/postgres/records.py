"""``dump`` and ``load``: everything in the schema, as it is."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from rota.errors import DamagedJobError
from rota.jobs import JobId
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    check_job_ids,
    describe_unreadable,
    load_jobs,
    unseal,
    walk,
)
from rota.stores.postgres.connections import Database, Session, Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import Row, decode_attempt, decode_job
from rota.stores.postgres.unit import UnitOfWork, run_unit
from rota.stores.protocol import KeptDocument, KeptJob, Portion, Record, UnreadableJob

_FIRST = str(UUID(int=0))
_DUMPED = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
    *("lease_worker", "lease_taken_at", "lease_until", "body", "is_awaited", "is_watched"),
    "set_aside",
)
_BODY, _ASIDE = -4, -1


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
    results = dict(await statements.fetch(QUERIES.dump_results, ids))
    records = [
        await _read_record(statements, row, attempts[row[0]], results.get(row[0])) for row in rows
    ]
    following = UUID(ids[-1]).int + 1
    return JobPortion(records, None if following >> 128 else str(UUID(int=following)))


async def _read_record(
    statements: Statements, row: Row, attempts: Sequence[str], result: bytes | None
) -> KeptJob | UnreadableJob:
    reason = row[_ASIDE]
    if reason is None:
        try:
            tried = tuple(decode_attempt(row[0], body) for body in attempts)
            return KeptJob(decode_job(row[:_ASIDE]), tried, result)
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

    async def store(unit: UnitOfWork) -> int:
        columns = [list(column) for column in zip(*documents, strict=True)] or [[]] * 4
        stored = await session.fetch(QUERIES.load_documents, *columns)
        return len(stored) + (await unit.run(load_jobs(records, now))).answer

    return await run_unit(session, store)
