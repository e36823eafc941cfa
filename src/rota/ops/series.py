"""A tenant's series: the rule, the next occurrences and the last runs."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from rota.clock.loop import call_in_thread
from rota.errors import InvalidCursorError, JobNotFoundError, RotaError
from rota.jobs import (
    PAUSED_UNTIL,
    Attempt,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Overlap,
    Recurrence,
    check_limit,
    planned_start,
)
from rota.jobs.fields import normalize_job_id, read_id
from rota.jobs.recurrence import is_skipped, occurrence_of, series_of
from rota.jobs.search import HIGHEST_LIMIT
from rota.jobs.states import Ending
from rota.ops.schedules import find_schedule
from rota.rail.jobs import (
    Preview,
    RailContext,
    RailStore,
    Upcoming,
    find_live,
    preview_series,
)
from rota.rail.noted_series import find_pause

SHOWN_IN_LIST = 3
SHOWN_IN_DETAIL = 10
RUNS_SHOWN = 30

MOST_LIVE = 20_000
"""The number of live series jobs read per status."""

MOST_PAST = 1_000
"""The number of newest ended series jobs read per status to find the last runs."""

_LIVE = (JobStatus.READY, JobStatus.RUNNING, JobStatus.PENDING)
_ENDED = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.BLOCKED)


class SeriesRun(msgspec.Struct, frozen=True, kw_only=True):
    """A past occurrence: its job, and how it ended.

    ``started_at`` is the start of the first attempt, ``late_seconds`` how much later that was than
    planned, ``lasted_seconds`` the time from there to the end. They are None for an occurrence that
    never started, and in lists. ``is_skipped``: its time had passed, and its series skips it then.
    """

    job_id: JobId
    occurrence_at: datetime
    status: JobStatus
    ending: Ending | None = None
    ended_at: datetime
    error: str | None = None
    started_at: datetime | None = None
    late_seconds: float | None = None
    lasted_seconds: float | None = None
    attempt_count: int = 0
    is_skipped: bool = False


class SeriesHold(msgspec.Struct, frozen=True, kw_only=True):
    """The pause of a series: since when, by whom and why."""

    since: datetime
    who: str
    why: str


class SeriesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A series. ``id`` names it; ``job_id`` is the job of its next occurrence.

    ``description`` is the rule in words. ``next_at`` is when that job is due, None while the series
    is paused. ``occurrences`` are the next few, each as an instant and as a wall time, with a note
    at DST changes; ``skipped`` lists wall times that do not exist. ``missed_count`` is the number
    of occurrences that passed without a run and were not reported yet. A series with ``ended_at``
    has no next occurrence: ``job_id`` is its last job, which ended then.
    """

    id: JobId
    job_id: JobId
    name: str
    kind: str
    queue: str
    status: JobStatus
    is_paused: bool
    description: str
    recurrence: Recurrence
    next_at: datetime | None
    occurrences: tuple[Upcoming, ...] = ()
    skipped: tuple[str, ...] = ()
    is_last: bool = False
    missed_count: int = 0
    problem: str | None = None
    last_run: SeriesRun | None = None
    ended_at: datetime | None = None

    @property
    def zone(self) -> str:
        return self.recurrence.zone

    @property
    def overlap(self) -> Overlap:
        return self.recurrence.overlap


class SeriesDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A series with its last runs, newest first.

    ``pause`` is set while it is paused, if that was noted. ``declared_at`` is the place in the code
    that declares it, if any; change it there.
    """

    series: SeriesSummary
    runs: tuple[SeriesRun, ...]
    pause: SeriesHold | None = None
    declared_at: str | None = None


def summarize(
    job: Job, recurrence: Recurrence, runs: Iterable[Job], shown: int, now: datetime
) -> SeriesSummary:
    """Summarize the series of a live job. ``runs`` are its ended jobs, newest first.

    A paused series is shown as it would go on if it were resumed at ``now``.
    """
    at = occurrence_of(job)
    if job.due_at == PAUSED_UNTIL:
        at = max(at, now)
    preview, problem = _preview(recurrence, at, shown)
    last = next(iter(runs), None)
    return replace(
        _begin_summary(job, recurrence, preview),
        is_paused=job.is_paused,
        next_at=None if job.due_at == PAUSED_UNTIL else job.due_at,
        occurrences=preview.occurrences,
        skipped=preview.skipped,
        is_last=preview.is_complete and len(preview.occurrences) <= 1,
        missed_count=job.missed_count,
        problem=problem,
        last_run=None if last is None else view_run(last),
    )


def summarize_ended(last: Job, recurrence: Recurrence) -> SeriesSummary:
    """Summarize a series that has ended. ``last`` is its last job."""
    preview, _ = _preview(recurrence, occurrence_of(last), 1)
    summary = _begin_summary(last, recurrence, preview)
    return replace(summary, last_run=view_run(last), ended_at=last.updated_at)


def _begin_summary(job: Job, recurrence: Recurrence, preview: Preview) -> SeriesSummary:
    """What is said of every series, running or ended."""
    return SeriesSummary(
        id=series_of(job),
        job_id=job.id,
        name=job.name,
        kind=job.kind,
        queue=job.queue,
        status=job.status,
        is_paused=False,
        description=preview.description or recurrence.text,
        recurrence=recurrence,
        next_at=None,
    )


def view_run(job: Job, attempts: Sequence[Attempt] = ()) -> SeriesRun:
    """An ended job of a series."""
    started_at = None if job.completion is None else job.completion.started_at
    if attempts:
        started_at = attempts[0].started_at
    is_timed = started_at is not None
    late_for = (started_at or job.updated_at) - planned_start(job)
    lasted_for = job.updated_at - (started_at or job.updated_at)
    return SeriesRun(
        job_id=job.id,
        occurrence_at=occurrence_of(job),
        status=job.status,
        ending=job.ending,
        ended_at=job.updated_at,
        error=job.last_error,
        started_at=started_at,
        late_seconds=max(late_for.total_seconds(), 0.0) if is_timed else None,
        lasted_seconds=max(lasted_for.total_seconds(), 0.0) if is_timed else None,
        attempt_count=max(job.attempt_count, len(attempts), int(is_timed)),
        is_skipped=is_skipped(job),
    )


def _preview(recurrence: Recurrence, at: datetime, count: int) -> tuple[Preview, str | None]:
    """The next occurrences, or why the rule cannot be computed."""
    try:
        return preview_series(recurrence, at, count), None
    except RotaError as error:
        return Preview("", (), (), is_complete=False), error.message
    except OverflowError:
        return Preview("", (), (), is_complete=False), "it reaches the end of the calendar"


class SeriesPage(msgspec.Struct, frozen=True):
    """A page of series by id. ``is_cut``: the tenant has more series jobs than were read."""

    items: tuple[SeriesSummary, ...]
    next_cursor: str | None = None
    is_cut: bool = False

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


async def list_series(
    store: RailStore,
    tenant: str,
    now: datetime,
    *,
    cursor: str | None = None,
    limit: int = 20,
    has_runs: bool = True,
    match: str = "",
) -> SeriesPage:
    """The tenant's live series, each with its next occurrences and, ``has_runs``, its last run.

    With ``match`` only those with this text in their name; case does not matter.
    """
    check_limit(limit)
    after = "" if cursor is None else _read_cursor(cursor)
    live, is_cut = await find_next_jobs(store, tenant)
    ids = sorted(
        origin for origin, job in live.items() if origin > after and has_text(job.name, match)
    )
    chosen = ids[:limit]
    runs = await _find_runs(store, tenant, chosen if has_runs else (), 1)
    shown = [(live[origin], runs[origin]) for origin in chosen]
    items = await call_in_thread(lambda: _summarize_all(shown, now))
    return SeriesPage(items, chosen[-1] if len(ids) > limit else None, is_cut)


def has_text(name: str, match: str) -> bool:
    """Whether a name has this text in it; case does not matter."""
    return match.casefold() in name.casefold()


async def list_ended_series(store: RailStore, tenant: str) -> tuple[SeriesSummary, ...]:
    """Series that have ended, the latest first, as far as their jobs are among the newest kept."""
    live, _ = await find_next_jobs(store, tenant)
    last: dict[JobId, Job] = {}
    for status in _ENDED:
        wanted = JobFilter(status=status, is_recurring=True)
        async for job in _walk(store, tenant, wanted, MOST_PAST):
            origin = series_of(job)
            if origin not in live:
                last[origin] = max(last.get(origin, job), job, key=_standing_for)
    ended = sorted(last.values(), key=lambda job: (job.updated_at, job.id), reverse=True)
    found = [(job, job.recurrence) for job in ended if job.recurrence is not None]
    return await call_in_thread(lambda: tuple(summarize_ended(*each) for each in found))


def _summarize_all(
    shown: Iterable[tuple[Job, Iterable[Job]]], now: datetime
) -> tuple[SeriesSummary, ...]:
    return tuple(
        summarize(job, job.recurrence, runs, SHOWN_IN_LIST, now)
        for job, runs in shown
        if job.recurrence is not None
    )


async def find_series(
    store: RailStore, tenant: str, series_id: JobId, now: datetime, shown: int = SHOWN_IN_DETAIL
) -> SeriesDetail:
    """Find a series by its id or by the id of one of its jobs, with ``shown`` next occurrences.

    Raises JobNotFoundError when it is not live.
    """
    named, origin, _ = await _find_origin(store, tenant, series_id)
    live, _ = await find_next_jobs(store, tenant)
    present = live.get(origin)
    if present is None or present.recurrence is None:
        raise JobNotFoundError(named)
    runs = (await _find_runs(store, tenant, [origin], RUNS_SHOWN))[origin]
    recurrence = present.recurrence
    summary = await call_in_thread(lambda: summarize(present, recurrence, runs, shown, now))
    return SeriesDetail(
        series=summary,
        runs=await _view_all(store, runs),
        pause=await _find_hold(store, present) if present.is_paused else None,
        declared_at=await _find_declaration(store, present),
    )


async def find_any_series(
    store: RailStore, tenant: str, series_id: JobId, now: datetime, shown: int = SHOWN_IN_DETAIL
) -> SeriesDetail:
    """As ``find_series``, and a series that has ended as long as jobs of it are kept."""
    try:
        return await find_series(store, tenant, series_id, now, shown)
    except JobNotFoundError:
        _, origin, job = await _find_origin(store, tenant, series_id)
        runs = (await _find_runs(store, tenant, [origin], RUNS_SHOWN))[origin]
        # If later series have filled the lists, the named job is what is left of this one.
        runs = runs or ([] if job is None else [job])
        if not runs or runs[0].recurrence is None:
            raise
        ended = summarize_ended(runs[0], runs[0].recurrence)
        return SeriesDetail(series=ended, runs=await _view_all(store, runs))


async def _find_origin(
    store: RailStore, tenant: str, series_id: JobId
) -> tuple[JobId, JobId, Job | None]:
    """The id that was named, that of its series, and the named job."""
    named = read_id(series_id, "series_id")
    job = (await store.get(tenant, [named])).get(named)
    return named, named if job is None else series_of(job), job


async def _view_all(store: RailStore, runs: Sequence[Job]) -> tuple[SeriesRun, ...]:
    return tuple([await _view_timed(store, job) for job in runs[:RUNS_SHOWN]])


async def _view_timed(store: RailStore, job: Job) -> SeriesRun:
    """With the start of the first attempt. Only a job that failed has several."""
    has_attempts = job.completion is None or job.attempt_count > 0
    return view_run(job, await store.attempts(job.tenant, job.id) if has_attempts else ())


async def _find_hold(store: RailStore, job: Job) -> SeriesHold | None:
    paused = await find_pause(store, job.tenant, series_of(job))
    return None if paused is None else SeriesHold(since=paused.at, who=paused.who, why=paused.why)


async def _find_declaration(store: RailStore, job: Job) -> str | None:
    found = await find_schedule(store, job.tenant, job.name)
    is_own = found is not None and found.schedule.series_id == series_of(job)
    return found.schedule.declared_at if found is not None and is_own else None


async def find_series_job(context: RailContext, series_id: JobId) -> Job:
    """The job of the next occurrence of a live series; JobNotFoundError for a job without one."""
    job = (await find_live(context, series_id))[-1]
    if job.recurrence is None:
        raise JobNotFoundError(series_id)
    return job


async def find_jobs_of(store: RailStore, tenant: str, origin: JobId) -> list[Job]:
    """The stored jobs of a series: all that have not ended, and the last that have."""
    found: list[Job] = []
    for status in (*_LIVE, *_ENDED):
        wanted = JobFilter(status=status, is_recurring=True)
        jobs = _walk(store, tenant, wanted, MOST_PAST)
        found += [job async for job in jobs if origin in (job.origin, job.id)]
    return found


async def find_next_jobs(store: RailStore, tenant: str) -> tuple[dict[JobId, Job], bool]:
    """The next job of each live series, by series; and whether there are more.

    When jobs may overlap, the last one.
    """
    found: dict[JobId, Job] = {}
    is_cut = False
    for status in _LIVE:
        looked_at_count = 0
        async for job in _walk(
            store, tenant, JobFilter(status=status, is_recurring=True), MOST_LIVE
        ):
            looked_at_count += 1
            origin = series_of(job)
            found[origin] = max(found.get(origin, job), job, key=_standing_for)
        is_cut = is_cut or looked_at_count == MOST_LIVE
    return found, is_cut


async def _find_runs(
    store: RailStore, tenant: str, origins: Collection[JobId], count: int
) -> defaultdict[JobId, list[Job]]:
    """The last ended jobs of these series, newest first, at least ``count`` if possible."""
    runs: defaultdict[JobId, list[Job]] = defaultdict(list)
    for status in _ENDED if origins else ():
        for job in await _find_last(store, tenant, status, dict.fromkeys(origins, count)):
            runs[series_of(job)].append(job)
    for found in runs.values():
        found.sort(key=_standing_for, reverse=True)
    return runs


async def _find_last(
    store: RailStore, tenant: str, status: JobStatus, missing_counts: dict[JobId, int]
) -> list[Job]:
    """The last jobs of each of these series in this status."""
    found: list[Job] = []
    async for job in _walk(store, tenant, JobFilter(status=status, is_recurring=True), MOST_PAST):
        origin = series_of(job)
        if missing_counts.get(origin, 0):
            found.append(job)
            missing_counts[origin] -= 1
        if not any(missing_counts.values()):
            break
    return found


async def _walk(store: RailStore, tenant: str, wanted: JobFilter, most: int) -> AsyncIterator[Job]:
    cursor: str | None = None
    for _ in range(most // HIGHEST_LIMIT):
        page = await store.find(tenant, wanted, cursor, HIGHEST_LIMIT)
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


def _standing_for(job: Job) -> tuple[float, JobId]:
    return occurrence_of(job).timestamp(), job.id


def _read_cursor(cursor: str) -> JobId:
    read = normalize_job_id(cursor)
    if read is None:
        raise InvalidCursorError("is not a cursor of this list")
    return read
