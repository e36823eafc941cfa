"""The schedules page: due, running and dead jobs, series and declarative tasks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from starlette.responses import Response

from rota.errors import RotaError
from rota.jobs import Ending, Job, JobFilter, JobStatus
from rota.ops.series import SeriesSummary, list_series
from rota.ops.tasks import request_run
from rota.scheduler.queries import TaskOverview, read_tasks
from rota.scheduler.task import TaskState
from rota.server.pages import statuses
from rota.server.pages.formats import format_distance, format_local
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.statuses import STATUS_SIGNS, Row, Sign, make_rows, sign_of
from rota.server.pages.visit import Visit, read_form
from rota.stores.protocol import QueueDepth
from rota.triggers.cron import Cron, parse_stored_cron
from rota.triggers.dst_notes import annotate, asked_by_cron
from rota.triggers.zone import load_zone

SHOWN_COUNT = 3
_LOOK_AHEAD = timedelta(days=366 * 30)

MOST_IN_GRID = 10
MOST_LOOKED_AT = 500
"""The number of READY jobs searched for due ones."""

MOST_SERIES = 50

_STEP = 100
_NO_TASKS = TaskOverview((), (), frozenset())


class Occurrence(NamedTuple):
    """An occurrence: local time, UTC, and a note at a DST change."""

    local: str
    utc: str
    note: str = ""


class Outlook(NamedTuple):
    """The schedule in words and its next occurrences. ``problem``: it cannot be computed."""

    description: str
    occurrences: tuple[Occurrence, ...] = ()
    skipped: tuple[str, ...] = ()
    problem: str = ""


def preview_cron(expression: str, zone: tzinfo, now: datetime) -> Outlook:
    """The next occurrences of a declarative task in the zone of its scheduler."""
    try:
        cron = parse_stored_cron(expression)
        return _preview(cron, cron.zone or zone, now)
    except RotaError as error:
        return Outlook(expression, problem=error.message)


def _preview(cron: Cron, zone: tzinfo, now: datetime) -> Outlook:
    found = list(cron.between(now, now + _LOOK_AHEAD, zone, limit=SHOWN_COUNT))
    notes = annotate(found, zone, asked_by_cron(cron), after=now, gap="skip", fold="both")
    shown = []
    for at in found:
        note = notes.notes.get(at)
        shown.append(show_occurrence(at, zone, None if note is None else note.text))
    return Outlook(cron.describe(), tuple(shown), tuple(each.text for each in notes.skipped))


def show_occurrence(at: datetime, zone: tzinfo, note: str | None) -> Occurrence:
    """Local time in full; UTC only where it differs, with its date only where that differs."""
    clock = "%H:%M:%S" if at.second else "%H:%M"
    local = at.astimezone(zone)
    utc = at.astimezone(UTC)
    if local.utcoffset() == timedelta(0):
        return Occurrence(format_local(at, zone), "", note or "")
    day = "" if utc.date() == local.date() else f"{utc:%Y-%m-%d} "
    return Occurrence(format_local(at, zone), f"{day}{utc.strftime(clock)} UTC", note or "")


class Grid(NamedTuple):
    """A few jobs in one state, their number, and a link to the others."""

    rows: list[Row]
    total: str
    more: str


class SeriesRow(NamedTuple):
    """A series, its state, and its next occurrences."""

    series: SeriesSummary
    sign: Sign
    outlook: Outlook
    last_sign: Sign | None
    action: str


class TaskRow(NamedTuple):
    """A declarative task, its state, and its next occurrences."""

    task: TaskState
    sign: Sign
    outlook: Outlook


async def show_schedules(visit: Visit) -> Response:
    store = visit.context.store
    depths = await store.survey(visit.now, visit.tenant)
    cursor = visit.ask("cursor") or None
    page = await visit.cached(
        f"series {cursor}",
        lambda: list_series(store, visit.tenant, visit.now, cursor=cursor, limit=MOST_SERIES),
    )
    tasks = await read_tasks(store, visit.context.clock) if visit.may_administer else _NO_TASKS
    return render_page(
        visit,
        "schedules.html",
        page="schedules",
        due=await _find_due(visit, depths),
        processing=await _find_running(visit, sum(each.running_count for each in depths)),
        dead=await _find_dead(visit),
        series=[_show_series(each, visit.now) for each in page.items],
        series_older=visit.link("schedules", cursor=page.next_cursor) if page.has_more else None,
        series_newest=visit.link("schedules") if cursor else None,
        tasks=_show_tasks(tasks, visit),
        unreadable=tasks.unreadable,
        scheduler_count=len(tasks.living),
        succeeded=statuses.COMPLETED,
        failed=statuses.FAILED,
        base=visit.base,
    )


async def request_task_run(visit: Visit) -> Response:
    """Request one run of a task in addition to its schedule."""
    name = (await read_form(visit.request)).one("name")
    await request_run(visit.context.rail_context(visit.tenant), name, who=visit.caller.who)
    return go_to(visit.link("schedules", done="task-asked"))


async def _find_due(visit: Visit, depths: Sequence[QueueDepth]) -> Grid:
    """Due jobs among the newest READY ones, longest waiting first.

    Stores do not list jobs in that order; the survey knows how long the first one has waited.
    """
    count = sum(each.due_count for each in depths)
    since = min((each.oldest_due_at for each in depths if each.oldest_due_at), default=None)
    first = "" if since is None else f", the oldest {format_distance(since, visit.now)}"
    found: list[Job] = []
    cursor: str | None = None
    for _ in range(MOST_LOOKED_AT // _STEP if count else 0):
        wanted = JobFilter(status=JobStatus.READY)
        page = await visit.context.store.find(visit.tenant, wanted, cursor, _STEP)
        found += [job for job in page.items if job.due_at <= visit.now]
        cursor = page.next_cursor
        if cursor is None:
            break
    found.sort(key=lambda job: (job.due_at, job.id))
    rows = [Row(job, sign_of(job, visit.now), at=job.due_at) for job in found[:MOST_IN_GRID]]
    return Grid(rows, f"{count} due{first}", visit.link("jobs", state="due"))


async def _find_running(visit: Visit, count: int) -> Grid:
    wanted = JobFilter(status=JobStatus.RUNNING)
    page = await visit.context.store.find(visit.tenant, wanted, limit=MOST_IN_GRID)
    rows = [
        Row(
            job,
            sign_of(job, visit.now),
            at=job.due_at if job.lease is None else job.lease.taken_at,
            note="" if job.lease is None else job.lease.worker,
        )
        for job in page.items
    ]
    return Grid(rows, f"{count} running", visit.link("workers"))


async def _find_dead(visit: Visit) -> Grid:
    page = await visit.dead_letters.list(limit=MOST_IN_GRID)
    dead = await visit.find_jobs([each.job_id for each in page.items])
    rows = [row._replace(at=row.job.updated_at) for row in make_rows(dead, visit.now)]
    total = f"{len(rows)} or more" if page.next_cursor else f"{len(rows)} dead"
    return Grid(rows, total, visit.link("dead-letters"))


def _show_series(series: SeriesSummary, now: datetime) -> SeriesRow:
    zone = load_zone(series.zone) if series.occurrences else None
    shown = [
        show_occurrence(each.at, zone, each.note) for each in series.occurrences if zone is not None
    ]
    description = series.description.partition(" since ")[0]
    outlook = Outlook(description, tuple(shown), series.skipped, series.problem or "")
    if series.is_paused:
        outlook = Outlook(description, problem="none until it is resumed")
    last = series.last_run
    last_sign = None
    if last is not None:
        is_cancelled = last.ending is Ending.CANCELLED
        last_sign = statuses.CANCELLED if is_cancelled else STATUS_SIGNS[last.status]
    action = "resume" if series.is_paused else "pause"
    return SeriesRow(series, _sign_of_series(series, now), outlook, last_sign, action)


def _sign_of_series(series: SeriesSummary, now: datetime) -> Sign:
    if series.problem:
        return Sign("cannot go on", "alert", "red")
    if series.is_paused:
        return statuses.PAUSED
    if series.status is JobStatus.READY:
        is_due = series.next_at is not None and series.next_at <= now
        return statuses.DUE if is_due else statuses.LATER
    return STATUS_SIGNS[series.status]


def _show_tasks(tasks: TaskOverview, visit: Visit) -> list[TaskRow]:
    return [
        TaskRow(
            task,
            _sign_of_task(task, tasks.living),
            preview_cron(task.cron_expression, visit.zone, visit.now),
        )
        for task in sorted(tasks.tasks, key=lambda task: task.name)
    ]


def _sign_of_task(task: TaskState, living: frozenset[str]) -> Sign:
    if task.running:
        is_alive = task.scheduler_identifier in living
        return statuses.RUNNING if is_alive else Sign("interrupted", "alert", "red")
    return statuses.RETRYING if task.pending_retry_until is not None else statuses.LATER
