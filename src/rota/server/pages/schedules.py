"""The schedules page: due, running and dead jobs, series and declarative tasks."""

from asyncio import gather
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.jobs import Job, JobFilter, JobState, JobStatus
from rota.ops.overview import find_due
from rota.ops.series import SeriesPage, SeriesSummary, has_text, list_series
from rota.ops.tasks import TaskStanding, TaskSummary, look_at_tasks, read_context
from rota.scheduler.policy import SchedulerContext
from rota.server.pages.formats import format_distance
from rota.server.pages.outlook import Outlook, preview_task, show_upcoming
from rota.server.pages.responses import stream_page
from rota.server.pages.statuses import FAILED, SIGNS, find_worker
from rota.server.pages.visit import Visit
from rota.stores.protocol import QueueDepth
from rota.triggers.zone import load_zone

MOST_IN_GRID = 10
MOST_SERIES = 50
LONGEST_MATCH = 255

_NONE_WHILE_PAUSED = "none until it is resumed"
_NO_TASKS = TaskStanding(tasks=(), scheduler_count=0, unreadable=())


class Grid(NamedTuple):
    """A few jobs in one state, since when and where; their number, and a link to the others."""

    rows: list[tuple[Job, datetime, str]]
    total: str
    more: str


async def show_schedules(visit: Visit) -> Response:
    match = visit.ask("match").strip()
    if len(match) > LONGEST_MATCH:
        reason = f"must have at most {LONGEST_MATCH} characters, got {len(match)}"
        raise InvalidRequestError("match", reason)
    return await stream_page(visit, "schedules.html", lambda: _read(visit, match), match=match)


async def _read(visit: Visit, match: str) -> dict[str, Any]:
    store, clock = visit.store, visit.clock
    cursor = visit.ask("cursor") or None

    async def list_some() -> SeriesPage:
        return await list_series(
            store, visit.tenant, visit.now, cursor=cursor, limit=MOST_SERIES, match=match
        )

    depths, page, rules, tasks = await gather(
        store.survey(visit.now, visit.tenant),
        visit.cached(f"series {cursor} {match}", list_some),
        read_context(store, clock, visit.zone),
        _find_tasks(visit),
    )
    return {
        "due": await _find_due(visit, depths),
        "processing": await _find_running(visit, sum(each.running_count for each in depths)),
        "dead": await _find_dead(visit, sum(each.dead_count for each in depths)),
        "series": [(each, _foresee(each)) for each in page.items],
        "series_older": visit.link("schedules", match=match, cursor=page.next_cursor)
        if page.has_more
        else None,
        "series_newest": visit.link("schedules", match=match) if cursor else None,
        "tasks": [
            (task, _foresee_task(task, rules, visit))
            for task in tasks.tasks
            if has_text(task.name, match)
        ],
        "unreadable": tasks.unreadable,
        "scheduler_count": tasks.scheduler_count,
        "task_zone": tasks.zone,
        "policy": tasks.policy,
        "succeeded": SIGNS[JobState.COMPLETED],
        "failed": FAILED,
        "base": visit.base,
    }


async def _find_tasks(visit: Visit) -> TaskStanding:
    if not visit.may_administer:
        return _NO_TASKS
    return await look_at_tasks(visit.store, visit.clock, visit.zone)


async def _find_due(visit: Visit, depths: Sequence[QueueDepth]) -> Grid:
    """Due jobs among the newest READY ones, longest waiting first.

    Stores do not list jobs in that order; the survey knows how long the first one has waited.
    """
    count = sum(each.due_count for each in depths)
    since = min((each.oldest_due_at for each in depths if each.oldest_due_at), default=None)
    first = "" if since is None else f", the oldest {format_distance(since, visit.now)}"
    found = await find_due(visit.store, visit.tenant, depths, visit.now)
    found.sort(key=lambda job: (job.due_at, job.id))
    rows = [(job, job.due_at, "") for job in found[:MOST_IN_GRID]]
    return Grid(rows, f"{count} due{first}", visit.link("jobs", state="due"))


async def _find_running(visit: Visit, count: int) -> Grid:
    wanted = JobFilter(status=JobStatus.RUNNING)
    page = await visit.store.find(visit.tenant, wanted, limit=MOST_IN_GRID)
    rows = [
        (job, job.due_at if job.lease is None else job.lease.taken_at, find_worker(job))
        for job in page.items
    ]
    return Grid(rows, f"{count} running", visit.link("workers"))


async def _find_dead(visit: Visit, count: int) -> Grid:
    link = visit.link("dead-letters")
    if not count:  # a search would walk through all cancelled jobs
        return Grid([], "0 dead", link)
    page = await visit.dead_letters.list(limit=MOST_IN_GRID)
    dead = await visit.find_jobs([each.job_id for each in page.items])
    rows = [(job, job.updated_at, "") for job in dead]
    total = f"{len(rows)} or more" if page.next_cursor else f"{len(rows)} dead"
    return Grid(rows, total, link)


def _foresee(series: SeriesSummary) -> Outlook:
    """The schedule in words and the next occurrences."""
    description = series.description.partition(" since ")[0]
    if series.is_paused:
        return Outlook(description, problem=_NONE_WHILE_PAUSED)
    zone = load_zone(series.zone) if series.occurrences else UTC
    shown = show_upcoming(series.occurrences, zone)
    return Outlook(description, shown, series.skipped, series.problem or "")


def _foresee_task(task: TaskSummary, rules: SchedulerContext, visit: Visit) -> Outlook:
    outlook = preview_task(task.cron, rules.zone, visit.now, policy=rules.policy)
    if task.is_paused:
        return Outlook(outlook.description, problem=_NONE_WHILE_PAUSED)
    return outlook
