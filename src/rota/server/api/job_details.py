"""One job: explanation, graph and attempts; retry, duplicate, cancel and run now."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from rota.auth.caller import Scope
from rota.clock.system import timeout_after
from rota.errors import ForbiddenError, IllegalMoveError
from rota.jobs import Attempt, Job, JobStatus
from rota.ops.edits import duplicate_job, retry_edited
from rota.ops.explain import explain_job
from rota.ops.explain_at import explain_job_at
from rota.ops.explanation import Explanation
from rota.ops.graph import MOST_NODES, USUAL_NODES, JobGraph, draw_graph
from rota.ops.results import wait_for_end
from rota.rail.dead_letters import is_dead
from rota.server.api.fields import Moment, Order, Uuid, WallTime, Whole, choose_moment, read_job
from rota.server.api.job_bodies import CopyChanges, JobView, api_names, view_job
from rota.server.http.route import Answer, Call, Nothing, Resource
from rota.worker.progress import read_progress

JOB = Resource("/api/v1/jobs/{job_id}", "jobs")


class GraphChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size of the graph."""

    limit: Annotated[int, Meta(description="The maximum number of jobs.", ge=1, le=MOST_NODES)] = (
        USUAL_NODES
    )


class WhyQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An instant, or a wall time in the zone of the job's series."""

    at: Annotated[Moment | None, Meta(description="Why it did or did not run then.")] = None
    wall: WallTime | None = None


class AttemptList(Whole[Attempt], frozen=True):
    """The attempts of a job that have ended, first one first; the last may have succeeded."""


class ResultChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for the end of the job."""

    wait: Annotated[
        int, Meta(description="Wait up to this number of seconds for its end.", ge=0, le=60)
    ] = 0


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running job is, as its handler reported it last."""

    done: float
    total: float | None
    message: str | None
    at: datetime


class ResultView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a job, as far as there is one.

    ``result`` is what the handler returned; null before the end, and if nothing was kept.
    ``error`` and ``traceback`` are those of the last attempt of a job that failed. ``progress`` is
    that of a running job, if its handler reports any.
    """

    job_id: Uuid
    status: JobStatus
    has_ended: bool
    result: Any = None
    error: str | None = None
    traceback: str | None = None
    progress: ProgressView | None = None


class RetryChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether blocked jobs are submitted again too."""

    cascade: Annotated[
        bool, Meta(description="Also submit the jobs that it blocked, on the new job.")
    ] = False


class CancelChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a series is cancelled."""

    ends_series: Annotated[
        bool, Meta(description="End the series. False cancels this occurrence only.")
    ] = True


class CopyOrder(Order, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason, and the values in which the new job differs from the old one."""

    changes: CopyChanges = CopyChanges()


class RetriedJob(msgspec.Struct, frozen=True):
    """The new job, and the new id for each old id.

    The old jobs in ``earlier_ids`` had been retried before, and keep that replacement.
    """

    job: JobView
    replacements: dict[str, Uuid]
    earlier_ids: tuple[Uuid, ...] = ()


@JOB.route("GET", "/why", Scope.READ, errors=(404,))
async def explain_why(call: Call[Nothing, WhyQuestion]) -> Explanation:
    """Explain why a job ran, did not run, waits or will run.

    The functions that decide compute the answer from the stored job: dependencies, rule, zone, DST,
    retries, gates, limits, leases, workers and operator actions. With an instant, it says whether
    the job, or another job of its series, ran then or will run then. Without one, it explains the
    jobs for pollers too.
    """
    subject = (call.store, call.clock, call.tenant, call.path["job_id"])
    if call.query.at is None and call.query.wall is None:
        return await explain_job(*subject)
    await read_job(call)  # a job that does not exist is refused before anything else
    at = choose_moment(call.query.at, call.query.wall)
    return await (explain_job(*subject) if at is None else explain_job_at(*subject, at))


@JOB.route("GET", "/graph", Scope.READ, errors=(404,))
async def get_graph(call: Call[Nothing, GraphChoice]) -> JobGraph:
    """Get every job that is connected with a job by dependencies, with its status."""
    return await draw_graph(call.store, call.tenant, call.path["job_id"], limit=call.query.limit)


@JOB.route("GET", "/result", Scope.READ, errors=(404,))
async def get_result(call: Call[Nothing, ResultChoice]) -> ResultView:
    """Get the result of a job; optionally wait for its end.

    The answer comes as soon as the job has ended, or after ``wait`` seconds.
    """
    job = await read_job(call)
    if call.query.wait and not job.status.is_terminal:
        with suppress(TimeoutError):
            async with timeout_after(call.clock, timedelta(seconds=call.query.wait)):
                job = await wait_for_end(call.store, call.clock, job.tenant, job.id)
    view = ResultView(job_id=job.id, status=job.status, has_ended=job.status.is_terminal)
    if not job.status.is_terminal:
        found = (await read_progress(call.store, [job])).get(job.id)
        progress = msgspec.convert(found, ProgressView | None, from_attributes=True)
        return replace(view, progress=progress)
    if job.status is JobStatus.COMPLETED:
        body = (await call.store.results(job.tenant, [job.id])).get(job.id)
        return view if body is None else replace(view, result=msgspec.Raw(body))
    attempts = await call.store.attempts(job.tenant, job.id)
    traceback = attempts[-1].traceback if attempts else None
    return replace(view, error=job.last_error, traceback=traceback)


@JOB.route("GET", "/attempts", Scope.READ, errors=(404,))
async def list_attempts(call: Call[Nothing, Nothing]) -> AttemptList:
    """List the attempts of a job that have ended: worker, start, end, error, traceback and log."""
    job = await read_job(call)
    return AttemptList(await call.store.attempts(call.tenant, job.id))


@JOB.route("POST", "/retry", Scope.OPERATE, errors=(404, 409), answers={201: RetriedJob})
async def retry_job(call: Call[CopyOrder, RetryChoice]) -> Answer:
    """Retry a failed job by a new job that names it in ``replaces``.

    The failed job stays as it is. A job that was retried before keeps its replacement; with
    ``changes``, such as another payload, that is 409. ``changes`` need the scope ``write`` too.
    """
    old = await read_job(call)
    if not is_dead(old):
        reason = "only a job that failed, and was not cancelled, can be retried"
        raise IllegalMoveError(old.status, JobStatus.READY, reason)
    changes = _read_changes(call, old)
    await call.admit()
    asked: dict[str, Any] = {"cascade": call.query.cascade, "why": call.body.why}
    asked["who"] = call.who
    if changes:
        with api_names():
            retried = await retry_edited(call.around, old.id, changes, **asked)
    else:
        retried = await call.dead_letters.retry(old.id, **asked)
    new = await read_job(call, retried.replacements[old.id])
    link = {"location": f"{call.root}{JOB.path.format(job_id=new.id)}"}
    made = RetriedJob(view_job(new), retried.replacements, retried.earlier_ids)
    return Answer(201, made, link)


@JOB.route("POST", "/duplicate", Scope.WRITE, errors=(404, 409), answers={201: JobView})
async def duplicate(call: Call[CopyOrder, Nothing]) -> Answer:
    """Create a job like this one, in any state, with other values for some fields.

    The new job is due now, waits for the same dependencies, has no idempotency key and does not
    recur.
    """
    old = await read_job(call)
    changes = _read_changes(call, old)
    await call.admit()
    with api_names():
        new = await duplicate_job(call.around, old.id, changes, who=call.who, why=call.body.why)
    link = {"location": f"{call.root}{JOB.path.format(job_id=new.id)}"}
    return Answer(201, view_job(new), link)


def _read_changes(call: Call[CopyOrder, Any], old: Job) -> dict[str, Any]:
    """The changes, if the caller may make them and the payload fits its kind."""
    changes = call.body.changes.as_fields()
    if changes and not call.caller.may(Scope.WRITE):
        raise ForbiddenError(Scope.WRITE)
    if "payload" in changes:
        call.context.served.check(old.kind, changes["payload"])
    return changes


@JOB.route("POST", "/cancel", Scope.OPERATE, errors=(404, 409))
async def cancel_job(call: Call[Order, CancelChoice]) -> JobView:
    """Cancel a job that has not ended. Any job id of a series will do.

    When it is running, its worker learns of it at the next heartbeat. 409 when it has ended.
    """
    cancelled = await call.rail.cancel(
        call.path["job_id"], ends_series=call.query.ends_series, who=call.who, why=call.body.why
    )
    return view_job(await read_job(call, cancelled.job_id))


@JOB.route("POST", "/run-now", Scope.OPERATE, errors=(404, 409))
async def run_job_now(call: Call[Order, Nothing]) -> JobView:
    """Make a scheduled job due now. 409 when it is running or has ended.

    Its series continues as scheduled. A job that waits for other jobs still does.
    """
    moved = await call.rail.run_now(call.path["job_id"], who=call.who, why=call.body.why)
    return view_job(await read_job(call, moved.job_id))
