"""The dependency graph of a job: on the page of the job, and large on a page of its own."""

import gzip
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from starlette.responses import Response

from rota.clock.loop import call_in_thread
from rota.jobs import Job
from rota.ops.graph import MOST_NODES, JobGraph, draw_graph
from rota.server.pages.graph_layout import LINE_HEIGHT, NODE_WIDTH, Layout, Placed, lay_out
from rota.server.pages.responses import render_page
from rota.server.pages.statuses import Sign, sign_of, sign_of_end
from rota.server.pages.visit import Visit, find_job

MOST_BESIDE = 80
"""The most jobs that are drawn on the page of a job; the others are on the large page."""

_QUICK_COUNT = 100
_COMPRESSED_FROM = 16_000


class Node(NamedTuple):
    """A job in the drawing."""

    place: Placed
    name: str
    sign: Sign
    is_here: bool


class States(NamedTuple):
    """The states of all nodes, in the order of the drawing: short, because they are sent often.

    ``indexes`` point into ``signs``. ``mark`` changes when the graph has other nodes.
    """

    mark: int
    signs: str
    indexes: str


class Drawing(NamedTuple):
    """The graph of a job, ready for the template. A refresh has no ``nodes``: only the states."""

    summary: str
    counts: list[tuple[Sign, int]]
    states: States
    is_cut: bool
    layout: Layout | None = None
    nodes: Sequence[Node] = ()
    node_width: float = NODE_WIDTH
    line_height: float = LINE_HEIGHT


async def show_graph(visit: Visit) -> Response:
    """The whole graph on a page of its own."""
    job = await find_job(visit)
    drawing = await find_drawing(visit, job, MOST_NODES)
    response = await render_page(visit, "graph.html", job=job, drawing=drawing, is_large=True)
    return _compress(visit, response)


async def find_drawing(visit: Visit, job: Job, limit: int) -> Drawing | None:
    """The drawing of the graph; None when the job is alone."""
    graph, layout = await visit.cached(
        f"graph of {job.id}, {limit}", lambda: _load(visit, job, limit)
    )
    if len(graph.nodes) == 1:
        return None
    found = await visit.store.get(visit.tenant, [each.id for each in graph.nodes])
    signs = {
        each.id: sign_of(found[each.id], visit.now)
        if each.id in found
        else sign_of_end(each.status)
        for each in graph.nodes
    }
    counts = Counter(signs.values()).most_common()
    drawing = Drawing(describe(graph, layout), counts, _list_states(signs), graph.is_cut)
    if visit.is_refresh:
        return drawing
    places = {each.id: each for each in layout.nodes}
    nodes = [
        Node(places[each.id], each.name, signs[each.id], each.id == job.id) for each in graph.nodes
    ]
    return drawing._replace(layout=layout, nodes=nodes)


async def _load(visit: Visit, job: Job, limit: int) -> tuple[JobGraph, Layout]:
    graph = await draw_graph(visit.store, visit.tenant, job.id, limit=limit)
    names = {each.id: each.name for each in graph.nodes}
    edges = [(each.dependency_id, each.dependent_id) for each in graph.edges]
    if len(names) <= _QUICK_COUNT:
        return graph, lay_out(names, edges)
    return graph, await call_in_thread(lambda: lay_out(names, edges))


def describe(graph: JobGraph, layout: Layout) -> str:
    """How many jobs there are, and what they are to this one."""
    before, after = graph.count("before"), graph.count("after")
    said = f"depends on {before}, {after} {'depends' if after == 1 else 'depend'} on it"
    beside = graph.count("beside")
    if beside:
        said += f", {beside} beside"
    if graph.is_cut:
        said += f"; {len(graph.nodes)} are drawn, the graph has more"
    if layout.left_out:
        said += f"; {layout.left_out} long edges are left out"
    return said


def _list_states(signs: dict[str, Sign]) -> States:
    known = list(dict.fromkeys(signs.values()))
    return States(
        mark=crc32("".join(signs).encode()),
        signs=",".join("/".join(each) for each in known),
        indexes=",".join(str(known.index(each)) for each in signs.values()),
    )


def _compress(visit: Visit, response: Response) -> Response:
    """A thousand nodes are much text, and most of it is alike."""
    body = bytes(response.body)
    accepted = visit.request.headers.get("accept-encoding", "")
    if len(body) < _COMPRESSED_FROM or "gzip" not in accepted:
        return response
    headers = {**response.headers, "content-encoding": "gzip"}
    headers["vary"] = f"{headers.get('vary', '')}, Accept-Encoding".strip(", ")
    del headers["content-length"]
    return Response(gzip.compress(body, 5), response.status_code, headers)
