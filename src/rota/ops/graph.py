"""The dependency graph of a job: what it waits for, what waits for it, and other branches."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, JobId, JobStatus
from rota.ops.explanation import read_job
from rota.rail.jobs import RailStore

MOST_NODES = 1_000
"""The maximum number of nodes."""

USUAL_NODES = 200
"""The default number of nodes."""

Relation: TypeAlias = Literal["self", "before", "after", "beside"]
"""What a job is to the one asked for.

``before``: that one depends on it, directly or through others. ``after``: it depends on that one.
``beside``: another branch of the same graph.
"""


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the graph.

    ``level`` is 0 for the job itself, one less for a dependency, one more for a dependent.
    """

    id: JobId
    name: str
    kind: str
    queue: str
    status: JobStatus
    due_at: datetime
    level: int
    relation: Relation


class GraphEdge(msgspec.Struct, frozen=True):
    """The dependent waits, or waited, for the dependency."""

    dependency_id: JobId
    dependent_id: JobId


class JobGraph(msgspec.Struct, frozen=True):
    """Every job that is connected with a job. ``is_cut``: the graph has more nodes.

    Nodes are sorted by level, then by id.
    """

    job_id: JobId
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool = False

    def count(self, relation: Relation) -> int:
        return sum(each.relation == relation for each in self.nodes)


async def draw_graph(
    store: RailStore, tenant: str, job_id: JobId, *, limit: int = USUAL_NODES
) -> JobGraph:
    """Return the graph of a job with at most ``limit`` nodes.

    Ancestors and descendants come first, the nearest first; then the branches beside them. Raises
    JobNotFoundError when the tenant has no job with that id.
    """
    if type(limit) is not int or not 1 <= limit <= MOST_NODES:
        reason = f"must be an integer from 1 to {MOST_NODES}, got {limit!r:.40}"
        raise InvalidInputError(f"limit {reason}", {"field": "limit", "reason": reason})
    survey = _Survey(store, await read_job(store, tenant, job_id), limit)
    await survey.walk_lineage()
    await survey.walk_branches()
    return survey.draw()


class _Survey:
    """Walks from a job, one level at a time, until the graph is complete or full."""

    def __init__(self, store: RailStore, job: Job, limit: int) -> None:
        self._store = store
        self._job = job
        self._limit = limit
        self._found: dict[JobId, Job] = {job.id: job}
        self._levels: dict[JobId, int] = {job.id: 0}
        self._relations: dict[JobId, Relation] = {job.id: "self"}
        self._is_cut = False

    async def walk_lineage(self) -> None:
        """Find the ancestors and the descendants, in turns, so that both get room."""
        upper = lower = [self._job]
        while upper or lower:
            upper = await self._climb(upper, "before")
            lower = await self._descend(lower, "after")

    async def walk_branches(self) -> None:
        """Find what is connected with the jobs found so far."""
        rim = list(self._found.values())
        while rim and not self._is_cut:
            above = await self._climb(rim, "beside")
            rim = [*above, *await self._descend(rim, "beside")]

    def draw(self) -> JobGraph:
        nodes = sorted(self._found.values(), key=lambda job: (self._levels[job.id], job.id))
        return JobGraph(
            self._job.id,
            tuple(self._node(job) for job in nodes),
            tuple(
                GraphEdge(each, job.id)
                for job in nodes
                for each in job.dependencies
                if each in self._found
            ),
            self._is_cut,
        )

    async def _climb(self, jobs: list[Job], relation: Relation) -> list[Job]:
        wanted: dict[JobId, int] = {}
        for job in jobs:
            for each in job.dependencies:
                if each not in self._found:
                    wanted.setdefault(each, self._levels[job.id] - 1)
        chosen = self._choose(wanted)
        found = await self._store.get(self._job.tenant, chosen) if chosen else {}
        self._levels.update({each: wanted[each] for each in found})
        return self._note([found[each] for each in chosen if each in found], relation)

    async def _descend(self, jobs: list[Job], relation: Relation) -> list[Job]:
        if not jobs:
            return []
        # One more than fits, plus jobs that may have been found already.
        asked_count = self._limit + 1
        asked = {job.id for job in jobs}
        found = await self._store.find_dependents(self._job.tenant, [*asked], asked_count)
        self._is_cut = self._is_cut or len(found) == asked_count
        new = {job.id: job for job in found if job.id not in self._found}
        chosen = [new[each] for each in self._choose(new)]
        for job in chosen:
            above = [self._levels[each] for each in job.dependencies if each in asked]
            self._levels[job.id] = max(above) + 1
        return self._note(chosen, relation)

    def _choose(self, wanted: Iterable[JobId]) -> list[JobId]:
        room = self._limit - len(self._found)
        chosen = list(wanted)
        self._is_cut = self._is_cut or len(chosen) > room
        return chosen[:room]

    def _note(self, jobs: list[Job], relation: Relation) -> list[Job]:
        for job in jobs:
            self._found[job.id] = job
            self._relations[job.id] = relation
        return jobs

    def _node(self, job: Job) -> GraphNode:
        return GraphNode(
            id=job.id,
            name=job.name,
            kind=job.kind,
            queue=job.queue,
            status=job.status,
            due_at=job.due_at,
            level=self._levels[job.id],
            relation=self._relations[job.id],
        )
