"""The schedules page: what is due, runs and has failed; series and tasks; the calendar."""

from asyncio import gather
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.jobs import Job, JobFilter, JobState, JobStatus
from rota.ops.calendar import Calendar, CalendarEntry, find_full_minutes, make_calendar, to_minute
from rota.ops.overview import find_due
from rota.ops.series import SeriesPage, SeriesSummary, has_text, list_series
from rota.ops.tasks import TaskStanding, TaskSummary, look_at_tasks, read_context
from rota.scheduler.policy import SchedulerContext
from rota.server.pages.formats import WEEKDAYS, format_distance
from rota.server.pages.outlook import Outlook, preview_task, show_upcoming
from rota.server.pages.responses import stream_page
from rota.server.pages.series import choose_zone
from rota.server.pages.statuses import FAILED, SIGNS, find_worker
from rota.server.pages.visit import Visit, link_pages
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

    async def list_some() -> SeriesPage:
        return await list_series(
            store, visit.tenant, visit.now, cursor=visit.cursor, limit=MOST_SERIES, match=match
        )

    depths, page, rules, tasks = await gather(
        store.survey(visit.now, visit.tenant),
        visit.cached(f"series {visit.cursor} {match}", list_some),
        read_context(store, clock, visit.zone),
        _find_tasks(visit),
    )
    return {
        "due": await _find_due(visit, depths),
        "processing": await _find_running(visit, sum(each.running_count for each in depths)),
        "dead": await _find_dead(visit, sum(each.dead_count for each in depths)),
        "series": [(each, _foresee(each)) for each in page.items],
        **link_pages(visit, "schedules", page.next_cursor, match=match),
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


CALENDAR_VIEWS = {"day": 1, "week": 7}
MOST_IN_CALENDAR = 300
_LEVELS = (1, 3, 8)
"""The numbers of runs in an hour at which a square becomes darker."""


class Square(NamedTuple):
    """An hour of the week view: how many runs, how dark, and what happens in words."""

    run_count: int
    level: int
    title: str
    is_full: bool = False


async def show_calendar(visit: Visit) -> Response:
    view = visit.ask("view", "day")
    view = view if view in CALENDAR_VIEWS else "day"
    there, zone_problem = choose_zone(visit)
    known = {"view": view, "there": there, "zone_problem": zone_problem}
    return await stream_page(
        visit, "calendar.html", lambda: _read_calendar(visit, view, there), **known
    )


async def _read_calendar(visit: Visit, view: str, there: tzinfo) -> dict[str, Any]:
    context = visit.around
    found = await visit.cached(
        f"calendar {view} {visit.may_administer}",
        lambda: make_calendar(
            context, CALENDAR_VIEWS[view], has_tasks=visit.may_administer, zone=visit.zone
        ),
    )
    full = set(find_full_minutes(found.entries))
    return {
        "calendar": found,
        "hours": _list_hours(found.entries[:MOST_IN_CALENDAR], full, there)
        if view == "day"
        else {},
        "days": _draw_week(found, full, there) if view == "week" else [],
        "hour_labels": [f"{hour:02}" for hour in range(24)],
        "is_cut": found.is_cut or (view == "day" and len(found.entries) > MOST_IN_CALENDAR),
    }


def _list_hours(
    entries: Iterable[CalendarEntry], full: set[datetime], zone: tzinfo
) -> dict[str, list[tuple[CalendarEntry, str, bool]]]:
    """The runs of each hour that has any: wall time, and whether its minute is full.

    An hour that clocks repeat is shown twice.
    """
    hours: dict[str, list[tuple[CalendarEntry, str, bool]]] = {}
    for entry in entries:
        local = entry.at.astimezone(zone)
        label = f"{WEEKDAYS[local.weekday()]} {local:%H}:00 {local:%Z}"
        clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
        hours.setdefault(label, []).append((entry, clock, to_minute(entry.at) in full))
    return hours


def _draw_week(
    calendar: Calendar, full: set[datetime], zone: tzinfo
) -> list[tuple[str, list[Square]]]:
    """The days, and the 24 hours of each."""
    found: defaultdict[tuple[date, int], list[CalendarEntry]] = defaultdict(list)
    for entry in calendar.entries:
        local = entry.at.astimezone(zone)
        found[local.date(), local.hour].append(entry)
    first, last = (at.astimezone(zone).date() for at in (calendar.since, calendar.until))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [
        (
            f"{WEEKDAYS[day.weekday()]} {day.day}",
            [_draw_square(day, hour, found[day, hour], full) for hour in range(24)],
        )
        for day in days
    ]


def _draw_square(day: date, hour: int, entries: list[CalendarEntry], full: set[datetime]) -> Square:
    if not entries:
        return Square(0, 0, "")
    names = sorted({entry.name for entry in entries})
    shown = ", ".join(names[:5]) + ("…" if len(names) > 5 else "")
    level = sum(len(entries) >= each for each in _LEVELS)
    is_full = any(to_minute(entry.at) in full for entry in entries)
    return Square(len(entries), level, f"{day} {hour:02}:00: {shown}", is_full)
