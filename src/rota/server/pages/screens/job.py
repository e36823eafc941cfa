"""One job: how it stands and why, what happened, what it waits for, and what can be done."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from starlette.responses import Response

from rota.errors import JobNotFoundError
from rota.jobs import Job, JobStatus
from rota.jobs.identity import normalize_job_id
from rota.ops.audit import find_audit_entries
from rota.ops.explain.job import explain_job
from rota.ops.graph import JobGraph, draw_graph
from rota.rail import Rail
from rota.rail.dead_letters import is_dead
from rota.server.pages.drawing.graph import NODE_HEIGHT, NODE_WIDTH, Curve, lay_out
from rota.server.pages.serving.answers import go_to, render_page
from rota.server.pages.serving.forms import read_form
from rota.server.pages.serving.visit import Visit
from rota.server.pages.wording.facts import list_facts
from rota.server.pages.wording.payloads import show_payload
from rota.server.pages.wording.statuses import STATUS_SIGNS, Sign, sign_of
from rota.server.pages.wording.timeline import tell_timeline

MOST_DRAWN = 60


class Action(NamedTuple):
    """A button: where its form goes, what it sends and how it looks."""

    label: str
    target: str
    sent: tuple[tuple[str, str], ...] = ()
    look: str = ""


class Node(NamedTuple):
    """A job in the drawing."""

    id: str
    x: float
    y: float
    name: str
    sign: Sign


class Drawing(NamedTuple):
    """The graph around a job, ready to be drawn."""

    width: float
    height: float
    nodes: list[Node]
    edges: tuple[Curve, ...]
    summary: str


async def show_job(visit: Visit) -> Response:
    job = await _read(visit)
    store = visit.around.store
    attempts = await store.attempts(visit.tenant, job.id)
    explanation = await explain_job(store, visit.around.clock, visit.tenant, job.id)
    graph = await draw_graph(store, visit.tenant, job.id, limit=MOST_DRAWN)
    payload, is_masked = show_payload(job.payload, visit.around.masked_words)
    return render_page(
        visit,
        "job.html",
        page="jobs",
        job=job,
        sign=sign_of(job, visit.now),
        explanation=explanation,
        reasons=[it for it in explanation.reasons if it.code != "attempt"],
        actions=list(_list_actions(visit, job)) if visit.may_operate else [],
        steps=tell_timeline(job, attempts, visit.now),
        attempts=attempts,
        graph=_draw(graph, job, visit.now) if len(graph.nodes) > 1 else None,
        node_width=NODE_WIDTH,
        node_height=NODE_HEIGHT,
        payload=payload,
        is_masked=is_masked,
        acts=await find_audit_entries(store, visit.tenant, [job.id], job.created_at),
        facts=list_facts(job, visit.link),
    )


async def act_on_job(visit: Visit) -> Response:
    """Run it now, or pause or resume the series that it is part of."""
    job = await _read(visit)
    form = await read_form(visit.request)
    rail = Rail(visit.around.store, visit.tenant, clock=visit.around.clock)
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
    found = {} if job_id is None else await visit.around.store.get(visit.tenant, [job_id])
    if job_id is None or job_id not in found:
        raise JobNotFoundError(asked[:100])
    return found[job_id]


def _list_actions(visit: Visit, job: Job) -> Iterator[Action]:
    """What can be done to the job as it stands."""
    chosen = ("id", job.id)
    if job.status is JobStatus.READY and job.due_at > visit.now and not job.is_paused:
        yield Action("Run now", visit.link("jobs", job.id, "run-now"))
    if is_dead(job):
        yield Action("Retry…", visit.link("confirm"), (chosen, ("action", "retry")), "main")
        yield Action("Discard…", visit.link("confirm"), (chosen, ("action", "discard")), "grave")
    if not job.status.is_terminal:
        if job.recurrence is not None:
            verb = "resume" if job.is_paused else "pause"
            yield Action(f"{verb.capitalize()} series", visit.link("jobs", job.id, verb))
        yield Action("Cancel…", visit.link("confirm"), (chosen, ("action", "cancel")), "grave")


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
        summary += "; there are more than can be drawn"
    return Drawing(layout.width, layout.height, nodes, layout.edges, summary)
