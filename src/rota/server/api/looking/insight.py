"""One job closely: why it is as it is, its attempts, and what it depends on."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.jobs import Attempt
from rota.ops.explain.explanation import Explanation
from rota.ops.explain.job import explain_job
from rota.ops.explain.occurrence import explain_job_at
from rota.ops.graph import MOST_NODES, JobGraph, draw_graph
from rota.server.api.jobs import ONE_JOB
from rota.server.api.operating.word import read_job
from rota.server.api.shapes.wall_times import WallTime, choose_moment
from rota.server.api.shapes.words import Moment
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


class WhyQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether it is asked about some instant, or a time on the clock of the job's series."""

    at: Annotated[Moment | None, Meta(description="Why it ran, or not, at this instant.")] = None
    wall: WallTime | None = None


class AttemptList(msgspec.Struct, frozen=True):
    """The attempts of a job that did not succeed, the first one first."""

    items: list[Attempt]
    next_cursor: str | None = None
    has_more: bool = False


async def explain_why(call: Call[Nothing, WhyQuestion]) -> Explanation:
    """Say why a job ran, did not run, waits, or will run then.

    The answer is made by the functions that decide, from what is stored: dependencies, rule, zone,
    changes of the clocks, retries, gates, limits, leases, workers, and what operators did. Asked
    about an instant, it says whether the job, or another one of its series, ran then or will.
    """
    around, job = call.around, await read_job(call)
    of = (around.store, around.clock, job.tenant, job.id)
    at = choose_moment(call.query.at, call.query.wall)
    return await (explain_job(*of) if at is None else explain_job_at(*of, at))


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
        query=WhyQuestion,
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
