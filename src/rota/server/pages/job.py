"""The page of one job: state, explanation, timeline, graph, facts and actions."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from rota.errors import JobNotFoundError
from rota.jobs import PAUSED_UNTIL, Attempt, BackoffStrategy, Job, JobStatus, RetryPolicy
from rota.jobs.identity import normalize_job_id
from rota.ops.audit import find_audit_entries
from rota.ops.explain import explain_job
from rota.ops.graph import JobGraph, draw_graph
from rota.ops.retention import read_retention
from rota.rail.dead_letters import is_dead
from rota.server.pages.formats import Lines, format_length, format_local, show_payload, show_text
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.statuses import STATUS_SIGNS, Sign, sign_of
from rota.server.pages.visit import Visit, read_form
from rota.triggers.zone import load_zone
from rota.worker.progress import read_progress

NODE_WIDTH = 154.0
NODE_HEIGHT = 44.0
_COLUMN = NODE_WIDTH + 40.0
_ROW = NODE_HEIGHT + 16.0
_MARGIN = 10.0
_SWEEPS = 4

MOST_DRAWN = 60

_BACKOFFS = {
    BackoffStrategy.FIXED: "{base} apart",
    BackoffStrategy.LINEAR: "{base} apart, growing linearly up to {longest}",
    BackoffStrategy.EXPONENTIAL: "{base} apart, doubling up to {longest}",
    BackoffStrategy.LADDER: "after {rungs}",
}
_OUTCOMES = {
    "failed": ("failed", "cross", "red"),
    "discarded": ("was discarded", "cross", "red"),
    "lost": ("was lost with its worker", "alert", "red"),
    "cancelled": ("was cancelled", "slash", "quiet"),
    "succeeded": ("succeeded", "check", "green"),
}


class Placed(NamedTuple):
    """The position of a node: its upper left corner."""

    id: str
    x: float
    y: float


class Curve(NamedTuple):
    """An edge as an SVG path, and its arrow tip."""

    path: str
    tip: str


class Layout(NamedTuple):
    """The positions of all nodes and edges, and the size of the drawing."""

    width: float
    height: float
    nodes: tuple[Placed, ...]
    edges: tuple[Curve, ...]


def lay_out(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place nodes in columns by longest path, and in rows so that few edges cross.

    ``edges`` lead from a dependency to its dependent. Edges to unknown nodes, and edges that would
    lead back, are left out.
    """
    known = set(ids)
    kept = [(a, b) for a, b in dict.fromkeys(edges) if a in known and b in known and a != b]
    columns = _order(_rank(ids, kept), kept)
    places = _place(columns)
    height = max((len(column) for column in columns), default=0) * _ROW - (_ROW - NODE_HEIGHT)
    width = len(columns) * _COLUMN - (_COLUMN - NODE_WIDTH)
    return Layout(
        max(width, 0) + 2 * _MARGIN,
        max(height, 0) + 2 * _MARGIN,
        tuple(places[each] for column in columns for each in column),
        tuple(_curve(places[a], places[b]) for a, b in kept if places[a].x < places[b].x),
    )


def _rank(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The nodes by column. A node stands to the right of its dependencies."""
    level = dict.fromkeys(ids, 0)
    for _ in range(len(level)):
        is_settled = True
        for source, target in edges:
            if level[target] <= level[source] < len(level) - 1:
                level[target] = level[source] + 1
                is_settled = False
        if is_settled:
            break
    columns: dict[int, list[str]] = {}
    for each in ids:
        columns.setdefault(level[each], []).append(each)
    return [columns[at] for at in sorted(columns)]


def _order(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Sort each column by the mean row of its neighbours, in a few sweeps."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in edges:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        rows = {each: row for column in columns for row, each in enumerate(column)}
        for column in columns if forward else reversed(columns):
            column.sort(key=lambda each: _middle(each, neighbours, rows))
            rows.update({each: row for row, each in enumerate(column)})
    return columns


def _middle(each: str, neighbours: Mapping[str, list[str]], rows: Mapping[str, int]) -> float:
    found = [rows[other] for other in neighbours.get(each, ())]
    return sum(found) / len(found) if found else rows[each]


def _place(columns: Sequence[Sequence[str]]) -> dict[str, Placed]:
    """Centre every column on the tallest one."""
    tallest = max((len(column) for column in columns), default=0)
    places = {}
    for at, column in enumerate(columns):
        top = _MARGIN + (tallest - len(column)) * _ROW / 2
        for row, each in enumerate(column):
            places[each] = Placed(each, _MARGIN + at * _COLUMN, top + row * _ROW)
    return places


def _curve(source: Placed, target: Placed) -> Curve:
    x1, y1 = source.x + NODE_WIDTH, source.y + NODE_HEIGHT / 2
    x2, y2 = target.x - 5, target.y + NODE_HEIGHT / 2
    bend = max((x2 - x1) / 2, 24)
    path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return Curve(path, f"M{x2:.0f} {y2 - 4:.0f}l6 4l-6 4z")


Link = Callable[..., str]


class Fact(NamedTuple):
    """A name and its value: a text, a link or an instant."""

    name: str
    value: str = ""
    link: str = ""
    at: datetime | None = None
    note: str = ""


def list_facts(job: Job, link: Link) -> list[Fact]:
    return [
        Fact("Queue", job.queue, link("jobs", queue=job.queue)),
        Fact("Kind", job.kind, link("jobs", q=job.kind)),
        Fact("Tenant", job.tenant),
        Fact("Priority", f"{job.priority} of 10"),
        Fact("Due", at=job.due_at),
        Fact("Created", at=job.created_at),
        Fact("Changed", at=job.updated_at),
        Fact(
            "Attempts",
            f"{job.attempt_count} of {job.retry_policy.max_attempts} failed",
            note=describe_policy(job.retry_policy),
        ),
        *_list_lease(job),
        *_list_series(job, link),
        *_list_names(job, link),
    ]


def describe_policy(policy: RetryPolicy) -> str:
    """The retry policy in words."""
    if policy.max_attempts == 1:
        return "one attempt, no retry"
    form = _BACKOFFS[policy.backoff_strategy]
    return form.format(
        base=_seconds(policy.base_delay_seconds),
        longest=_seconds(policy.max_delay_seconds),
        rungs=", ".join(_seconds(each) for each in policy.ladder_seconds),
    )


def _list_lease(job: Job) -> Iterator[Fact]:
    if job.lease is not None:
        yield Fact("Worker", job.lease.worker)
        yield Fact("Lease until", at=job.lease.until, note=f"token {job.lease.token}")


def _list_series(job: Job, link: Link) -> Iterator[Fact]:
    recurrence = job.recurrence
    if recurrence is None:
        return
    yield Fact("Recurs", recurrence.text, note=recurrence.zone)
    if job.occurrence_at is not None:
        local = format_local(job.occurrence_at, load_zone(recurrence.zone))
        yield Fact("Occurrence", local)
    if job.origin not in {None, job.id}:
        yield Fact("Series", "first job", link("jobs", str(job.origin)))
    if job.missed_count:
        yield Fact("Missed", f"{job.missed_count} occurrences before it")
    yield Fact("Overlap", recurrence.overlap)
    yield Fact("Catch-up", recurrence.catch_up)
    if recurrence.jitter is not None:
        yield Fact("Jitter", f"up to {recurrence.jitter}")
    if recurrence.alert_after is not None:
        yield Fact("Alert", f"if none has succeeded {recurrence.alert_after} after it was due")


def _list_names(job: Job, link: Link) -> Iterator[Fact]:
    if job.idempotency_key is not None:
        yield Fact("Idempotency key", job.idempotency_key)
    if job.replaces is not None:
        yield Fact("Replaces", "the failed job", link("jobs", job.replaces))
    if job.auto_remove:
        yield Fact("When completed", "deleted")
    if job.trace is not None:
        yield Fact("Trace", job.trace)


def _seconds(count: int) -> str:
    return format_length(timedelta(seconds=count))


class Step(NamedTuple):
    """One event. ``is_ahead``: it is yet to come. ``details`` are texts with titles, folded."""

    at: datetime
    headline: str
    shape: str
    tone: str = "plain"
    note: str = ""
    error: Lines | None = None
    is_ahead: bool = False
    details: tuple[tuple[str, Lines], ...] = ()


def make_timeline(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[Step]:
    """The events from the creation of the job to its end, or to the next one ahead."""
    steps = [Step(job.created_at, "Created", "plus", "quiet")]
    error_before = None
    for each in attempts:
        steps.append(_show_attempt(each, is_new=each.error != error_before))
        error_before = each.error
    steps += _show_present(job, attempts, now)
    return steps


def _show_attempt(attempt: Attempt, *, is_new: bool) -> Step:
    """An error that equals the previous one is not repeated."""
    words, shape, tone = _OUTCOMES.get(attempt.outcome, (attempt.outcome, "cross", "red"))
    note = f"after {format_length(attempt.lasted_for)}, on {attempt.worker}"
    headline = f"Attempt {attempt.number} {words}"
    error = show_text(attempt.error) if is_new and attempt.error is not None else None
    if not is_new and attempt.error is not None:
        note += ", same error as before"
    details = (("Traceback", attempt.traceback), ("Log", attempt.log))
    shown = tuple((title, show_text(text)) for title, text in details if text is not None)
    return Step(attempt.started_at, headline, shape, tone, note, error, details=shown)


def _show_present(job: Job, attempts: Sequence[Attempt], now: datetime) -> Iterator[Step]:
    if job.deferral is not None and not job.status.is_terminal:
        times = "" if job.deferral.count == 1 else f", {job.deferral.count} times so far"
        note = f"{job.deferral.reason}{times}"
        until = job.deferral.until
        yield Step(until, "Held back until", "pause", "amber", note, is_ahead=until > now)
    if job.status is JobStatus.RUNNING and job.lease is not None:
        lease = job.lease
        number = job.attempt_count + 1
        note = f"on {lease.worker}"
        yield Step(lease.taken_at, f"Attempt {number} began", "play", "blue", note)
    elif job.status.is_terminal:
        yield _show_end(job, attempts, now)
    elif job.due_at < PAUSED_UNTIL and job.status is JobStatus.READY:
        headline = "Due" if job.due_at <= now else "Will be due"
        yield Step(job.due_at, headline, "clock", "blue", is_ahead=job.due_at > now)


def _show_end(job: Job, attempts: Sequence[Attempt], now: datetime) -> Step:
    sign = sign_of(job, now)
    error = None
    is_shown = bool(attempts) and attempts[-1].error == job.last_error
    if job.last_error and not is_shown and job.status is not JobStatus.COMPLETED:
        error = show_text(job.last_error)
    return Step(job.updated_at, sign.word.capitalize(), sign.shape, sign.tone, "", error)


class Action(NamedTuple):
    """A button: the target of its form, the fields it sends, and its style."""

    label: str
    target: str
    sent: tuple[tuple[str, str], ...] = ()
    look: str = ""


class Node(NamedTuple):
    """A job in the graph."""

    id: str
    x: float
    y: float
    name: str
    sign: Sign


class Drawing(NamedTuple):
    """The graph around a job, ready for the template."""

    width: float
    height: float
    nodes: list[Node]
    edges: tuple[Curve, ...]
    summary: str


async def show_job(visit: Visit) -> Response:
    job = await _read(visit)
    store = visit.context.store
    attempts = await store.attempts(visit.tenant, job.id)
    explanation = await explain_job(store, visit.context.clock, visit.tenant, job.id)
    graph = await draw_graph(store, visit.tenant, job.id, limit=MOST_DRAWN)
    payload, is_masked = show_payload(job.payload, visit.context.masked_words)
    results = await store.results(visit.tenant, [job.id])
    progress = await read_progress(store, [job])
    return render_page(
        visit,
        "job.html",
        page="jobs",
        job=job,
        sign=sign_of(job, visit.now),
        explanation=explanation,
        reasons=[it for it in explanation.reasons if it.code != "attempt"],
        actions=list(_list_actions(visit, job)) if visit.may_operate else [],
        steps=make_timeline(job, attempts, visit.now),
        attempts=attempts,
        graph=_draw(graph, job, visit.now) if len(graph.nodes) > 1 else None,
        node_width=NODE_WIDTH,
        node_height=NODE_HEIGHT,
        payload=payload,
        is_masked=is_masked,
        result=_show_result(results.get(job.id), visit.context.masked_words),
        progress=progress.get(job.id),
        acts=await find_audit_entries(store, visit.tenant, [job.id], job.created_at),
        facts=[*list_facts(job, visit.link), *await _list_removal(visit, job)],
    )


async def _list_removal(visit: Visit, job: Job) -> list[Fact]:
    """When retention removes a job that has ended, and where that is said."""
    if not job.status.is_terminal:
        return []
    current = await read_retention(visit.context.rail_context(visit.tenant))
    at, link = current.removal_of(job), visit.link("retention")
    if at is None:
        return [Fact("Removed", "never, by the rules of retention", link)]
    note = "once no job depends on it" if at > visit.now else "due now, once no job depends on it"
    return [Fact("Removed on", at=at, note=note), Fact("Retention", "rules", link)]


def _show_result(body: bytes | None, masked_words: Collection[str]) -> Lines | None:
    """What the handler returned, with secrets masked; None if nothing was kept."""
    return None if body is None else show_payload(msgspec.json.decode(body), masked_words)[0]


async def act_on_job(visit: Visit) -> Response:
    """Run the job now, or pause or resume its series."""
    job = await _read(visit)
    form = await read_form(visit.request)
    rail = visit.rail
    verbs = {
        "run-now": (rail.run_now, "run"),
        "pause": (rail.pause, "paused"),
        "resume": (rail.resume, "resumed"),
    }
    verb = visit.request.path_params["verb"]
    if verb not in verbs:
        raise JobNotFoundError(job.id)
    act, done = verbs[verb]
    await act(job.id, who=visit.caller.who, why=form.one("why") or None)
    if form.one("back") == "schedules":
        return go_to(visit.link("schedules", done=done))
    return go_to(visit.link("jobs", job.id, done=done))


async def _read(visit: Visit) -> Job:
    asked = str(visit.request.path_params["job_id"])
    job_id = normalize_job_id(asked)
    found = {} if job_id is None else await visit.context.store.get(visit.tenant, [job_id])
    if job_id is None or job_id not in found:
        raise JobNotFoundError(asked[:100])
    return found[job_id]


def _list_actions(visit: Visit, job: Job) -> Iterator[Action]:
    """The actions that apply to the job in its current state."""
    chosen = ("id", job.id)
    if job.status is JobStatus.READY and job.due_at > visit.now and not job.is_paused:
        yield Action("Run now", visit.link("jobs", job.id, "run-now"))
    if is_dead(job):
        yield Action("Retry…", visit.link("confirm"), (chosen, ("action", "retry")), "main")
        yield Action("Discard…", visit.link("confirm"), (chosen, ("action", "discard")), "severe")
    if not job.status.is_terminal:
        if job.recurrence is not None:
            verb = "resume" if job.is_paused else "pause"
            yield Action(f"{verb.capitalize()} series", visit.link("jobs", job.id, verb))
        yield Action("Cancel…", visit.link("confirm"), (chosen, ("action", "cancel")), "severe")


def _draw(graph: JobGraph, job: Job, now: datetime) -> Drawing:
    edges = [(each.dependency_id, each.dependent_id) for each in graph.edges]
    layout = lay_out([each.id for each in graph.nodes], edges)
    known = {each.id: each for each in graph.nodes}
    nodes = []
    for place in layout.nodes:
        node = known[place.id]
        sign = sign_of(job, now) if node.id == job.id else STATUS_SIGNS[node.status]
        nodes.append(Node(node.id, place.x, place.y, node.name, sign))
    before = sum(each.level < 0 for each in graph.nodes)
    after = sum(each.level > 0 for each in graph.nodes)
    summary = f"depends on {before}, {after} {'depends' if after == 1 else 'depend'} on it"
    if graph.is_cut:
        summary += "; the graph has more jobs than are drawn"
    return Drawing(layout.width, layout.height, nodes, layout.edges, summary)
