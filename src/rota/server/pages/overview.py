"""The overview page: alarms, figures, charts, next runs and failures."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rota.jobs import JobState, JobStatus
from rota.jobs.job_state import NOT_DUE
from rota.ops.overview import MOST_COUNTED, Alarm, NextRun, Overview, take_overview
from rota.ops.queues import QueueStanding
from rota.server.pages.charts import Bar, Chart, Frame, Series, draw_lines, lay_bars
from rota.server.pages.formats import format_count, format_distance, format_local
from rota.server.pages.ranges import (
    Spans,
    draw_durations,
    draw_throughput,
    list_parts,
    make_frame,
    read_spans,
    sum_kinds,
)
from rota.server.pages.statuses import SIGNS, Sign
from rota.server.pages.visit import Visit

QUEUES_SHOWN = 8
KINDS_SHOWN = 8
QUEUES_NAMED = 4

_LOUD = {JobState.STALLED, JobState.DEAD}
_CAPPED = {JobState.BLOCKED, JobState.COMPLETED}
_LOOKS = (("good", "due"), ("calm", "not due"), ("held", "running"), ("bad", "dead"))


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


async def read_overview(visit: Visit) -> dict[str, Any]:
    store = visit.store
    zone = visit.zone if visit.may_administer else None
    found = await visit.cached(
        f"overview {zone}", lambda: take_overview(store, visit.clock, visit.tenant, zone=zone)
    )
    spans = await read_spans(visit)
    return {
        "alarms": list_warnings(found.alarms, visit.link),
        "is_new": not any(found.counts.values()),
        "figures": _list_figures(found, visit),
        "spans": spans,
        "charts": [
            draw_throughput(spans),
            draw_durations("wait", "Wait for a worker", [it.wait for it in spans.stats], spans),
            draw_durations("run", "Run time", [it.handler for it in spans.stats], spans),
            _draw_backlog(spans),
        ],
        "depth": _draw_depth(found.queues, visit.link),
        "kinds": _draw_kinds(spans, visit.link),
        "next_runs": [(each, _note_run(each, visit)) for each in found.next_runs],
        "failures": found.failures,
        "base": visit.base,
    }


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


def _warn_unserved(alarms: Sequence[Alarm], link: Link) -> Warned:
    queue = alarms[0].queue if len({each.queue for each in alarms}) == 1 else None
    target = link("jobs", state=JobState.DUE, queue=queue)
    headline = f"No worker can run {_jobs(alarms, 'that waits', 'that wait')} in {_places(alarms)}."
    text = " ".join(dict.fromkeys(_sentence(each) for each in alarms[:QUEUES_NAMED]))
    return Warned("red", "alert", headline, text, target, "Show jobs")


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
    headline = "A series cannot continue." if len(alarms) == 1 else f"{len(alarms)} series stopped."
    return Warned("red", "alert", headline, text, link("schedules"), "Show schedules")


def _warn_tasks(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = "1 task is failing." if len(alarms) == 1 else f"{len(alarms)} tasks are failing."
    text = _sentence(alarms[0])
    return Warned("amber", "again", headline, text, link("schedules"), "Show schedules")


_WARN: dict[str, Callable[[Sequence[Alarm], Link], Warned]] = {
    "stalled": _warn_stalled,
    "no_worker": _warn_alone,
    "unserved": _warn_unserved,
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
    names = list(dict.fromkeys(each.queue or "" for each in alarms))
    if len(names) == 1:
        return f"queue {names[0]}"
    if len(names) > QUEUES_NAMED:
        return f"{len(names)} queues, among them {', '.join(names[:QUEUES_NAMED])}"
    return f"queues {', '.join(names[:-1])} and {names[-1]}"


def _list_figures(found: Overview, visit: Visit) -> list[Figure]:
    queues = found.queues
    due, later, running, stalled, dead = (
        sum(getattr(each, f"{name}_count") for each in queues)
        for name in ("due", "later", "running", "stalled", "dead")
    )
    counts = {JobStatus(name): count for name, count in found.counts.items()}
    since = min((it.oldest_due_at for it in queues if it.oldest_due_at), default=None)
    waits = "none waiting" if since is None else f"oldest {format_distance(since, visit.now)}"
    workers = "1 worker" if found.worker_count == 1 else f"{found.worker_count} workers"

    def figure(state: JobState, number: int, note: str) -> Figure:
        is_loud = number > 0 and state in _LOUD
        has_more = state in _CAPPED and number >= MOST_COUNTED
        link = visit.link("jobs", state=state)
        return Figure(state.capitalize(), number, SIGNS[state], link, note, is_loud, has_more)

    not_due = visit.link("jobs", state=",".join(NOT_DUE))
    return [
        figure(JobState.DUE, due, waits),
        figure(JobState.RUNNING, running - stalled, workers)._replace(link=visit.link("workers")),
        *([figure(JobState.STALLED, stalled, "no heartbeat")] if stalled else []),
        Figure("Not due", later, SIGNS[JobState.SCHEDULED], not_due, "due later"),
        figure(JobState.PENDING, counts[JobStatus.PENDING], "wait for others"),
        figure(JobState.DEAD, dead, "to review")._replace(link=visit.link("dead-letters")),
        figure(JobState.BLOCKED, counts[JobStatus.BLOCKED], "by a failure"),
        figure(JobState.COMPLETED, counts[JobStatus.COMPLETED], "kept"),
    ]


def _draw_backlog(spans: Spans) -> Chart:
    depths = [each.depth for each in spans.stats]
    seen = [each for each in depths if each is not None]
    summary = f"not measured in the last {spans.range.label}"
    if seen:
        most, busiest = max(it.due for it in seen), max(it.running for it in seen)
        summary = (
            f"at most {format_count(most)} due and {format_count(busiest)} running "
            f"in the last {spans.range.label}"
        )
    return draw_lines(
        make_frame("backlog", "Jobs due and running", summary, spans),
        [
            Series("due", "line-1", [None if it is None else it.due for it in depths]),
            Series("running", "line-2", [None if it is None else it.running for it in depths]),
        ],
    )


def _draw_depth(queues: Sequence[QueueStanding], link: Link) -> Chart:
    fullest = sorted(
        queues, key=lambda it: -(it.due_count + it.later_count + it.running_count + it.dead_count)
    )
    bars = [
        Bar(
            it.queue,
            (it.due_count, it.later_count, it.running_count, it.dead_count),
            link("queues", it.queue),
        )
        for it in fullest[:QUEUES_SHOWN]
    ]
    waiting = sum(it.due_count for it in queues)
    named = "1 queue" if len(queues) == 1 else f"{len(queues)} queues"
    summary = f"{format_count(waiting)} due, {named}"
    if len(queues) > QUEUES_SHOWN:
        summary += f", the fullest {QUEUES_SHOWN} shown"
    return lay_bars(Frame("depth", "Queue depth", summary), bars, _LOOKS)


def _draw_kinds(spans: Spans, link: Link) -> Chart:
    """The kinds with most failed attempts."""
    failed = sum_kinds(it for it in list_parts(spans.stats) if it.failed)
    worst = sorted(failed.values(), key=lambda it: (-it.failed, it.kind))
    bars = [
        Bar(it.kind, (it.failed - it.dead, it.dead), link("errors", kind=it.kind))
        for it in worst[:KINDS_SHOWN]
    ]
    total = sum(it.failed for it in worst)
    named = "1 kind" if len(worst) == 1 else f"{len(worst)} kinds"
    summary = f"{format_count(total)} failed attempts of {named} in the last {spans.range.label}"
    frame = Frame("kinds", "Failures by kind", summary)
    return lay_bars(frame, bars, (("held", "retried"), ("bad", "failed for good")), "Kind")


def _note_run(run: NextRun, visit: Visit) -> str:
    """What runs, its own wall time if that differs from the one shown, and its note."""
    parts = ["declarative task" if run.source == "task" else "series"]
    local = run.local.tzinfo or visit.zone
    if run.at.astimezone(local).utcoffset() != run.at.astimezone(visit.shown_zone).utcoffset():
        parts.append(format_local(run.at, local))
    return ", ".join([*parts, *([run.note] if run.note else [])])
