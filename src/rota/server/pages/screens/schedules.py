"""What is due, what runs, what died, and everything that comes again: specification 3's page."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from starlette.responses import Response

from rota.jobs import Ending, Job, JobFilter, JobStatus
from rota.ops.explain.explanation import name_error
from rota.ops.series import SeriesSummary, list_series
from rota.ops.tasks import request_run
from rota.rail import DeadLetters
from rota.scheduler.queries import TaskOverview, read_tasks
from rota.scheduler.task import TaskState
from rota.server.pages.screens.choice import rail_around
from rota.server.pages.serving.answers import go_to, render_page
from rota.server.pages.serving.forms import read_form
from rota.server.pages.serving.visit import Visit
from rota.server.pages.wording import statuses
from rota.server.pages.wording.occurrences import Outlook, foresee_cron, show_occurrence
from rota.server.pages.wording.rows import Row
from rota.server.pages.wording.statuses import STATUS_SIGNS, Sign, sign_of
from rota.server.pages.wording.times import tell_distance
from rota.stores.protocol import QueueDepth
from rota.triggers.zone import load_zone

MOST_IN_GRID = 10
MOST_LOOKED_AT = 500
"""So many jobs that are READY are looked at for those that are due."""

MOST_SERIES = 50
_STEP = 100
_NO_TASKS = TaskOverview((), (), frozenset())


class Grid(NamedTuple):
    """Some jobs in one state, how many there are, and where the others are."""

    rows: list[Row]
    total: str
    more: str


class SeriesRow(NamedTuple):
    """A series, its state, and what comes next."""

    series: SeriesSummary
    sign: Sign
    outlook: Outlook
    last_sign: Sign | None
    action: str


class TaskRow(NamedTuple):
    """A declarative task, its state, and what comes next."""

    task: TaskState
    sign: Sign
    outlook: Outlook


async def show_schedules(visit: Visit) -> Response:
    store = visit.around.store
    depths = await store.survey(visit.now, visit.tenant)
    cursor = visit.ask("cursor") or None
    page = await visit.recall(
        f"series {cursor}",
        lambda: list_series(store, visit.tenant, cursor=cursor, limit=MOST_SERIES),
    )
    board = await read_tasks(store, visit.around.clock) if visit.may_administer else _NO_TASKS
    return render_page(
        visit,
        "schedules.html",
        page="schedules",
        due=await _find_due(visit, depths),
        processing=await _find_running(visit, sum(each.running_count for each in depths)),
        dead=await _find_dead(visit),
        series=[_tell_series(each, visit.now) for each in page.items],
        series_older=visit.link("schedules", cursor=page.next_cursor) if page.has_more else None,
        series_newest=visit.link("schedules") if cursor else None,
        tasks=_tell_tasks(board, visit),
        unreadable=board.unreadable,
        scheduler_count=len(board.living),
        succeeded=statuses.COMPLETED,
        failed=STATUS_SIGNS[JobStatus.FAILED],
        base=visit.base,
    )


async def ask_for_run(visit: Visit) -> Response:
    """Let a scheduler run a task once, now, beside its schedule."""
    name = (await read_form(visit.request)).one("name")
    await request_run(rail_around(visit), name, who=visit.caller.who)
    return go_to(visit.link("schedules", done="task-asked"))


async def _find_due(visit: Visit, depths: Sequence[QueueDepth]) -> Grid:
    """Those that wait for a worker, the longest first, of the newest jobs that are READY.

    No store has them in that order; since when the very first one waits is known of every queue.
    """
    count = sum(each.due_count for each in depths)
    since = min((each.oldest_due_at for each in depths if each.oldest_due_at), default=None)
    first = "" if since is None else f", the first one {tell_distance(since, visit.now)}"
    found: list[Job] = []
    cursor: str | None = None
    for _ in range(MOST_LOOKED_AT // _STEP if count else 0):
        wanted = JobFilter(status=JobStatus.READY)
        page = await visit.around.store.find(visit.tenant, wanted, cursor, _STEP)
        found += [job for job in page.items if job.due_at <= visit.now]
        cursor = page.next_cursor
        if cursor is None:
            break
    found.sort(key=lambda job: (job.due_at, job.id))
    rows = [Row(job, sign_of(job, visit.now), at=job.due_at) for job in found[:MOST_IN_GRID]]
    return Grid(rows, f"{count} due{first}", visit.link("jobs", status="READY"))


async def _find_running(visit: Visit, count: int) -> Grid:
    wanted = JobFilter(status=JobStatus.RUNNING)
    page = await visit.around.store.find(visit.tenant, wanted, limit=MOST_IN_GRID)
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
    letters = DeadLetters(visit.around.store, visit.tenant, clock=visit.around.clock)
    page = await letters.list(limit=MOST_IN_GRID)
    ids = [each.job_id for each in page.items]
    found = await visit.around.store.get(visit.tenant, ids)
    dead = [found[each] for each in ids if each in found]
    rows = [
        Row(job, sign_of(job, visit.now), name_error(job.last_error), at=job.updated_at)
        for job in dead
    ]
    total = f"{len(rows)} or more" if page.next_cursor else f"{len(rows)} dead"
    return Grid(rows, total, visit.link("dead-letters"))


def _tell_series(series: SeriesSummary, now: datetime) -> SeriesRow:
    zone = load_zone(series.zone) if series.occurrences else None
    shown = [
        show_occurrence(each.at, zone, each.note) for each in series.occurrences if zone is not None
    ]
    description = series.description.partition(" since ")[0]
    outlook = Outlook(description, tuple(shown), series.skipped, series.problem or "")
    if series.is_paused:
        outlook = Outlook(description, problem="nothing until it is resumed")
    last = series.last_run
    last_sign = None
    if last is not None:
        is_called_off = last.ending is Ending.CANCELLED
        last_sign = statuses.CANCELLED if is_called_off else STATUS_SIGNS[last.status]
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


def _tell_tasks(board: TaskOverview, visit: Visit) -> list[TaskRow]:
    return [
        TaskRow(
            task,
            _sign_of_task(task, board.living),
            foresee_cron(task.cron_expression, visit.zone, visit.now),
        )
        for task in sorted(board.tasks, key=lambda task: task.name)
    ]


def _sign_of_task(task: TaskState, living: frozenset[str]) -> Sign:
    if task.running:
        is_alive = task.scheduler_identifier in living
        return statuses.RUNNING if is_alive else Sign("interrupted", "alert", "red")
    return statuses.RETRYING if task.pending_retry_until is not None else statuses.LATER
