"""What is done to one job: retry, cancel, run now."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import IllegalMoveError
from rota.jobs import JobStatus
from rota.rail.dead_letters import is_dead
from rota.server.api.jobs import ONE_JOB
from rota.server.api.operating.word import Order, letters_of, rail_of, read_job
from rota.server.api.shapes.words import Uuid
from rota.server.api.views import JobView, view_job
from rota.server.routing.route import Answer, Call, Nothing, Route


class RetryChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether jobs that were blocked are submitted again, too."""

    cascade: Annotated[
        bool, Meta(description="Also submit again what was blocked by the job, on the new one.")
    ] = False


class CancelChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a series is called off."""

    ends_series: Annotated[
        bool, Meta(description="The series ends with the job; else only this occurrence is off.")
    ] = True


class RetriedJob(msgspec.Struct, frozen=True):
    """The job in the place of the one that failed, and which new job stands for which old one.

    Of ``earlier_ids``, old ones, the new job was there before: they had been retried already.
    """

    job: JobView
    replacements: dict[str, Uuid]
    earlier_ids: tuple[Uuid, ...] = ()


async def retry_job(call: Call[Order, RetryChoice]) -> Answer:
    """Retry a job that failed for good, by a new job that names it in ``replaces``.

    What has ended stays as it is. A job that was retried already keeps the replacement it has.
    """
    old = await read_job(call)
    if not is_dead(old):
        reason = "only a job that failed, and was not cancelled, can be retried"
        raise IllegalMoveError(old.status, JobStatus.READY, reason)
    await call.around.make_room(call.caller.tenant)
    retried = await letters_of(call).retry(
        old.id, cascade=call.query.cascade, who=call.caller.who, why=call.body.why
    )
    new = await read_job(call, retried.replacements[old.id])
    link = {"location": f"{call.root}{ONE_JOB.format(job_id=new.id)}"}
    made = RetriedJob(view_job(new), retried.replacements, retried.earlier_ids)
    return Answer(201, made, link)


async def cancel_job(call: Call[Order, CancelChoice]) -> JobView:
    """Call off a job, at whatever stage; of a series any job's id will do.

    If it runs, whoever runs it is told at the next heartbeat. 409 when it has ended.
    """
    cancelled = await rail_of(call).cancel(
        call.path["job_id"],
        ends_series=call.query.ends_series,
        who=call.caller.who,
        why=call.body.why,
    )
    return view_job(await read_job(call, cancelled.job_id))


async def run_job_now(call: Call[Order, Nothing]) -> JobView:
    """Let a job that waits for its time be due now; 409 when it runs or has ended.

    A series goes on afterwards as if it had waited. A job that waits for others still does.
    """
    moved = await rail_of(call).run_now(call.path["job_id"], who=call.caller.who, why=call.body.why)
    return view_job(await read_job(call, moved.job_id))


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{ONE_JOB}/retry",
        handler=retry_job,
        scope=Scope.OPERATE,
        tag="jobs",
        body=Order,
        query=RetryChoice,
        answers={201: RetriedJob},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE_JOB}/cancel",
        handler=cancel_job,
        scope=Scope.OPERATE,
        tag="jobs",
        body=Order,
        query=CancelChoice,
        answers={200: JobView},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path=f"{ONE_JOB}/run-now",
        handler=run_job_now,
        scope=Scope.OPERATE,
        tag="jobs",
        body=Order,
        answers={200: JobView},
        errors=(404, 409),
    ),
)
