"""The first page: what is red, in words; then figures, charts, what comes next and what failed."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from starlette.responses import Response

from rota.jobs import JobStatus
from rota.ops.explain.explanation import name_error
from rota.ops.overview import NextRun, Overview, QueueStanding, take_overview
from rota.server.pages.drawing.chart import (
    Chart,
    Frame,
    RowChart,
    Series,
    Shelf,
    draw_lines,
    lay_bars,
    stack_bars,
)
from rota.server.pages.serving.answers import render_page
from rota.server.pages.serving.visit import Visit
from rota.server.pages.wording import statuses
from rota.server.pages.wording.alarms import warn_of
from rota.server.pages.wording.statuses import STATUS_SIGNS, Sign
from rota.server.pages.wording.times import tell_distance, tell_length, tell_local
from rota.telemetry.stats import MinuteStats, read_stats

MINUTES_SHOWN = 60
QUEUES_SHOWN = 8
_MINUTE = timedelta(minutes=1)
_MILLISECOND = timedelta(milliseconds=1)
_LOOKS = (("good", "due"), ("calm", "later"), ("held", "running"), ("bad", "dead"))


class Figure(NamedTuple):
    """A number with its name, and the list behind it."""

    label: str
    number: int
    sign: Sign
    link: str
    note: str = ""
    is_loud: bool = False


class Coming(NamedTuple):
    """Something that will run."""

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
    store = visit.around.store
    zone = visit.zone if visit.may_administer else None
    found = await visit.recall(
        f"overview {zone}",
        lambda: take_overview(store, visit.around.clock, visit.tenant, zone=zone),
    )
    until = visit.now.replace(second=0, microsecond=0) + _MINUTE
    since = until - MINUTES_SHOWN * _MINUTE
    tallies = _fill(await read_stats(store, visit.tenant, since, until), since)
    return render_page(
        visit,
        "overview.html",
        page="overview",
        alarms=warn_of(found.alarms, visit.link),
        is_new=not any(found.counts.values()),
        figures=_list_figures(found, visit),
        throughput=_draw_throughput(tallies, visit),
        latency=_draw_latency(tallies, visit),
        backlog=_draw_backlog(tallies, visit),
        depth=_draw_depth(found.queues),
        next_runs=[_tell_run(each, visit) for each in found.next_runs],
        failures=_tell_failures(found),
        base=visit.base,
    )


def _list_figures(found: Overview, visit: Visit) -> list[Figure]:
    queues = found.queues
    due, later, stalled, dead = (
        sum(getattr(each, name) for each in queues)
        for name in ("due_count", "later_count", "stalled_count", "dead_count")
    )
    counts = {JobStatus(name): count for name, count in found.counts.items()}
    jobs = {status: visit.link("jobs", status=status) for status in JobStatus}
    since = min((it.oldest_due_at for it in queues if it.oldest_due_at), default=None)
    waits = "none waits" if since is None else f"oldest {tell_distance(since, visit.now)}"
    blocked, pending = counts[JobStatus.BLOCKED], counts[JobStatus.PENDING]
    running = Figure(
        "Running",
        counts[JobStatus.RUNNING],
        statuses.STALLED if stalled else statuses.RUNNING,
        visit.link("workers"),
        f"{stalled} stalled" if stalled else _tell_workers(found.worker_count),
        is_loud=bool(stalled),
    )
    letters = visit.link("dead-letters")
    return [
        Figure("Due", due, statuses.DUE, jobs[JobStatus.READY], waits),
        running,
        Figure("Scheduled", later, statuses.LATER, jobs[JobStatus.READY], "due later"),
        Figure("Pending", pending, statuses.WAITING, jobs[JobStatus.PENDING], "wait for others"),
        Figure("Dead", dead, statuses.DEAD, letters, "to look at", is_loud=dead > 0),
        Figure("Blocked", blocked, statuses.BLOCKED, jobs[JobStatus.BLOCKED], "by a failure"),
        Figure(
            "Completed",
            counts[JobStatus.COMPLETED],
            statuses.COMPLETED,
            jobs[JobStatus.COMPLETED],
            "and kept",
        ),
    ]


def _fill(tallies: Sequence[MinuteStats], since: datetime) -> list[MinuteStats]:
    """One for every minute, also where nothing happened."""
    known = {each.at: each for each in tallies}
    minutes = [since + index * _MINUTE for index in range(MINUTES_SHOWN)]
    return [known.get(at) or MinuteStats(at=at) for at in minutes]


def _frame(
    name: str, title: str, summary: str, tallies: Sequence[MinuteStats], visit: Visit
) -> Frame:
    walls = [each.at.astimezone(visit.zone) for each in tallies]
    return Frame(name, title, summary, [f"{it:%H:%M}" for it in walls], zone=f"{walls[-1]:%Z}")


def _draw_throughput(tallies: Sequence[MinuteStats], visit: Visit) -> Chart:
    succeeded = sum(each.succeeded for each in tallies)
    failed = sum(each.failed for each in tallies)
    summary = f"{succeeded} succeeded, {failed} failed in the last hour"
    frame = _frame("throughput", "Throughput per minute", summary, tallies, visit)
    return stack_bars(
        frame,
        [
            Series("succeeded", "good", [each.succeeded for each in tallies]),
            Series("failed", "bad", [each.failed for each in tallies]),
            Series("held back", "held", [each.deferred for each in tallies]),
        ],
    )


def _draw_latency(tallies: Sequence[MinuteStats], visit: Visit) -> Chart:
    whole = MinuteStats(at=tallies[0].at)
    for each in tallies:
        whole += each
    median, slow = whole.wait.p50_ms, whole.wait.p95_ms
    summary = "no job was started in the last hour"
    if median is not None and slow is not None:
        summary = f"half within {_tell_ms(median)}, 95 % within {_tell_ms(slow)}"
    frame = _frame("latency", "Wait for a worker", summary, tallies, visit)
    frame = frame._replace(tell=_tell_ms, is_whole=False)
    return draw_lines(
        frame,
        [
            Series("median", "line-1", [each.wait.p50_ms for each in tallies]),
            Series("95 % within", "line-2", [each.wait.p95_ms for each in tallies]),
        ],
    )


def _draw_backlog(tallies: Sequence[MinuteStats], visit: Visit) -> Chart:
    seen = [each.depth for each in tallies if each.depth is not None]
    summary = "nobody has looked in the last hour"
    if seen:
        summary = (
            f"{seen[-1].due} due at last, at most {max(it.due for it in seen)} in the last hour"
        )
    depths = [each.depth for each in tallies]
    return draw_lines(
        _frame("backlog", "Jobs due and running", summary, tallies, visit),
        [
            Series("due", "line-1", [None if it is None else it.due for it in depths]),
            Series("running", "line-2", [None if it is None else it.running for it in depths]),
        ],
    )


def _draw_depth(queues: Sequence[QueueStanding]) -> RowChart:
    fullest = sorted(queues, key=lambda it: -(it.due_count + it.later_count + it.running_count))
    shelves = [
        Shelf(it.queue, (it.due_count, it.later_count, it.running_count, it.dead_count))
        for it in fullest[:QUEUES_SHOWN]
    ]
    waiting = sum(it.due_count for it in queues)
    named = "1 queue" if len(queues) == 1 else f"{len(queues)} queues"
    summary = f"{waiting} due in {named}"
    if len(queues) > QUEUES_SHOWN:
        summary += f", the fullest {QUEUES_SHOWN} shown"
    return lay_bars(Frame("depth", "Depth of queues", summary, ()), shelves, _LOOKS)


def _tell_ms(milliseconds: float) -> str:
    return tell_length(milliseconds * _MILLISECOND)


def _tell_run(run: NextRun, visit: Visit) -> Coming:
    source = "declarative task" if run.source == "task" else "series"
    parts = [source]
    local = run.local.tzinfo or visit.zone
    if run.at.astimezone(local).utcoffset() != run.at.astimezone(visit.zone).utcoffset():
        parts.append(tell_local(run.at, local))
    if run.note:
        parts.append(run.note)
    # The first job of a series may be gone by now: the one that comes next is found by its name.
    waiting = visit.link("jobs", q=run.name, status=JobStatus.READY)
    link = visit.link("schedules") if run.series_id is None else waiting
    return Coming(run.name, run.at, link, ", ".join(parts))


def _tell_workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _tell_failures(found: Overview) -> list[Failed]:
    endings = {
        "cancelled": statuses.CANCELLED,
        "discarded": statuses.DISCARDED,
        "exhausted": statuses.DEAD,
        "lost": statuses.DEAD,
    }
    return [
        Failed(
            it.job_id,
            it.name,
            it.queue,
            it.ended_at,
            endings.get(it.ending or "", STATUS_SIGNS[JobStatus.FAILED]),
            name_error(it.error),
        )
        for it in found.failures
    ]
