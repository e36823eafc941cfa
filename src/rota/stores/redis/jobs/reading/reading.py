"""``get``, ``find``, ``count``, ``attempts`` and ``find_dependents``."""

from collections.abc import Sequence
from typing import Any

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
    format_instant,
)
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.rows import (
    CODES,
    DEAD,
    LATER,
    ONCE_LETTERS,
    SERIES_LETTERS,
    Shown,
    decode_all,
    decode_attempt,
    decode_job,
    rank_of,
)
from rota.stores.redis.scripts import load_script

READ = load_script(__package__, "read")
FIND = load_script(__package__, "find")
COUNT = load_script(__package__, "count")
ATTEMPTS = load_script(__package__, "attempts")
DEPENDENTS = load_script(__package__, "dependents")

_LETTERS = {
    None: ONCE_LETTERS + SERIES_LETTERS,
    False: ONCE_LETTERS,
    True: SERIES_LETTERS,
}

_BESIDE = {JobStatus.READY: LATER, JobStatus.FAILED: DEAD}
"""In which other listing there are jobs with that status."""

_NO_RANKS = "99", "00"
_NO_QUEUE = "\0"

LOWEST_PRIORITY = 1

_LAST = "Z"
"""Comes after every instant, also where a server compares as its language does, unlike a ~."""


async def get(database: Database, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these."""
    _, shown = await show(database, job_ids)
    return {job.id: job for job in decode_all(shown) if job.tenant == tenant}


async def show(
    database: Database, job_ids: Sequence[JobId], identities: Sequence[str] = ()
) -> tuple[bytes, Shown]:
    """How often dependencies were amended, and the jobs with these ids or identities."""
    arguments = (len(job_ids), *job_ids, *identities)
    graph, (ids, heads, bodies) = await database.read(READ, database.keys.jobs, arguments)
    return graph, (ids, heads, bodies)


async def look_up(
    database: Database, job_ids: Sequence[JobId], identities: Sequence[str] = ()
) -> dict[JobId, Job]:
    """The jobs, whosoever they are; DamagedJobError when one cannot be read."""
    _, shown = await show(database, job_ids, identities)
    found: dict[JobId, Job] = {}
    for name, head, body in zip(*shown, strict=True):
        if head is not None and body is not None:
            job_id = name.decode()
            found[job_id] = decode_job(job_id, head, body)
    return found


async def find(
    database: Database, tenant: str, wanted: JobFilter, cursor: str | None, limit: int
) -> Page:
    """A page of the tenant's jobs."""
    check_limit(limit)
    last = ("", "") if cursor is None else _place_of(cursor)
    arguments = (*_stretch(tenant, wanted), *last, limit + 1)
    shown = await database.read(FIND, database.keys.jobs, arguments)
    return cut_page(decode_all(shown), limit)


async def count(database: Database, tenant: str, wanted: JobFilter) -> int:
    """How many jobs of the tenant the filter accepts."""
    return int(await database.read(COUNT, database.keys.jobs, _stretch(tenant, wanted)))


async def read_attempts(database: Database, tenant: str, job_id: JobId) -> list[Attempt]:
    """The attempts of a job that did not succeed, the first one first."""
    found = await database.read(ATTEMPTS, database.keys.jobs, (tenant, job_id))
    return [decode_attempt(kept) for kept in found]


async def find_dependents(
    database: Database, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that name one of these among their dependencies, by id."""
    arguments = (tenant, limit, *job_ids)
    return decode_all(await database.read(DEPENDENTS, database.keys.jobs, arguments))


def _stretch(tenant: str, wanted: JobFilter) -> tuple[Any, ...]:
    """What the scripts take of a filter."""
    before, after = wanted.created_before, wanted.created_after
    return (
        tenant,
        _codes_of(wanted.status),
        "" if wanted.queue is None else wanted.queue or _NO_QUEUE,
        *_ranks_of(wanted),
        _LETTERS[wanted.is_recurring],
        "" if after is None else format_instant(after),
        _LAST if before is None else format_instant(before),
    )


def _ranks_of(wanted: JobFilter) -> tuple[str, str]:
    """The lowest and the highest rank, which is below the lowest when no priority will do."""
    low = LOWEST_PRIORITY if wanted.priority_min is None else wanted.priority_min
    high = HIGHEST_PRIORITY if wanted.priority_max is None else wanted.priority_max
    low, high = max(low, LOWEST_PRIORITY), min(high, HIGHEST_PRIORITY)
    return (rank_of(high), rank_of(low)) if low <= high else _NO_RANKS


def _codes_of(status: JobStatus | None) -> str:
    if status is None:
        return "".join([*CODES.values(), *_BESIDE.values()])
    return CODES[status] + _BESIDE.get(status, "")


def _place_of(cursor: str) -> tuple[str, str]:
    created_at, job_id = decode_cursor(cursor)
    return format_instant(created_at), job_id
