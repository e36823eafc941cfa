"""The dependency graph around a job."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from rota.errors import InvalidInputError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.fields import read_id
from rota.rail.jobs import RailStore

MOST_NODES = 200
"""The default maximum number of nodes."""


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the graph. ``level`` is 0 for the job itself and negative for its dependencies."""

    id: JobId
    name: str
    kind: str
    queue: str
    status: JobStatus
    due_at: datetime
    level: int


class GraphEdge(msgspec.Struct, frozen=True):
    """The dependent waits, or waited, for the dependency."""

    dependency_id: JobId
    dependent_id: JobId


class JobGraph(msgspec.Struct, frozen=True):
    """The ancestors and descendants of a job. ``is_cut``: the graph has more nodes.

    Nodes are sorted by level, then by id. Other descendants of an ancestor are left out.
    """

    job_id: JobId
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool = False


async def draw_graph(
    store: RailStore, tenant: str, job_id: JobId, *, limit: int = MOST_NODES
) -> JobGraph:
    """Return the graph around a job with at most ``limit`` nodes, nearest first.

    Raises JobNotFoundError when the tenant has no job with that id.
    """
    if type(limit) is not int or not 1 <= limit <= MOST_NODES:
        reason = f"must be an integer from 1 to {MOST_NODES}, got {limit!r:.40}"
        raise InvalidInputError(f"limit {reason}", {"field": "limit", "reason": reason})
    named = read_id(job_id, "job_id")
    job = (await store.get(tenant, [named])).get(named)
    if job is None:
        raise JobNotFoundError(named)
    survey = _Survey(store, job, limit)
    while await survey.look_further():
        pass
    return survey.draw()


class _Survey:
    """Walks up and down from a job, one level at a time, until the graph is complete or full."""

    def __init__(self, store: RailStore, job: Job, limit: int) -> None:
        self._store = store
        self._job = job
        self._limit = limit
        self._found: dict[JobId, Job] = {job.id: job}
        self._levels: dict[JobId, int] = {job.id: 0}
        self._upper = self._lower = [job]
        self._step = 0
        self._is_cut = False

    async def look_further(self) -> bool:
        """Walk one level up and one down. Returns whether another step may find more."""
        self._step += 1
        self._upper = await self._climb(self._upper)
        self._lower = await self._descend(self._lower)
        return bool(self._upper or self._lower)

    def draw(self) -> JobGraph:
        nodes = sorted(self._found.values(), key=lambda job: (self._levels[job.id], job.id))
        return JobGraph(
            self._job.id,
            tuple(_node(job, self._levels) for job in nodes),
            tuple(
                GraphEdge(each, job.id)
                for job in nodes
                for each in job.dependencies
                if each in self._found
            ),
            self._is_cut,
        )

    async def _climb(self, jobs: list[Job]) -> list[Job]:
        wanted = dict.fromkeys(
            each for job in jobs for each in job.dependencies if each not in self._found
        )
        chosen = self._choose([*wanted])
        found = await self._store.get(self._job.tenant, chosen) if chosen else {}
        return self._note([found[each] for each in chosen if each in found], -self._step)

    async def _descend(self, jobs: list[Job]) -> list[Job]:
        if not jobs:
            return []
        # One more than fits, plus jobs that may have been found already.
        asked_count = self._limit + 1
        ids = [job.id for job in jobs]
        found = await self._store.find_dependents(self._job.tenant, ids, asked_count)
        self._is_cut = self._is_cut or len(found) == asked_count
        new = {job.id: job for job in found if job.id not in self._found}
        return self._note([new[each] for each in self._choose([*new])], self._step)

    def _choose(self, wanted: list[JobId]) -> list[JobId]:
        room = self._limit - len(self._found)
        self._is_cut = self._is_cut or len(wanted) > room
        return wanted[:room]

    def _note(self, jobs: list[Job], level: int) -> list[Job]:
        for job in jobs:
            self._found[job.id] = job
            self._levels[job.id] = level
        return jobs


def _node(job: Job, levels: Mapping[JobId, int]) -> GraphNode:
    return GraphNode(
        id=job.id,
        name=job.name,
        kind=job.kind,
        queue=job.queue,
        status=job.status,
        due_at=job.due_at,
        level=levels[job.id],
    )
