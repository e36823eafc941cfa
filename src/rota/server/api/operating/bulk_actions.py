"""Many jobs at once: what would be done is shown first, and then just that is done."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import JobFilter, JobStatus
from rota.jobs.fields import read_instant
from rota.ops.bulk import BulkAction, BulkPlan, Skipped, carry_out, plan_bulk
from rota.ops.search import JobQuery
from rota.server.api.jobs import JOBS
from rota.server.api.operating.word import Why, surroundings_of
from rota.server.api.shapes.limited import PriorityBound, QueueName, SearchText
from rota.server.api.shapes.words import InstantText, Moment, Uuid
from rota.server.api.views import JobView, view_jobs
from rota.server.routing.route import Call, Nothing, Route

_FILTERS = (
    *("text", "kind", "queue", "status", "priority_min", "priority_max"),
    *("created_after", "created_before"),
)


class BulkOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be done to which jobs.

    With ``dry_run`` nothing is done: the answer says how many jobs fit the filters and can be acted
    on, shows a few, and names a plan. Without it, ``plan_id`` says what to do, and the filters are
    left out.
    """

    action: BulkAction | None = None
    dry_run: bool = True
    plan_id: Uuid | None = None
    why: Why | None = None
    text: Annotated[
        SearchText | None, Meta(description="Part of the name or the kind, or the id of a job.")
    ] = None
    kind: Annotated[SearchText | None, Meta(description="The jobs of this kind.")] = None
    queue: QueueName | None = None
    status: JobStatus | None = None
    priority_min: PriorityBound | None = None
    priority_max: PriorityBound | None = None
    created_after: InstantText | None = None
    created_before: InstantText | None = None


class BulkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done, or was done, to how many jobs.

    Of a dry run ``plan_id`` names the plan until ``expires_at``, and ``has_more`` says that there
    are more jobs than fit in one. ``passed_over_count`` jobs fit the filters, but not the action.
    Afterwards ``done_count`` were acted on, and ``skipped`` shows those that had moved on.
    """

    action: BulkAction
    is_dry_run: bool
    count: int
    sample: list[JobView] = []
    plan_id: Uuid | None = None
    expires_at: Moment | None = None
    has_more: bool = False
    passed_over_count: int = 0
    done_count: int = 0
    skipped_count: int = 0
    skipped: tuple[Skipped, ...] = ()


async def act_on_many_jobs(call: Call[BulkOrder, Nothing]) -> BulkAnswer:
    """Cancel, retry, run now or delete the jobs that fit filters: first dry, then by its plan.

    The jobs of a plan are those that it was made with: what is done is what was shown. Up to 10,000
    are in one, and it is good for 15 minutes and once. Each batch of 500 is in the audit log.
    """
    asked = call.body
    if not asked.dry_run:
        return await _carry_out(call)
    if asked.action is None:
        raise InvalidRequestError("action", "is missing")
    if asked.plan_id is not None:
        raise InvalidRequestError("plan_id", "is for carrying it out: dry_run must be false")
    around = surroundings_of(call)
    return _show(await plan_bulk(around, asked.action, _read_query(asked)))


async def _carry_out(call: Call[BulkOrder, Nothing]) -> BulkAnswer:
    asked = call.body
    if asked.plan_id is None:
        raise InvalidRequestError("plan_id", "is missing: ask for a dry run first, it names one")
    for name in _FILTERS:
        if getattr(asked, name) is not None:
            raise InvalidRequestError(name, "cannot be given beside a plan, which has its jobs")
    report = await carry_out(
        surroundings_of(call), asked.plan_id, who=call.caller.who, why=asked.why or ""
    )
    return BulkAnswer(
        action=report.action,
        is_dry_run=False,
        count=report.done_count + report.skipped_count,
        done_count=report.done_count,
        skipped_count=report.skipped_count,
        skipped=report.skipped,
    )


def _read_query(asked: BulkOrder) -> JobQuery:
    after, before = asked.created_after, asked.created_before
    return JobQuery(
        text=asked.text,
        kind=asked.kind,
        wanted=JobFilter(
            queue=asked.queue,
            status=asked.status,
            priority_min=asked.priority_min,
            priority_max=asked.priority_max,
            created_after=None if after is None else read_instant(after, "created_after"),
            created_before=None if before is None else read_instant(before, "created_before"),
        ),
    )


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
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{JOBS}/bulk-actions",
        handler=act_on_many_jobs,
        scope=Scope.OPERATE,
        tag="jobs",
        body=BulkOrder,
        answers={200: BulkAnswer},
        errors=(404, 409),
    ),
)
