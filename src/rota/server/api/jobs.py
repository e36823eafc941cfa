"""Jobs: create, get, update, delete and search, as specification 5 has them."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidJobError, JobEndedError, JobNotFoundError
from rota.jobs import Job, JobFilter, JobStatus
from rota.jobs.search import DEFAULT_LIMIT, HIGHEST_LIMIT
from rota.server.api.shapes.job_update import JobUpdate, check_fixed, list_changes, list_fixed
from rota.server.api.shapes.new_job import KEY_HEADER, NewJob, admit_asked, with_outer_name
from rota.server.api.shapes.words import Moment
from rota.server.api.views import JobPage, JobView, view_job, view_page
from rota.server.routing.route import Answer, Call, Nothing, Route

JOBS = "/api/v1/jobs"
ONE_JOB = "/api/v1/jobs/{job_id}"
TRACE_HEADER = "Traceparent"

_TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_BEYOND_PRIORITIES = (0, 11)


class JobSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are wanted: those that fit everything that is said."""

    queue: Annotated[str | None, Meta(description="The jobs of this queue.")] = None
    status: Annotated[JobStatus | None, Meta(description="The jobs in this status.")] = None
    priority_min: Annotated[int | None, Meta(description="Of this priority or a higher one.")] = (
        None
    )
    priority_max: Annotated[int | None, Meta(description="Of this priority or a lower one.")] = None
    created_after: Annotated[Moment | None, Meta(description="Made then or later.")] = None
    created_before: Annotated[Moment | None, Meta(description="Made before then.")] = None
    cursor: Annotated[
        str | None, Meta(description="The next_cursor of the page before; left out, the first.")
    ] = None
    limit: Annotated[
        int,
        Meta(
            description="How many to a page.",
            extra_json_schema={"minimum": 1, "maximum": HIGHEST_LIMIT},
        ),
    ] = DEFAULT_LIMIT


async def create_job(call: Call[NewJob, Nothing]) -> Answer:
    """Create a job.

    With an idempotency key, in the header or in the body, a job of the same kind that has it
    already is answered with 200, and no other is made; 409 if its payload is another.
    """
    around, tenant = call.around, call.caller.tenant
    now = around.clock.now()
    job = admit_asked(call.body, around, tenant, now, call.headers.get(KEY_HEADER.lower()))
    await around.make_room(tenant)
    (inserted,) = await around.store.insert([_with_trace(job, call)], now)
    link = {"location": f"{call.root}{JOBS}/{inserted.job.id}"}
    return Answer(200 if inserted.is_existing else 201, view_job(inserted.job), link)


async def get_job(call: Call[Nothing, Nothing]) -> JobView:
    """Get a job."""
    return view_job(await _find_job(call))


async def update_job(call: Call[JobUpdate, Nothing]) -> JobView:
    """Change a job.

    It must not have ended. Only the fields that are sent change. One that never changes may be sent
    with the value it has.
    """
    fixed, changes = list_fixed(call.body), list_changes(call.body)
    if fixed:
        job = await _find_job(call)
        if job.status.is_terminal:
            raise JobEndedError(job.id, job.status)
        check_fixed(fixed, msgspec.to_builtins(view_job(job)))
    now = call.around.clock.now()
    try:
        amended = await call.around.store.amend(
            call.caller.tenant, call.path["job_id"], changes, now
        )
    except InvalidJobError as error:
        raise with_outer_name(error) from error
    return view_job(amended)


async def delete_job(call: Call[Nothing, Nothing]) -> Answer:
    """Delete a job.

    At whatever stage, if no other job depends on it. If it runs, whoever runs it is told at the
    next heartbeat, and the result is discarded.
    """
    await call.around.store.delete(call.caller.tenant, call.path["job_id"])
    return Answer(204)


async def search_jobs(call: Call[Nothing, JobSearch]) -> JobPage:
    """Search for jobs.

    A page of those that fit every filter, the newest first, then by id.
    """
    asked, store = call.query, call.around.store
    page = await store.find(call.caller.tenant, read_filter(asked), asked.cursor, asked.limit)
    return view_page(page)


def read_filter(asked: JobSearch) -> JobFilter:
    """The filters of a search, as stores take them."""
    return JobFilter(
        queue=asked.queue,
        status=asked.status,
        priority_min=_within_reach(asked.priority_min),
        priority_max=_within_reach(asked.priority_max),
        created_after=asked.created_after,
        created_before=asked.created_before,
    )


async def _find_job(call: Call[JobUpdate, Nothing] | Call[Nothing, Nothing]) -> Job:
    job_id = call.path["job_id"]
    found = await call.around.store.get(call.caller.tenant, [job_id])
    if job_id not in found:
        raise JobNotFoundError(job_id)
    return found[job_id]


def _with_trace(job: Job, call: Call[NewJob, Nothing]) -> Job:
    """What is no trace is passed over, as its standard wants it."""
    trace = call.headers.get(TRACE_HEADER.lower())
    if trace is None or not _TRACE.fullmatch(trace):
        return job
    return msgspec.structs.replace(job, trace=trace)


def _within_reach(priority: int | None) -> int | None:
    """The same filter in numbers that every store can hold."""
    lowest, highest = _BEYOND_PRIORITIES
    return None if priority is None else min(max(priority, lowest), highest)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=JOBS,
        handler=create_job,
        scope=Scope.WRITE,
        tag="jobs",
        body=NewJob,
        answers={201: JobView, 200: JobView},
        headers={
            KEY_HEADER: "Makes the job the only one of its kind with that key.",
            TRACE_HEADER: "The trace in which the job is asked for, as W3C Trace Context has it.",
        },
        errors=(409,),
    ),
    Route(
        method="GET",
        path=JOBS,
        handler=search_jobs,
        scope=Scope.READ,
        tag="jobs",
        query=JobSearch,
        answers={200: JobPage},
    ),
    Route(
        method="GET",
        path=ONE_JOB,
        handler=get_job,
        scope=Scope.READ,
        tag="jobs",
        answers={200: JobView},
        errors=(404,),
    ),
    Route(
        method="PUT",
        path=ONE_JOB,
        handler=update_job,
        scope=Scope.WRITE,
        tag="jobs",
        body=JobUpdate,
        answers={200: JobView},
        errors=(404, 409),
    ),
    Route(
        method="DELETE",
        path=ONE_JOB,
        handler=delete_job,
        scope=Scope.WRITE,
        tag="jobs",
        answers={204: None},
        errors=(404, 409),
    ),
)
