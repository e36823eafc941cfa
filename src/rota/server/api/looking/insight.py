"""One job closely: why it is as it is, its attempts, and what it depends on."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.access import Scope
from rota.control.graph import MOST_NODES, JobGraph, draw_graph
from rota.control.why import Explanation, explain_job
from rota.jobs import Attempt
from rota.server.api.jobs import ONE_JOB
from rota.server.api.operating.word import read_job
from rota.server.routing.route import Call, Nothing, Route


class GraphChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large a graph may be."""

    limit: Annotated[
        int,
        Meta(
            description="At most so many jobs.",
            ge=1,
            le=MOST_NODES,
        ),
    ] = MOST_NODES


class AttemptList(msgspec.Struct, frozen=True):
    """The attempts of a job that did not succeed, the first one first."""

    items: list[Attempt]
    next_cursor: str | None = None
    has_more: bool = False


async def explain_why(call: Call[Nothing, Nothing]) -> Explanation:
    """Say why a job ran, did not run, waits, or will run then.

    The answer is made by the functions that decide, from what is stored: dependencies, rule, zone,
    changes of the clocks, retries, gates, limits, leases, workers, and what operators did.
    """
    around = call.around
    return await explain_job(around.store, around.clock, call.caller.tenant, call.path["job_id"])


async def get_graph(call: Call[Nothing, GraphChoice]) -> JobGraph:
    """Get what a job depends on and what depends on it, near and far, with statuses."""
    return await draw_graph(
        call.around.store, call.caller.tenant, call.path["job_id"], limit=call.query.limit
    )


async def list_attempts(call: Call[Nothing, Nothing]) -> AttemptList:
    """List the attempts of a job that did not succeed: error, worker, beginning and end."""
    job = await read_job(call)
    return AttemptList(await call.around.store.attempts(call.caller.tenant, job.id))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=f"{ONE_JOB}/why",
        handler=explain_why,
        scope=Scope.READ,
        tag="jobs",
        answers={200: Explanation},
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{ONE_JOB}/graph",
        handler=get_graph,
        scope=Scope.READ,
        tag="jobs",
        query=GraphChoice,
        answers={200: JobGraph},
        errors=(404,),
    ),
    Route(
        method="GET",
        path=f"{ONE_JOB}/attempts",
        handler=list_attempts,
        scope=Scope.READ,
        tag="jobs",
        answers={200: AttemptList},
        errors=(404,),
    ),
)
