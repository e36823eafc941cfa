"""The verbs of ``JobStore`` that only read."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    Page,
    check_limit,
    complete_history,
    cut_page,
    decode_cursor,
    format_instant,
    parse_instant,
)
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.protocol import QueueDepth
from rota.stores.redis.database import NO_LIMIT, Database
from rota.stores.redis.keys import LISTING_CODES
from rota.stores.redis.rows import (
    DEAD,
    ONCE,
    SERIES,
    decode_all,
    decode_attempt,
    decode_head,
    encode_names,
    rank_of,
    status_of,
)
from rota.stores.redis.scripts import load_script

FIND = load_script("find")
NEXT_DUE = load_script("next_due")
SURVEY = load_script("survey")

LOWEST_PRIORITY = 1

_ONCE_LETTERS, _SERIES_LETTERS = ONCE + ONCE.upper(), SERIES + SERIES.upper()
_LETTERS = {None: _ONCE_LETTERS + _SERIES_LETTERS, False: _ONCE_LETTERS, True: _SERIES_LETTERS}
_NO_RANKS = "99", "00"
_NO_QUEUE = "\0"
_COUNTED = "running_count", "dead_count", "stalled_count"

_LAST = "Z"
"""Comes after every instant, also where a server compares as its language does, unlike a ~."""


async def get(database: Database, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """The tenant's jobs that exist among these."""
    shown = await database.read_jobs(("heads", "bodies"), job_ids)
    return {job.id: job for job in decode_all(shown) if job.tenant == tenant}


async def find(database: Database, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the tenant's jobs."""
    check_limit(limit)
    last = ("", "")
    if cursor is not None:
        created_at, job_id = decode_cursor(cursor)
        last = format_instant(created_at), job_id
    arguments = _encode_filter(database, wanted, *last, limit + 1)
    return cut_page(decode_all(await database.run(FIND, arguments)), limit)


async def count(database: Database, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of its tenant the filter accepts."""
    arguments = _encode_filter(database, wanted, "", "", 0)
    number = int(await database.run(FIND, arguments))
    return number if limit is None else min(number, limit)


async def attempts(database: Database, tenant: str, job_id: JobId) -> list[Attempt]:
    """The attempts of a job that have ended, the first one first."""
    job = (await get(database, tenant, [job_id])).get(job_id)
    if job is None:
        return []
    ranges = (f"[{job_id}", f"({job_id}~")
    (members,) = await database.read_ranges("attempts", (), NO_LIMIT, ranges)
    return complete_history(job, map(decode_attempt, members))


async def results(database: Database, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
    """The kept results of the tenant's jobs among these."""
    shown = await database.read_jobs(("heads", "results"), job_ids)
    return {
        job_id.decode(): result
        for job_id, head, result in zip(*shown, strict=True)
        if head and result and decode_head(head).partition[0] == tenant
    }


async def find_dependents(
    database: Database, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """The tenant's jobs that depend on one of these, by id."""
    ranges = [part for each in job_ids for part in (f"[{each}", f"({each}~")]
    jobs = await _read_range(database, "children", limit, ranges)
    found = {job.id: job for job in jobs if job.tenant == tenant}
    return [found[each] for each in sorted(found)][:limit]


async def find_expired(
    database: Database, now: datetime, limit: int, after: tuple[datetime, JobId] | None
) -> list[Job]:
    """Jobs whose lease has expired, the longest ago first."""
    first = "-"
    if after is not None:
        until, job_id = after
        first = f"({format_instant(until)}{job_id}"
    return await _read_range(database, "leased", limit, (first, f"({format_instant(now)}"))


async def next_due_at(
    database: Database,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """When the first READY job is due, from now on."""
    arguments = (format_instant(now), encode_names(queues), encode_names(tenants))
    due_at = await database.run(NEXT_DUE, arguments)
    return None if due_at is None else parse_instant(due_at.decode())


async def survey(database: Database, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """The depths of all queues, of all tenants together or of one."""
    arguments = (format_instant(now), tenant or "")
    parts, *counted = await database.run(SURVEY, arguments)
    depths: defaultdict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    oldest: dict[str, str] = {}
    for name, due_count, later_count, first_at in parts:
        queue, first = name.decode(), first_at.decode()
        depths[queue]["due_count"] += due_count
        depths[queue]["later_count"] += later_count
        if due_count:
            oldest[queue] = min(first, oldest.get(queue, first))
    for field, counts in zip(_COUNTED, counted, strict=True):
        for owner, name, number in counts:
            if tenant is None or owner.decode() == tenant:
                depths[name.decode()][field] += number
    return [
        QueueDepth(
            queue=queue,
            oldest_due_at=parse_instant(oldest[queue]) if queue in oldest else None,
            **depths[queue],
        )
        for queue in sorted(depths)
    ]


async def _read_range(
    database: Database, part: str, limit: int, ranges: Sequence[str]
) -> list[Job]:
    contents = ("heads", "bodies")
    members, heads, bodies = await database.read_ranges(part, contents, limit, ranges)
    return decode_all(([member[-36:] for member in members], heads, bodies))


def _encode_filter(database: Database, wanted: JobFilter, *page: Any) -> list[Any]:
    """A filter, a place behind which to begin, and a limit, as ``find.lua`` takes them."""
    before, after, keys = wanted.created_before, wanted.created_after, database.keys
    return [
        wanted.tenant,
        "" if wanted.queue is None else wanted.queue or _NO_QUEUE,
        *_ranks_of(wanted),
        _LETTERS[wanted.is_recurring],
        "" if after is None else format_instant(after),
        _LAST if before is None else format_instant(before),
        *page,
        *(keys.jobs.index(keys.listing(code)) + 1 for code in _codes_of(wanted)),
    ]


def _ranks_of(wanted: JobFilter) -> tuple[str, str]:
    """The lowest and the highest rank; if no priority matches, the lowest is above the highest."""
    low = LOWEST_PRIORITY if wanted.priority_min is None else wanted.priority_min
    high = HIGHEST_PRIORITY if wanted.priority_max is None else wanted.priority_max
    low, high = max(low, LOWEST_PRIORITY), min(high, HIGHEST_PRIORITY)
    return (rank_of(high), rank_of(low)) if low <= high else _NO_RANKS


def _codes_of(wanted: JobFilter) -> list[str]:
    codes = DEAD if wanted.only_dead else LISTING_CODES
    return [code for code in codes if wanted.status in (None, status_of(code))]
