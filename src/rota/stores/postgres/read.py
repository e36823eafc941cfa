"""``get``, ``find``, ``count``, ``attempts``, ``results``, ``find_dependents`` and ``survey``."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from uuid import UUID

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Page,
    check_limit,
    complete_history,
    cut_page,
    decode_cursor,
)
from rota.stores.kernel.records import PORTION_SIZE, JobPortion, describe_unreadable, unseal
from rota.stores.postgres.connections import Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import (
    Row,
    decode_attempt,
    decode_job,
    decode_jobs,
    in_calendar,
    known_ids,
)
from rota.stores.postgres.unit import set_aside
from rota.stores.protocol import KeptDocument, KeptJob, QueueDepth, UnreadableJob
from rota.stores.survey import make_depths

FEW = 5_000
"""Up to this many READY jobs, a page of them reads all READY jobs instead of all jobs in order."""

_FIRST = str(UUID(int=0))
_DUMPED = (
    *("id", "tenant", "queue", "priority", "status", "due_at", "created_at", "updated_at"),
    *("attempt_count", "loss_count", "last_token", "last_error", "ending", "deferral"),
    *("lease_worker", "lease_taken_at", "lease_until", "body", "is_awaited", "is_watched"),
    "set_aside",
)
_BODY, _ASIDE = -4, -1
_HELD_UP = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})


async def get(statements: Statements, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs among these.

    An unreadable one is left out, unless it is the only one that was asked for.
    """
    wanted = known_ids(job_ids)
    if not wanted:
        return {}
    rows = await statements.fetch(QUERIES.read_jobs, wanted)
    decoded = decode_jobs(row for row in rows if row[1] == tenant)
    if decoded.damaged and len(wanted) == 1:
        raise DamagedJobError(*decoded.damaged[0])
    return {job.id: job for job in decoded.jobs}


async def find(statements: Statements, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the tenant's jobs. Unreadable ones are set aside, and on no page."""
    last_at, last_id = (None, None) if cursor is None else decode_cursor(cursor)
    arguments = (*_conditions(wanted), last_at, last_id, check_limit(limit) + 1)
    jobs = _choose_list(wanted)
    if jobs is None and wanted.status is JobStatus.READY:
        jobs = await _choose_ready(statements)
    statement = QUERIES.find_page if jobs is None else _fill(QUERIES.find_listed, jobs)
    while True:
        decoded = decode_jobs(await statements.fetch(statement, *arguments))
        if not decoded.damaged:
            return cut_page(decoded.jobs, limit)
        await set_aside(statements, decoded.damaged)


async def count(statements: Statements, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of the tenant the filter accepts."""
    jobs = _choose_list(wanted)
    statement = QUERIES.count_page if jobs is None else _fill(QUERIES.count_listed, jobs)
    ((number,),) = await statements.fetch(statement, *_conditions(wanted), limit)
    return int(number) if limit is None else min(int(number), limit)


async def find_dependents(
    statements: Statements, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that depend on one of these, by id, without unreadable ones."""
    own = await get(statements, tenant, job_ids)
    if not own:
        return []
    rows = await statements.fetch(QUERIES.find_dependents, [*own], limit)
    found = await get(statements, tenant, [child for (child,) in rows])
    return [found[job_id] for job_id in sorted(found)]


async def attempts(statements: Statements, tenant: str, job_id: JobId) -> list[Attempt]:
    """All attempts of a job that have ended, the first one first."""
    if not known_ids([job_id]):
        return []
    rows = await statements.fetch(QUERIES.read_attempts, tenant, job_id)
    stored = [decode_attempt(job_id, body) for (body,) in rows]
    found = decode_jobs(await statements.fetch(QUERIES.read_jobs, [job_id])).jobs
    return complete_history(found[0], stored) if found and found[0].tenant == tenant else stored


async def results(
    statements: Statements, tenant: str, job_ids: Sequence[JobId]
) -> dict[JobId, bytes]:
    """The kept results of the tenant's jobs among these."""
    wanted = known_ids(job_ids)
    return dict(await statements.fetch(QUERIES.read_results, tenant, wanted)) if wanted else {}


def _conditions(wanted: JobFilter) -> tuple[object, ...]:
    return (
        *(wanted.tenant, wanted.queue, wanted.status, wanted.priority_min, wanted.priority_max),
        *(wanted.created_after, wanted.created_before, wanted.is_recurring),
    )


async def _choose_ready(statements: Statements) -> str | None:
    """While few jobs wait, all that do are read; of many, the newest are soon met on the page."""
    ((number,),) = await statements.fetch(QUERIES.count_waiting, FEW + 1)
    return QUERIES.list_ready if number <= FEW else None


def _choose_list(wanted: JobFilter) -> str | None:
    """The list with the fewest jobs that are not wanted; None for that of all jobs."""
    if wanted.only_dead:
        return QUERIES.list_dead
    if wanted.is_of_series:
        return QUERIES.list_recurring
    return QUERIES.list_held_up if wanted.status in _HELD_UP else None


@cache
def _fill(statement: str, jobs: str) -> str:
    return statement.replace(":jobs", jobs)


async def survey(statements: Statements, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """The depths of all queues; the cost grows with the jobs that wait, run or are dead letters."""
    return make_depths(await statements.fetch(QUERIES.survey, now, tenant), in_calendar)


async def find_expired(
    statements: Statements, now: datetime, limit: int, after: tuple[datetime, str] | None
) -> list[Job]:
    """Jobs whose lease has expired. Those that cannot be read are set aside."""
    last_until, last_id = after or (None, None)
    while True:
        rows = await statements.fetch(QUERIES.find_expired, now, last_until, last_id, limit)
        decoded = decode_jobs(rows)
        if not decoded.damaged:
            return decoded.jobs
        await set_aside(statements, decoded.damaged)


async def next_due_at(
    statements: Statements,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """The first instant, from now on, at which a READY job is due."""
    if queues is None and tenants is None:
        rows = await statements.fetch(QUERIES.next_due, now)
    else:
        chosen = (None if names is None else list(names) for names in (queues, tenants))
        rows = await statements.fetch(QUERIES.next_due_in, now, *chosen)
    due_at: datetime | None = rows[0][0]
    return None if due_at is None else max(in_calendar(due_at), now)


async def read_document_portion(
    statements: Statements, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """A portion of the documents after a collection and key."""
    place = (collection, key, limit, PORTION_SIZE)
    return [*map(KeptDocument._make, await statements.fetch(QUERIES.dump_documents, *place))]


async def read_job_portion(statements: Statements, place: str, limit: int) -> JobPortion:
    """A portion of the jobs from an id on."""
    rows = await statements.fetch(QUERIES.dump_jobs, place or _FIRST, limit, PORTION_SIZE)
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
