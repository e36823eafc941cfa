"""Many jobs in one request: create them, or act on all that match a filter."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidJobError, InvalidRequestError, UnknownDependencyError
from rota.jobs import Job, JobFilter, JobId, JobStatus, normalize_job_id
from rota.jobs.fields import read_instant
from rota.jobs.misfits import IN_WORDS
from rota.ops.bulk import BulkAction, BulkPlan, Skipped, carry_out, plan_bulk
from rota.search.query import JobQuery, parse_query
from rota.server.api.fields import (
    DEPENDENCIES,
    WORD,
    InstantText,
    Moment,
    PriorityBound,
    QueueName,
    SearchText,
    TypedSearch,
    Uuid,
    Why,
)
from rota.server.api.job_bodies import JobView, NewJob, admit_new_job, view_job, view_jobs
from rota.server.http.route import Answer, Call, Nothing, Resource

BULK = Resource("/api/v1/jobs", "jobs")

MOST_JOBS = 1_000

Ref = Annotated[
    str,
    Meta(
        description="A name for the job within this request, for dependencies.",
        pattern=WORD["pattern"],
        extra_json_schema={"examples": ["extract"]},
        extra={IN_WORDS: "must be 1 to 200 of the characters a-z, A-Z, 0-9 and _.:-"},
    ),
]
Needed = Annotated[
    str,
    Meta(
        description="A job id, or the ref of another job of this request.",
        min_length=1,
        max_length=200,
    ),
]


class BulkJob(NewJob, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A new job among others.

    ``ref`` names it within the request. ``dependencies`` are ids of existing jobs, and refs of
    other jobs of the request, in any order.
    """

    ref: Ref | None = None
    dependencies: Annotated[list[Needed], Meta(extra_json_schema=DEPENDENCIES)] = []  # noqa: RUF012 - a Struct copies it


class BulkJobs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to 1,000 jobs. All are created, or none."""

    jobs: Annotated[list[BulkJob], Meta(min_length=1, max_length=MOST_JOBS)]


class BulkMade(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs in the order of the request.

    ``existing_count`` of them existed before, under the same idempotency key. ``ids`` maps each ref
    to the id of its job.
    """

    items: list[JobView]
    created_count: int
    existing_count: int
    ids: dict[str, str]


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on all jobs that match the filters.

    With ``dry_run`` nothing is done: the answer says how many jobs match and can be acted on, shows
    a few, and names a plan. Without it, ``plan_id`` is required, and the filters are left out.
    """

    action: BulkAction | None = None
    dry_run: bool = True
    plan_id: Uuid | None = None
    why: Why | None = None
    text: Annotated[
        SearchText | None, Meta(description="Part of the name or the kind, or a job id.")
    ] = None
    q: TypedSearch = None
    kind: Annotated[SearchText | None, Meta(description="Jobs of this kind.")] = None
    queue: QueueName | None = None
    status: JobStatus | None = None
    priority_min: PriorityBound | None = None
    priority_max: PriorityBound | None = None
    created_after: InstantText | None = None
    created_before: InstantText | None = None


_FILTERS = BulkOrder.__struct_fields__[BulkOrder.__struct_fields__.index("text") :]


class BulkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The plan, or the result, of a bulk action.

    After a dry run, ``plan_id`` names the plan until ``expires_at``, and ``has_more`` is true when
    more jobs match than fit in one plan. ``passed_over_count`` jobs match the filters, but the
    action does not apply to them; ``passed_over`` counts them by state. Afterwards ``done_count``
    jobs were acted on, and ``skipped`` shows jobs that had changed meanwhile. ``undo_plan_id``
    names a plan that submits the jobs again that were cancelled.
    """

    action: BulkAction
    is_dry_run: bool
    count: int
    sample: list[JobView] = []
    plan_id: Uuid | None = None
    expires_at: Moment | None = None
    has_more: bool = False
    passed_over_count: int = 0
    passed_over: dict[str, int] = {}
    done_count: int = 0
    skipped_count: int = 0
    skipped: tuple[Skipped, ...] = ()
    undo_plan_id: Uuid | None = None


@BULK.route("POST", "/bulk", Scope.WRITE, answers={201: BulkMade, 200: BulkMade}, errors=(409,))
async def create_many_jobs(call: Call[BulkJobs, Nothing]) -> Answer:
    """Create up to 1,000 jobs in one step, all of them or none.

    They may depend on each other by ``ref``. An error names the job by its index:
    ``jobs[3].queue``.
    """
    asked = call.body.jobs
    jobs = _admit(call, asked)
    try:
        inserted = await call.insert(jobs, call.clock.now())
    except UnknownDependencyError as error:
        raise _name_job(error, jobs) from error
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
    now = call.clock.now()
    _check_refs(asked)
    jobs: list[Job] = []
    for index, wish in enumerate(asked):
        plain = msgspec.structs.replace(wish, dependencies=[])
        try:
            jobs.append(admit_new_job(plain, call.context, call.tenant, now))
        except InvalidJobError as error:
            raise InvalidJobError(f"jobs[{index}].{error.field}", error.reason) from error
    ids = {wish.ref: job.id for wish, job in zip(asked, jobs, strict=True) if wish.ref is not None}
    return [
        msgspec.structs.replace(job, dependencies=_resolve(index, wish, ids))
        for index, (wish, job) in enumerate(zip(asked, jobs, strict=True))
    ]


def _name_job(error: UnknownDependencyError, jobs: Sequence[Job]) -> InvalidJobError:
    """The same error, with the index of the first job it concerns."""
    missing = set(error.missing)
    index = next(n for n, job in enumerate(jobs) if not missing.isdisjoint(job.dependencies))
    named = InvalidJobError(f"jobs[{index}].dependencies", error.reason)
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
            raise InvalidRequestError(field, f"is also the ref of jobs[{places[wish.ref]}]")
        places[wish.ref] = index


def _resolve(index: int, wish: BulkJob, ids: Mapping[str, JobId]) -> tuple[JobId, ...]:
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


@BULK.route("POST", "/bulk-actions", Scope.OPERATE, errors=(404, 409))
async def act_on_many_jobs(call: Call[BulkOrder, Nothing]) -> BulkAnswer:
    """Cancel, retry, restore, run now or delete the jobs that match: a dry run, then its plan.

    A plan holds the jobs that matched when it was made, at most 10,000. It is valid for 15 minutes
    and runs once. Each batch of 500 is recorded in the audit log.
    """
    asked = call.body
    if not asked.dry_run:
        return await _carry_out(call)
    if asked.action is None:
        raise InvalidRequestError("action", "is missing")
    if asked.plan_id is not None:
        raise InvalidRequestError("plan_id", "needs dry_run to be false")
    context = call.around
    return _show(await plan_bulk(context, asked.action, _read_query(asked, context.clock.now())))


async def _carry_out(call: Call[BulkOrder, Nothing]) -> BulkAnswer:
    asked = call.body
    if asked.plan_id is None:
        raise InvalidRequestError("plan_id", "is missing: a dry run returns one")
    for name in _FILTERS:
        if getattr(asked, name) is not None:
            raise InvalidRequestError(name, "cannot be combined with a plan, which has its jobs")
    context = call.around
    report = await carry_out(context, asked.plan_id, who=call.who, why=asked.why or "")
    count = report.done_count + report.skipped_count
    return BulkAnswer(is_dry_run=False, count=count, **msgspec.structs.asdict(report))


def _read_query(asked: BulkOrder, now: datetime) -> JobQuery:
    after, before = asked.created_after, asked.created_before
    wanted = JobFilter(
        queue=asked.queue,
        status=asked.status,
        priority_min=asked.priority_min,
        priority_max=asked.priority_max,
        created_after=None if after is None else read_instant(after, "created_after"),
        created_before=None if before is None else read_instant(before, "created_before"),
    )
    query = parse_query(asked.q or "", now).within(wanted)
    return msgspec.structs.replace(query, text=asked.text, kind=asked.kind)


def _show(plan: BulkPlan) -> BulkAnswer:
    return BulkAnswer(
        action=plan.action,
        is_dry_run=True,
        count=plan.count,
        sample=view_jobs(plan.sample),
        plan_id=plan.id,
        expires_at=plan.expires_at,
        has_more=plan.has_more,
        passed_over_count=plan.passed_over_count,
        passed_over={str(state): count for state, count in plan.passed_over.items()},
    )
