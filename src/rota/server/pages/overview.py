"""The overview page: alarms, figures, charts, next runs and failures."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from rota.jobs import JobState, JobStatus
from rota.ops.explanation import name_error
from rota.ops.overview import MOST_COUNTED, Alarm, NextRun, Overview, QueueStanding, take_overview
from rota.server.pages import statuses
from rota.server.pages.charts import (
    Bar,
    Chart,
    Frame,
    RowChart,
    Series,
    draw_lines,
    lay_bars,
    stack_bars,
)
from rota.server.pages.formats import format_distance, format_length, format_local
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import Sign
from rota.server.pages.visit import Visit
from rota.telemetry.stats import MinuteStats, read_stats

MINUTES_SHOWN = 60
QUEUES_SHOWN = 8
QUEUES_NAMED = 4

_MINUTE = timedelta(minutes=1)
_MILLISECOND = timedelta(milliseconds=1)
_LOOKS = (("good", "due"), ("calm", "later"), ("held", "running"), ("bad", "dead"))
_ENDINGS = {
    "cancelled": statuses.CANCELLED,
    "discarded": statuses.DISCARDED,
    "exhausted": statuses.DEAD,
    "lost": statuses.DEAD,
}


class Warned(NamedTuple):
    """An alarm with a link to the page where a person can act."""

    tone: str
    shape: str
    headline: str
    text: str
    link: str
    action: str


class Figure(NamedTuple):
    """A number with a link to the list behind it."""

    label: str
    number: int
    sign: Sign
    link: str
    note: str = ""
    is_loud: bool = False
    has_more: bool = False


class Coming(NamedTuple):
    """A series or task that will run."""

    name: str
    at: datetime
    link: str
    note: str


class Failed(NamedTuple):
    """A job that failed for good."""

    job_id: str
    name: str
    queue: str
    at: datetime
    sign: Sign
    error: str


async def show_overview(visit: Visit) -> Response:
    store = visit.context.store
    zone = visit.zone if visit.may_administer else None
    found = await visit.cached(
        f"overview {zone}",
        lambda: take_overview(store, visit.context.clock, visit.tenant, zone=zone),
    )
    until = visit.now.replace(second=0, microsecond=0) + _MINUTE
    since = until - MINUTES_SHOWN * _MINUTE
    minutes = _fill(await read_stats(store, visit.tenant, since, until), since)
    return render_page(
        visit,
        "overview.html",
        page="overview",
        alarms=list_warnings(found.alarms, visit.link),
        is_new=not any(found.counts.values()),
        figures=_list_figures(found, visit),
        throughput=_draw_throughput(minutes, visit),
        latency=_draw_latency(minutes, visit),
        backlog=_draw_backlog(minutes, visit),
        depth=_draw_depth(found.queues),
        next_runs=[_show_run(each, visit) for each in found.next_runs],
        failures=_list_failures(found),
        base=visit.base,
    )


Link = Callable[..., str]


def list_warnings(alarms: Sequence[Alarm], link: Link) -> list[Warned]:
    """One line for each concern, however many queues it affects; the most severe first."""
    by_concern: dict[str, list[Alarm]] = {}
    for each in alarms:
        by_concern.setdefault(each.concern, []).append(each)
    return [
        warn(by_concern[concern], link) for concern, warn in _WARN.items() if concern in by_concern
    ]


def _warn_stalled(alarms: Sequence[Alarm], link: Link) -> Warned:
    text = "Their leases have expired, and no worker has rescued them yet."
    if _count(alarms) == 1:
        text = "Its lease has expired, and no worker has rescued it yet."
    headline = f"{_jobs(alarms, 'is', 'are')} stalled in {_places(alarms)}."
    return Warned("red", "alert", headline, text, link("workers"), "Show workers")


def _warn_alone(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = f"No worker takes from {_places(alarms)}."
    text = f"{_jobs(alarms, 'waits', 'wait')} there."
    return Warned("red", "alert", headline, text, link("workers"), "Show workers")


def _warn_dead(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = f"{_jobs(alarms, 'has', 'have')} failed for good in {_places(alarms)}."
    queue = alarms[0].queue if len(alarms) == 1 else None
    target = link("dead-letters", queue=queue)
    return Warned("red", "cross", headline, "", target, "Retry or discard")


def _warn_late(alarms: Sequence[Alarm], link: Link) -> Warned:
    queue = alarms[0].queue if len(alarms) == 1 else None
    target = link("jobs", state=JobState.DUE, queue=queue)
    headline = f"{_jobs(alarms, 'is', 'are')} late in {_places(alarms)}."
    text = "" if queue is None else _sentence(alarms[0])
    return Warned("amber", "clock", headline, text, target, "Show jobs")


def _warn_series(alarms: Sequence[Alarm], link: Link) -> Warned:
    text = _sentence(alarms[0])
    headline = "A series cannot go on." if len(alarms) == 1 else f"{len(alarms)} series stopped."
    return Warned("red", "alert", headline, text, link("schedules"), "Show schedules")


def _warn_tasks(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = "A task fails." if len(alarms) == 1 else f"{len(alarms)} tasks fail."
    text = _sentence(alarms[0])
    return Warned("amber", "again", headline, text, link("schedules"), "Show schedules")


_WARN: dict[str, Callable[[Sequence[Alarm], Link], Warned]] = {
    "stalled": _warn_stalled,
    "no_worker": _warn_alone,
    "dead_letters": _warn_dead,
    "series": _warn_series,
    "late": _warn_late,
    "tasks": _warn_tasks,
}


def _jobs(alarms: Sequence[Alarm], one: str, many: str) -> str:
    count = _count(alarms)
    return f"1 job {one}" if count == 1 else f"{count} jobs {many}"


def _count(alarms: Sequence[Alarm]) -> int:
    return sum(each.count for each in alarms)


def _sentence(alarm: Alarm) -> str:
    """The text of the alarm as a sentence. Names in it stay as they are written."""
    return f"{alarm.text[:1].upper()}{alarm.text[1:]}."


def _places(alarms: Sequence[Alarm]) -> str:
    """The names of the queues; of many, the first few."""
    names = [each.queue or "" for each in alarms]
    if len(names) == 1:
        return f"queue {names[0]}"
    if len(names) > QUEUES_NAMED:
        return f"{len(names)} queues, among them {', '.join(names[:QUEUES_NAMED])}"
    return f"queues {', '.join(names[:-1])} and {names[-1]}"


def _list_figures(found: Overview, visit: Visit) -> list[Figure]:
    queues = found.queues
    due, later, stalled, dead = (
        sum(getattr(each, name) for each in queues)
        for name in ("due_count", "later_count", "stalled_count", "dead_count")
    )
    counts = {JobStatus(name): count for name, count in found.counts.items()}
    since = min((it.oldest_due_at for it in queues if it.oldest_due_at), default=None)
    waits = "none waiting" if since is None else f"oldest {format_distance(since, visit.now)}"
    workers = "1 worker" if found.worker_count == 1 else f"{found.worker_count} workers"
    blocked, pending = counts[JobStatus.BLOCKED], counts[JobStatus.PENDING]
    running = Figure(
        "Running",
        counts[JobStatus.RUNNING],
        statuses.STALLED if stalled else statuses.RUNNING,
        visit.link("workers"),
        f"{stalled} stalled" if stalled else workers,
        is_loud=bool(stalled),
    )
    letters, done = visit.link("dead-letters"), counts[JobStatus.COMPLETED]

    def listed(state: str) -> str:
        return visit.link("jobs", state=state)

    return [
        Figure("Due", due, statuses.DUE, listed("due"), waits),
        running,
        Figure("Later", later, statuses.LATER, listed("later"), "not due yet"),
        Figure("Pending", pending, statuses.WAITING, listed("pending"), "wait for others"),
        Figure("Dead", dead, statuses.DEAD, letters, "to review", is_loud=dead > 0),
        _count_ended("Blocked", blocked, statuses.BLOCKED, listed("blocked"), "by a failure"),
        _count_ended("Completed", done, statuses.COMPLETED, listed("completed"), "kept"),
    ]


def _count_ended(label: str, number: int, sign: Sign, link: str, note: str) -> Figure:
    return Figure(label, number, sign, link, note, has_more=number >= MOST_COUNTED)


def _fill(minutes: Sequence[MinuteStats], since: datetime) -> list[MinuteStats]:
    """One entry for every minute, even without any activity."""
    known = {each.at: each for each in minutes}
    wanted = [since + index * _MINUTE for index in range(MINUTES_SHOWN)]
    return [known.get(at) or MinuteStats(at=at) for at in wanted]


def _frame(
    name: str, title: str, summary: str, minutes: Sequence[MinuteStats], visit: Visit
) -> Frame:
    walls = [each.at.astimezone(visit.shown_zone) for each in minutes]
    return Frame(name, title, summary, [f"{it:%H:%M}" for it in walls], zone=f"{walls[-1]:%Z}")


def _draw_throughput(minutes: Sequence[MinuteStats], visit: Visit) -> Chart:
    succeeded = sum(each.succeeded for each in minutes)
    failed = sum(each.failed for each in minutes)
    summary = f"{succeeded} succeeded, {failed} failed in the last hour"
    frame = _frame("throughput", "Throughput per minute", summary, minutes, visit)
    return stack_bars(
        frame,
        [
            Series("succeeded", "good", [each.succeeded for each in minutes]),
            Series("failed", "bad", [each.failed for each in minutes]),
            Series("held back", "held", [each.deferred for each in minutes]),
        ],
    )


def _draw_latency(minutes: Sequence[MinuteStats], visit: Visit) -> Chart:
    whole = MinuteStats(at=minutes[0].at)
    for each in minutes:
        whole += each
    median, slow = whole.wait.p50_ms, whole.wait.p95_ms
    summary = "no job started in the last hour"
    if median is not None and slow is not None:
        summary = f"median {_format_ms(median)}, 95 % within {_format_ms(slow)}"
    frame = _frame("latency", "Wait for a worker", summary, minutes, visit)
    frame = frame._replace(format=_format_ms, is_whole=False)
    return draw_lines(
        frame,
        [
            Series("median", "line-1", [each.wait.p50_ms for each in minutes]),
            Series("95 % within", "line-2", [each.wait.p95_ms for each in minutes]),
        ],
    )


def _draw_backlog(minutes: Sequence[MinuteStats], visit: Visit) -> Chart:
    depths = [each.depth for each in minutes]
    seen = [each for each in depths if each is not None]
    summary = "not measured in the last hour"
    if seen:
        summary = f"{seen[-1].due} due now, at most {max(it.due for it in seen)} in the last hour"
    return draw_lines(
        _frame("backlog", "Jobs due and running", summary, minutes, visit),
        [
            Series("due", "line-1", [None if it is None else it.due for it in depths]),
            Series("running", "line-2", [None if it is None else it.running for it in depths]),
        ],
    )


def _draw_depth(queues: Sequence[QueueStanding]) -> RowChart:
    fullest = sorted(queues, key=lambda it: -(it.due_count + it.later_count + it.running_count))
    bars = [
        Bar(it.queue, (it.due_count, it.later_count, it.running_count, it.dead_count))
        for it in fullest[:QUEUES_SHOWN]
    ]
    waiting = sum(it.due_count for it in queues)
    named = "1 queue" if len(queues) == 1 else f"{len(queues)} queues"
    summary = f"{waiting} due in {named}"
    if len(queues) > QUEUES_SHOWN:
        summary += f", the fullest {QUEUES_SHOWN} shown"
    return lay_bars(Frame("depth", "Queue depth", summary, ()), bars, _LOOKS)


def _format_ms(milliseconds: float) -> str:
    return format_length(milliseconds * _MILLISECOND)


def _show_run(run: NextRun, visit: Visit) -> Coming:
    parts = ["declarative task" if run.source == "task" else "series"]
    local = run.local.tzinfo or visit.zone
    if run.at.astimezone(local).utcoffset() != run.at.astimezone(visit.shown_zone).utcoffset():
        parts.append(format_local(run.at, local))
    if run.note:
        parts.append(run.note)
    # The first job of a series may no longer exist: the next one is found by its name.
    waiting = visit.link("jobs", q=run.name, state="ready")
    link = visit.link("schedules") if run.series_id is None else waiting
    return Coming(run.name, run.at, link, ", ".join(parts))


def _list_failures(found: Overview) -> list[Failed]:
    return [
        Failed(
            it.job_id,
            it.name,
            it.queue,
            it.ended_at,
            _ENDINGS.get(it.ending or "", statuses.FAILED),
            name_error(it.error),
        )
        for it in found.failures
    ]
