"""Bulk actions: a plan of what would happen, then exactly that plan."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from rota.errors import (
    ConflictError,
    JobNotFoundError,
    NotFoundError,
    StaleVersionError,
)
from rota.jobs import Change, Ending, Job, JobId, JobState, JobStatus, decide_cancel, find_state
from rota.jobs.fields import RANDOM_BITS, make_job_id
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.search import SearchPage, search_jobs
from rota.policy.audit import AuditedAction, record_action
from rota.rail.dead_letters import Resubmission, is_dead, replace_jobs
from rota.rail.jobs import RailContext, RailStore
from rota.search.query import JobQuery
from rota.stores.documents import decode_body, find_document, remove_documents
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

BulkAction = Literal["cancel", "retry", "restore", "run_now", "delete"]

PLANS = "bulk_plans"
"""The collection. A key is the tenant, a slash and the plan id."""

MOST_PLANNED = 10_000
"""The maximum number of jobs in one plan. More jobs need another plan."""

KEPT_FOR = timedelta(minutes=15)
SAMPLE_SIZE = 10

BATCH_SIZE = 500
"""The number of jobs read, recorded in the audit log and acted on at a time."""

SKIPPED_SHOWN = 100
GONE = "it no longer exists"
MOVED_ON = "its state has changed, and the action no longer applies"

MOST_BLOCKED = 1_000
"""The maximum number of blocked jobs that are submitted again with those that blocked them."""

_FITS: dict[BulkAction, Callable[[Job, datetime], bool]] = {
    "cancel": lambda job, _: not job.status.is_terminal,
    "retry": lambda job, _: is_dead(job),
    "restore": lambda job, _: job.ending is Ending.CANCELLED and job.recurrence is None,
    "run_now": lambda job, now: (
        job.status in (JobStatus.READY, JobStatus.PENDING) and job.due_at > now
    ),
    "delete": lambda *_: True,
}


class BulkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action that has not run yet.

    ``count`` jobs match and can be acted on; ``sample`` shows a few of them. ``passed_over`` counts
    those that match but cannot be acted on, by their state. ``has_more`` is true when more jobs
    match than fit in one plan.
    """

    id: str
    action: BulkAction
    made_at: datetime
    expires_at: datetime
    job_ids: tuple[JobId, ...]
    passed_over: Mapping[JobState, int] = {}
    has_more: bool = False
    sample: tuple[Job, ...] = ()

    @property
    def count(self) -> int:
        return len(self.job_ids)

    @property
    def passed_over_count(self) -> int:
        return sum(self.passed_over.values())


def list_actions(job: Job, now: datetime) -> list[BulkAction]:
    """The actions that apply to the job in its current state."""
    return [action for action, fits in _FITS.items() if fits(job, now)]


def applies_to(action: BulkAction, job: Job, now: datetime) -> bool:
    """Whether the action applies to the job in its current state."""
    return _FITS[action](job, now)


async def plan_bulk(context: RailContext, action: BulkAction, query: JobQuery) -> BulkPlan:
    """Plan an action on the jobs that match, and store the plan for a while."""
    return await _plan(context, action, _walk(context.store, context.tenant, query))


async def plan_for(context: RailContext, action: BulkAction, job_ids: Sequence[JobId]) -> BulkPlan:
    """Plan an action on these jobs, as ``plan_bulk`` does. Jobs that do not exist are left out."""
    return await _plan(context, action, _read(context, job_ids))


async def _plan(context: RailContext, action: BulkAction, jobs: AsyncIterator[Job]) -> BulkPlan:
    now = context.clock.now()
    chosen: list[Job] = []
    passed_over, has_more = Counter[JobState](), False
    async for job in jobs:
        if not applies_to(action, job, now):
            passed_over[find_state(job, now)] += 1
        elif len(chosen) == MOST_PLANNED:
            has_more = True
            break
        else:
            chosen.append(job)
    await _sweep(context.store, context.tenant, now)
    ids, others = tuple(job.id for job in chosen), dict(passed_over)
    plan = await _store(context, action, ids, passed_over=others, has_more=has_more)
    return msgspec.structs.replace(plan, sample=tuple(chosen[:SAMPLE_SIZE]))


async def _store(
    context: RailContext, action: BulkAction, job_ids: tuple[JobId, ...], **others: Any
) -> BulkPlan:
    """Make a plan, and store it for a while."""
    now = context.clock.now()
    plan = BulkPlan(
        id=make_job_id(now, context.draw_bits(RANDOM_BITS)),
        action=action,
        made_at=now,
        expires_at=now + KEPT_FOR,
        job_ids=job_ids,
        **others,
    )
    write = DocumentWrite(PLANS, _key(context.tenant, plan.id), None, msgspec.json.encode(plan))
    await context.store.write_all([write])
    return plan


async def take_plan(store: DocumentStore, tenant: str, plan_id: str, now: datetime) -> BulkPlan:
    """Return the plan and remove it, so that it runs at most once.

    Raises NotFoundError when the plan does not exist, for example because it expired.
    """
    key = _key(tenant, plan_id)
    document = await find_document(store, PLANS, key) if len(key) <= 255 else None
    plan = decode_body(document, BulkPlan, None)
    if document is None or plan is None or plan.expires_at <= now:
        raise NotFoundError(
            "Plan not found: it has expired or was carried out", {"field": "plan_id"}
        )
    try:
        await store.write_all([DocumentWrite(PLANS, key, document.version, None)])
    except StaleVersionError as error:
        raise NotFoundError(
            "Another caller is carrying out this plan", {"field": "plan_id"}
        ) from error
    return plan


async def _read(context: RailContext, job_ids: Sequence[JobId]) -> AsyncIterator[Job]:
    for start in range(0, len(job_ids), BATCH_SIZE):
        batch = job_ids[start : start + BATCH_SIZE]
        found = await context.store.get(context.tenant, batch)
        for job_id in batch:
            if job_id in found:
                yield found[job_id]


async def _walk(store: RailStore, tenant: str, query: JobQuery) -> AsyncIterator[Job]:
    cursor: str | None = None
    while True:
        page: SearchPage = await search_jobs(
            store, tenant, query, cursor=cursor, limit=HIGHEST_LIMIT
        )
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


async def _sweep(store: DocumentStore, tenant: str, now: datetime) -> None:
    """Remove the tenant's expired plans. Another process may remove them first."""

    def is_expired(document: Document) -> bool:
        is_own = document.key.startswith(f"{tenant}/")
        plan = decode_body(document, BulkPlan, None) if is_own else None
        return plan is not None and plan.expires_at <= now

    await remove_documents(store, PLANS, is_expired)


def _key(tenant: str, plan_id: str) -> str:
    return f"{tenant}/{plan_id}"


class Skipped(msgspec.Struct, frozen=True):
    """A planned job that was not changed, and why."""

    job_id: JobId
    reason: str


class BulkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a bulk action. ``skipped`` lists the first jobs that were not changed.

    ``undo_plan_id`` names a plan that undoes it, if there is a way.
    """

    action: BulkAction
    done_count: int
    skipped_count: int
    skipped: tuple[Skipped, ...] = ()
    undo_plan_id: str | None = None


class _Order(msgspec.Struct, frozen=True):
    """Who ordered the action, and why."""

    who: str
    why: str


async def carry_out(context: RailContext, plan_id: str, *, who: str, why: str = "") -> BulkReport:
    """Run the plan on the planned jobs, in their order, and report the result.

    Each batch is recorded in the audit log before it runs. A plan runs at most once.
    """
    plan = await take_plan(context.store, context.tenant, plan_id, context.clock.now())
    order = _Order(who, why)
    done, skipped = list[Job](), list[Skipped]()
    for start in range(0, plan.count, BATCH_SIZE):
        batch = plan.job_ids[start : start + BATCH_SIZE]
        found = await context.store.get(context.tenant, batch)
        now = context.clock.now()
        present = [found[job_id] for job_id in batch if job_id in found]
        fitting = [job for job in present if applies_to(plan.action, job, now)]
        skipped += [
            Skipped(job_id, MOVED_ON if job_id in found else GONE)
            for job_id in batch
            if job_id not in {job.id for job in fitting}
        ]
        if fitting:
            await _record(context, plan, fitting, order)
            left = {it.job_id: it for it in await _ACTS[plan.action](context, fitting, order)}
            skipped += left.values()
            done += [job for job in fitting if job.id not in left]
    return BulkReport(
        action=plan.action,
        done_count=len(done),
        skipped_count=len(skipped),
        skipped=tuple(skipped[:SKIPPED_SHOWN]),
        undo_plan_id=await _plan_undo(context, done) if plan.action == "cancel" else None,
    )


async def _plan_undo(context: RailContext, done: Sequence[Job]) -> str | None:
    """A plan that submits cancelled jobs again. A series that has ended is not continued."""
    ids = tuple(job.id for job in done if job.recurrence is None)
    return (await _store(context, "restore", ids)).id if ids else None


async def _record(context: RailContext, plan: BulkPlan, jobs: Sequence[Job], order: _Order) -> None:
    entry = AuditedAction(
        action=f"bulk_{plan.action}",
        who=order.who,
        why=order.why,
        job_ids=[job.id for job in jobs],
        details={"plan": plan.id, "planned": plan.count},
    )
    await record_action(context, entry)


async def _cancel(context: RailContext, jobs: Sequence[Job], order: _Order) -> list[Skipped]:
    """Cancel jobs and end their series. Retry once the jobs that a worker leased meanwhile."""
    reason = f"cancelled by {order.who}" + (f": {order.why}" if order.why else "")
    stale = await _apply(context, [decide_cancel(job, reason, context.clock.now()) for job in jobs])
    if not stale:
        return []
    again = (await context.store.get(context.tenant, stale)).values()
    live = [job for job in again if not job.status.is_terminal]
    lost = await _apply(context, [decide_cancel(job, reason, context.clock.now()) for job in live])
    ended = set(stale) - {job.id for job in live}
    return [Skipped(job_id, MOVED_ON) for job_id in (*ended, *lost)]


async def _apply(context: RailContext, changes: Sequence[Change]) -> list[JobId]:
    """Apply the changes and return the ids of the stale ones."""
    if not changes:
        return []
    applied = await context.store.apply(changes, context.clock.now())
    return [change.job_id for change, it in zip(changes, applied, strict=True) if it.is_stale]


async def _retry(context: RailContext, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    """Create one new job for each, in one call.

    A job that was retried before keeps its replacement.
    """
    now = context.clock.now()
    await context.store.insert(replace_jobs(Resubmission(tuple(jobs)), now), now)
    return []


async def _restore(context: RailContext, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    """Create one new job for each, due when it was, and for each that its end blocked."""
    now = context.clock.now()
    blocked = await find_blocked(context, jobs)
    due_at = {job.id: max(job.due_at, now) for job in jobs}
    made = [
        msgspec.structs.replace(job, due_at=due_at.get(job.replaces or "", job.due_at))
        for job in replace_jobs(Resubmission(tuple(jobs), tuple(blocked)), now)
    ]
    await context.store.insert(made, now)
    return []


async def find_blocked(context: RailContext, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that these block, directly or through others."""
    known, found = {job.id for job in jobs}, dict[JobId, Job]()
    left = list(known)
    while left and len(found) < MOST_BLOCKED:
        dependents = await context.store.find_dependents(context.tenant, left, MOST_BLOCKED)
        new = [
            job
            for job in dependents
            if job.status is JobStatus.BLOCKED and job.id not in found and job.id not in known
        ]
        found.update({job.id: job for job in new})
        left = [job.id for job in new]
    return list(found.values())[:MOST_BLOCKED]


async def _run_now(context: RailContext, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    async def move(job: Job) -> None:
        moved = await context.store.amend(
            context.tenant, job.id, {"due_at": context.clock.now()}, context.clock.now()
        )
        if moved.status is JobStatus.RUNNING:
            raise ConflictError("it is already running")

    return await _one_by_one(jobs, move)


async def _delete(context: RailContext, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    """Delete dependents before the jobs they depend on."""

    async def remove(job: Job) -> object:
        return await context.store.delete(context.tenant, job.id)

    left = list(jobs)
    while True:
        skipped = await _one_by_one(left, remove)
        if len(skipped) in (0, len(left)):
            return skipped
        stuck = {each.job_id for each in skipped}
        left = [job for job in left if job.id in stuck]


async def _one_by_one(
    jobs: Sequence[Job], act: Callable[[Job], Awaitable[object]]
) -> list[Skipped]:
    skipped: list[Skipped] = []
    for job in jobs:
        try:
            await act(job)
        except (ConflictError, JobNotFoundError) as error:
            skipped.append(Skipped(job.id, error.message))
    return skipped


_ACTS: dict[
    BulkAction, Callable[[RailContext, Sequence[Job], _Order], Awaitable[list[Skipped]]]
] = {
    "cancel": _cancel,
    "retry": _retry,
    "restore": _restore,
    "run_now": _run_now,
    "delete": _delete,
}
