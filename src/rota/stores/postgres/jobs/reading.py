"""``get``, ``find``, ``count`` and ``attempts``."""

from collections.abc import Sequence

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Page,
    check_limit,
    cut_page,
    decode_cursor,
)
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.leasing import set_aside
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import decode_attempt, decode_jobs, known_ids

_HELD_UP = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})


async def get(statements: Statements, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these.

    One that cannot be read is left out, unless it is the only one that was asked for.
    """
    wanted = known_ids(job_ids)
    if not wanted:
        return {}
    rows = await statements.fetch(QUERIES.read_jobs, wanted)
    reading = decode_jobs(row for row in rows if row[1] == tenant)
    if reading.damaged and len(wanted) == 1:
        raise DamagedJobError(*reading.damaged[0])
    return reading.jobs


async def find(
    statements: Statements, tenant: str, wanted: JobFilter, cursor: str | None, limit: int
) -> Page:
    """A page of the tenant's jobs. What cannot be read is set aside, and on no page."""
    last_at, last_id = (None, None) if cursor is None else decode_cursor(cursor)
    arguments = (*_conditions(tenant, wanted), last_at, last_id, check_limit(limit) + 1)
    statement = _choose(wanted, QUERIES.find_recurring, QUERIES.find_held_up, QUERIES.find_page)
    while True:
        reading = decode_jobs(await statements.fetch(statement, *arguments))
        if not reading.damaged:
            return cut_page(list(reading.jobs.values()), limit)
        await set_aside(statements, reading.damaged)


async def count(statements: Statements, tenant: str, wanted: JobFilter) -> int:
    """How many jobs of the tenant the filter accepts."""
    statement = _choose(wanted, QUERIES.count_recurring, QUERIES.count_held_up, QUERIES.count_page)
    ((number,),) = await statements.fetch(statement, *_conditions(tenant, wanted))
    return int(number)


async def find_dependents(
    statements: Statements, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that depend on one of these, by id, without those that cannot be read."""
    own = await get(statements, tenant, job_ids)
    if not own:
        return []
    rows = await statements.fetch(QUERIES.find_dependents, [*own], limit)
    found = await get(statements, tenant, [child for (child,) in rows])
    return [found[job_id] for job_id in sorted(found)]


async def attempts(statements: Statements, tenant: str, job_id: JobId) -> list[Attempt]:
    """The attempts of a job that did not succeed, the first one first."""
    if not known_ids([job_id]):
        return []
    rows = await statements.fetch(QUERIES.read_attempts, tenant, job_id)
    return [decode_attempt(job_id, body) for (body,) in rows]


def _conditions(tenant: str, wanted: JobFilter) -> tuple[object, ...]:
    return (
        *(tenant, wanted.queue, wanted.status, wanted.priority_min, wanted.priority_max),
        *(wanted.created_after, wanted.created_before, wanted.is_recurring),
    )


def _choose(wanted: JobFilter, recurring: str, held_up: str, any_other: str) -> str:
    """The statement that does not walk past jobs that are done."""
    if wanted.is_of_series:
        return recurring
    return held_up if wanted.status in _HELD_UP else any_other
