"""``load``: records are put into the tables as they are, in one transaction."""

from collections.abc import Sequence
from datetime import datetime

from rota.errors import InvalidJobError
from rota.jobs import JobId, normalize_job_id
from rota.stores.postgres.jobs import queries as job_queries
from rota.stores.postgres.jobs.rows import encode_attempt, encode_body, encode_jobs
from rota.stores.postgres.jobs.statements import Statements
from rota.stores.postgres.schema.records.queries import QUERIES
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.stores.sql.portions import seal

_WHY = "it could not be read in the store it was copied from"


async def load(statements: Statements, records: Sequence[Record], now: datetime) -> int:
    """Keep what is new; how much that was."""
    documents = [each for each in records if isinstance(each, KeptDocument)]
    jobs = [each for each in records if isinstance(each, KeptJob)]
    unreadable = [each for each in records if isinstance(each, UnreadableJob)]
    _check_ids([*(each.job.id for each in jobs), *(each.job_id for each in unreadable)])
    async with statements.transaction():
        new_count = await _load_documents(statements, documents)
        new_count += await _load_jobs(statements, jobs, now)
        new_count += await _load_unreadable(statements, unreadable)
        await _link(statements, jobs, unreadable)
    return new_count


def _check_ids(job_ids: Sequence[JobId]) -> None:
    for job_id in job_ids:
        if normalize_job_id(job_id) != job_id:
            raise InvalidJobError("id", f'must be a UUID in lower case, got "{job_id[:40]}"')


async def _load_documents(statements: Statements, documents: Sequence[KeptDocument]) -> int:
    if not documents:
        return 0
    columns = map(list, zip(*documents, strict=True))
    return len(await statements.fetch(QUERIES.load_documents, *columns))


async def _load_jobs(statements: Statements, records: Sequence[KeptJob], now: datetime) -> int:
    if not records:
        return 0
    jobs = [each.job for each in records]
    columns = encode_jobs(jobs, [encode_body(job) for job in jobs])
    made = await statements.fetch(job_queries.QUERIES.insert_missing, now, *columns)
    new = {row[0] for row in made}
    tried = [each for record in records if record.job.id in new for each in record.attempts]
    if tried:
        ids, bodies = [each.job_id for each in tried], [encode_attempt(each) for each in tried]
        await statements.fetch(job_queries.QUERIES.add_attempts, ids, bodies)
    leases = [
        (job.id, job.lease.worker, job.lease.taken_at, job.lease.until)
        for job in jobs
        if job.lease is not None and job.id in new
    ]
    if leases:
        await statements.fetch(QUERIES.load_leases, *map(list, zip(*leases, strict=True)))
    return len(new)


async def _load_unreadable(statements: Statements, records: Sequence[UnreadableJob]) -> int:
    if not records:
        return 0
    columns = (
        [each.job_id for each in records],
        [each.tenant for each in records],
        [each.queue for each in records],
        [seal(each.content).decode() for each in records],
    )
    return len(await statements.fetch(QUERIES.load_unreadable, *columns, _WHY))


async def _link(
    statements: Statements, jobs: Sequence[KeptJob], unreadable: Sequence[UnreadableJob]
) -> None:
    """Write who depends on whom, and who is depended on, as far as they have come."""
    needs = [(each.job.id, each.job.dependencies) for each in jobs]
    needs += [(each.job_id, each.dependencies) for each in unreadable]
    edges = [(parent, child) for child, parents in needs for parent in parents]
    if edges:
        parents, children = zip(*edges, strict=True)
        add = job_queries.QUERIES.add_dependencies
        await statements.fetch(add, list(parents), list(children))
    named = sorted({child for child, _ in needs} | {parent for parent, _ in edges})
    if named:
        await statements.fetch(QUERIES.load_awaited, named)
