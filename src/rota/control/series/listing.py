"""Finds the live series of a tenant, and their last runs."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection

import msgspec

from rota.control.series.record import (
    RUNS_SHOWN,
    SHOWN_IN_DETAIL,
    SHOWN_IN_LIST,
    SeriesDetail,
    SeriesSummary,
    summarize,
    view_run,
)
from rota.control.surroundings import ControlStore
from rota.errors import InvalidCursorError, JobNotFoundError
from rota.jobs import Job, JobFilter, JobId, JobStatus, check_limit
from rota.jobs.identity import normalize_job_id
from rota.jobs.listing.search import HIGHEST_LIMIT
from rota.jobs.validation.fields import read_id

MOST_LIVE = 20_000
"""So many jobs of series are looked at in each status."""

MOST_PAST = 1_000
"""So many of the newest ended jobs of series are looked at, in each status, for the last runs."""

_LIVE = (JobStatus.READY, JobStatus.RUNNING, JobStatus.PENDING)
_ENDED = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED)


class SeriesPage(msgspec.Struct, frozen=True):
    """A page of series by id. ``is_cut``: more jobs recur than are looked at."""

    items: tuple[SeriesSummary, ...]
    next_cursor: str | None = None
    is_cut: bool = False

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


async def list_series(
    store: ControlStore, tenant: str, *, cursor: str | None = None, limit: int = 20
) -> SeriesPage:
    """The live series of the tenant, each with its next occurrences and its last run."""
    check_limit(limit)
    after = "" if cursor is None else _read_cursor(cursor)
    live, is_cut = await _find_live(store, tenant)
    ids = sorted(origin for origin in live if origin > after)
    chosen = ids[:limit]
    runs = await _find_runs(store, tenant, chosen, 1)
    items = tuple(
        summarize(job, job.recurrence, runs[origin], SHOWN_IN_LIST)
        for origin in chosen
        if (job := live[origin]).recurrence is not None
    )
    return SeriesPage(items, chosen[-1] if len(ids) > limit else None, is_cut)


async def find_series(store: ControlStore, tenant: str, series_id: JobId) -> SeriesDetail:
    """One series, by its id or that of any job of it; JobNotFoundError when none is live."""
    named = read_id(series_id, "series_id")
    job = (await store.get(tenant, [named])).get(named)
    origin = named if job is None else job.origin or job.id
    live, _ = await _find_live(store, tenant)
    present = live.get(origin)
    if present is None or present.recurrence is None:
        raise JobNotFoundError(named)
    runs = (await _find_runs(store, tenant, [origin], RUNS_SHOWN))[origin]
    summary = summarize(present, present.recurrence, runs, SHOWN_IN_DETAIL)
    return SeriesDetail(series=summary, runs=tuple(map(view_run, runs[:RUNS_SHOWN])))


async def find_jobs_of(store: ControlStore, tenant: str, origin: JobId) -> list[Job]:
    """The jobs of a series that are kept: all that have not ended, and the last that have."""
    found: list[Job] = []
    for status in (*_LIVE, *_ENDED):
        wanted = JobFilter(status=status, is_recurring=True)
        jobs = _walk(store, tenant, wanted, MOST_PAST)
        found += [job async for job in jobs if origin in (job.origin, job.id)]
    return found


async def _find_live(store: ControlStore, tenant: str) -> tuple[dict[JobId, Job], bool]:
    """By series the job of it that comes next: of several, where they may overlap, the last."""
    found: dict[JobId, Job] = {}
    is_cut = False
    for status in _LIVE:
        looked_at_count = 0
        async for job in _walk(
            store, tenant, JobFilter(status=status, is_recurring=True), MOST_LIVE
        ):
            looked_at_count += 1
            origin = job.origin or job.id
            found[origin] = max(found.get(origin, job), job, key=_standing_for)
        is_cut = is_cut or looked_at_count == MOST_LIVE
    return found, is_cut


async def _find_runs(
    store: ControlStore, tenant: str, origins: Collection[JobId], count: int
) -> defaultdict[JobId, list[Job]]:
    """The last ended jobs of these series, the newest first; at least ``count``, if so many are."""
    runs: defaultdict[JobId, list[Job]] = defaultdict(list)
    for status in _ENDED if origins else ():
        for job in await _find_last(store, tenant, status, dict.fromkeys(origins, count)):
            runs[job.origin or job.id].append(job)
    for found in runs.values():
        found.sort(key=_standing_for, reverse=True)
    return runs


async def _find_last(
    store: ControlStore, tenant: str, status: JobStatus, missing_counts: dict[JobId, int]
) -> list[Job]:
    """So many jobs of each of these series in this status, the last ones."""
    found: list[Job] = []
    async for job in _walk(store, tenant, JobFilter(status=status, is_recurring=True), MOST_PAST):
        origin = job.origin or job.id
        if missing_counts.get(origin, 0):
            found.append(job)
            missing_counts[origin] -= 1
        if not any(missing_counts.values()):
            break
    return found


async def _walk(
    store: ControlStore, tenant: str, wanted: JobFilter, most: int
) -> AsyncIterator[Job]:
    cursor: str | None = None
    for _ in range(most // HIGHEST_LIMIT):
        page = await store.find(tenant, wanted, cursor, HIGHEST_LIMIT)
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


def _standing_for(job: Job) -> tuple[float, JobId]:
    return (job.occurrence_at or job.due_at).timestamp(), job.id


def _read_cursor(cursor: str) -> JobId:
    read = normalize_job_id(cursor)
    if read is None:
        raise InvalidCursorError("is no place in a list of series")
    return read
