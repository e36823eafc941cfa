"""Many jobs in one request, all or none; they may depend on each other."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidJobError, InvalidRequestError, UnknownDependencyError
from rota.jobs import Job, JobId, normalize_job_id
from rota.jobs.misfits import IN_WORDS
from rota.server.api.jobs import JOBS
from rota.server.api.shapes.new_job import NewJob, admit_asked
from rota.server.api.shapes.words import DEPENDENCIES, WORD
from rota.server.api.views import JobView, view_job
from rota.server.routing.route import Answer, Call, Nothing, Route

MOST_JOBS = 1_000

Ref = Annotated[
    str,
    Meta(
        description="A name for the job within this request, which others may depend on.",
        pattern=WORD["pattern"],
        extra_json_schema={"examples": ["extract"]},
        extra={IN_WORDS: "must be 1 to 200 of the characters a-z, A-Z, 0-9 and _.:-"},
    ),
]
Needed = Annotated[
    str,
    Meta(
        description="The id of a job, or the ref of another job of this request.",
        min_length=1,
        max_length=200,
    ),
]


class BulkJob(NewJob, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A job as it is asked for, beside others.

    ``ref`` names it within the request. ``dependencies`` are ids of jobs that exist, and refs of
    others of the same request, in any order.
    """

    ref: Ref | None = None
    dependencies: Annotated[list[Needed], Meta(extra_json_schema=DEPENDENCIES)] = []  # noqa: RUF012 - a Struct copies it


class BulkJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to 1,000 jobs, of which all are made or none."""

    jobs: Annotated[list[BulkJob], Meta(min_length=1, max_length=MOST_JOBS)]


class BulkMade(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs in the order in which they were asked for.

    ``existing_count`` of them were there before, under the same idempotency key. ``ids`` has the id
    of each job that was given a ref.
    """

    items: list[JobView]
    created_count: int
    existing_count: int
    ids: dict[str, str]


async def create_many_jobs(call: Call[BulkJobs, Nothing]) -> Answer:
    """Create up to 1,000 jobs in one step, all of them or none.

    They may depend on each other by ``ref``. An error names the job by its
    place: ``jobs[3].queue``.
    """
    asked, around, tenant = call.body.jobs, call.around, call.caller.tenant
    jobs = _admit(call, asked)
    await around.make_room(tenant, len(jobs))
    try:
        inserted = await around.store.insert(jobs, around.clock.now())
    except UnknownDependencyError as error:
        raise _name_place(error, jobs) from error
    existing_count = sum(each.is_existing for each in inserted)
    made = BulkMade(
        items=[view_job(each.job) for each in inserted],
        created_count=len(inserted) - existing_count,
        existing_count=existing_count,
        ids={
            wish.ref: each.job.id
            for wish, each in zip(asked, inserted, strict=True)
            if wish.ref is not None
        },
    )
    return Answer(200 if existing_count == len(inserted) else 201, made)


def _admit(call: Call[BulkJobs, Nothing], asked: Sequence[BulkJob]) -> list[Job]:
    now = call.around.clock.now()
    _check_refs(asked)
    plain = [msgspec.structs.replace(each, dependencies=[]) for each in asked]
    jobs: list[Job] = []
    for index, wish in enumerate(plain):
        try:
            jobs.append(admit_asked(wish, call.around, call.caller.tenant, now))
        except InvalidJobError as error:
            raise InvalidJobError(f"jobs[{index}].{error.field}", error.reason) from error
    ids = {wish.ref: job.id for wish, job in zip(asked, jobs, strict=True) if wish.ref is not None}
    return [
        msgspec.structs.replace(job, dependencies=_resolve(index, wish, ids))
        for index, (wish, job) in enumerate(zip(asked, jobs, strict=True))
    ]


def _name_place(error: UnknownDependencyError, jobs: Sequence[Job]) -> InvalidJobError:
    """The same error, of the first job that it is about."""
    missing = set(error.missing)
    places = [n for n, job in enumerate(jobs) if not missing.isdisjoint(job.dependencies)]
    named = InvalidJobError(f"jobs[{places[0]}].dependencies", error.reason)
    named.details["missing"] = error.missing
    return named


def _check_refs(asked: Sequence[BulkJob]) -> None:
    places: dict[str, int] = {}
    for index, wish in enumerate(asked):
        if wish.ref is None:
            continue
        field = f"jobs[{index}].ref"
        if normalize_job_id(wish.ref) is not None:
            raise InvalidRequestError(field, "must not be a UUID, which is the id of a job")
        if wish.ref in places:
            raise InvalidRequestError(field, f"is also that of jobs[{places[wish.ref]}]")
        places[wish.ref] = index


def _resolve(index: int, wish: BulkJob, ids: Mapping[str, JobId]) -> tuple[JobId, ...]:
    """Dependencies as ids, each once."""
    field = f"jobs[{index}].dependencies"
    if len(wish.dependencies) > DEPENDENCIES["maxItems"]:
        raise InvalidRequestError(field, f"must not be more than {DEPENDENCIES['maxItems']}")
    found: list[JobId] = []
    for place, each in enumerate(wish.dependencies):
        job_id = ids.get(each) or normalize_job_id(each)
        if job_id is None:
            reason = "is neither the id of a job nor a ref of this request"
            raise InvalidRequestError(f"{field}[{place}]", reason)
        found.append(job_id)
    if len(set(found)) < len(found):
        raise InvalidRequestError(field, "must not name a job twice")
    return tuple(found)


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{JOBS}/bulk",
        handler=create_many_jobs,
        scope=Scope.WRITE,
        tag="jobs",
        body=BulkJobs,
        answers={201: BulkMade, 200: BulkMade},
        errors=(409,),
    ),
)
