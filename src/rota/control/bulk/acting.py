"""Carries out a plan, so many jobs at a time."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from rota.control.bulk.planning import BulkAction, BulkPlan, fits, take_plan
from rota.errors import ConflictError, JobNotFoundError
from rota.jobs import Change, Job, JobId, JobStatus, decide_cancel
from rota.rail.audit import Act, record_act
from rota.rail.dead_letters.replacement import Resubmission, replace_jobs
from rota.rail.surroundings import Surroundings

BATCH_SIZE = 500
"""So many jobs are read, noted in the audit log and acted on at a time."""

SKIPPED_SHOWN = 100
GONE = "it is not kept any more"
MOVED_ON = "it has moved on, and there is no sense in it any more"


class Skipped(msgspec.Struct, frozen=True):
    """A job of the plan that was left as it is, and why."""

    job_id: JobId
    reason: str


class BulkReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done; of those that were left as they are, ``skipped`` shows the first."""

    action: BulkAction
    done_count: int
    skipped_count: int
    skipped: tuple[Skipped, ...] = ()


class _Order(msgspec.Struct, frozen=True):
    """On whose word and for what reason."""

    who: str
    why: str


async def carry_out(around: Surroundings, plan_id: str, *, who: str, why: str = "") -> BulkReport:
    """Do what was planned to the jobs that were planned, and say what became of it.

    Each batch is in the audit log before anything is done to it. A plan can be carried out once.
    """
    plan = await take_plan(around.store, around.tenant, plan_id, around.clock.now())
    order = _Order(who, why)
    done_count, skipped = 0, list[Skipped]()
    for start in range(0, plan.count, BATCH_SIZE):
        batch = plan.job_ids[start : start + BATCH_SIZE]
        found = await around.store.get(around.tenant, batch)
        now = around.clock.now()
        fitting = [it for it in found.values() if fits(plan.action, it, now)]
        skipped += [
            Skipped(job_id, MOVED_ON if job_id in found else GONE)
            for job_id in batch
            if job_id not in {job.id for job in fitting}
        ]
        if fitting:
            await _record(around, plan, fitting, order)
            left = await _ACTS[plan.action](around, fitting, order)
            skipped += left
            done_count += len(fitting) - len(left)
    return BulkReport(
        action=plan.action,
        done_count=done_count,
        skipped_count=len(skipped),
        skipped=tuple(skipped[:SKIPPED_SHOWN]),
    )


async def _record(around: Surroundings, plan: BulkPlan, jobs: Sequence[Job], order: _Order) -> None:
    act = Act(
        action=f"bulk_{plan.action}",
        who=order.who,
        why=order.why,
        job_ids=[job.id for job in jobs],
        details={"plan": plan.id, "planned": plan.count},
    )
    await record_act(around, act)


async def _cancel(around: Surroundings, jobs: Sequence[Job], order: _Order) -> list[Skipped]:
    """With each job its series ends. Who was taken by a worker meanwhile is tried once more."""
    reason = f"cancelled by {order.who}" + (f": {order.why}" if order.why else "")
    stale = await _apply(around, [decide_cancel(job, reason, around.clock.now()) for job in jobs])
    if not stale:
        return []
    again = (await around.store.get(around.tenant, stale)).values()
    live = [job for job in again if not job.status.is_terminal]
    lost = await _apply(around, [decide_cancel(job, reason, around.clock.now()) for job in live])
    ended = set(stale) - {job.id for job in live}
    return [Skipped(job_id, MOVED_ON) for job_id in (*ended, *lost)]


async def _apply(around: Surroundings, changes: Sequence[Change]) -> list[JobId]:
    """Write the changes; the ids of those that were stale."""
    if not changes:
        return []
    applied = await around.store.apply(changes, around.clock.now())
    return [change.job_id for change, it in zip(changes, applied, strict=True) if it.is_stale]


async def _retry(around: Surroundings, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    """A new job for each, in one step; one that has been retried already keeps its replacement."""
    now = around.clock.now()
    await around.store.insert(replace_jobs(Resubmission(tuple(jobs)), now), now)
    return []


async def _run_now(around: Surroundings, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    async def move(job: Job) -> None:
        moved = await around.store.amend(
            around.tenant, job.id, {"due_at": around.clock.now()}, around.clock.now()
        )
        if moved.status is JobStatus.RUNNING:
            raise ConflictError("it runs already")

    return await _one_by_one(jobs, move)


async def _delete(around: Surroundings, jobs: Sequence[Job], _: _Order) -> list[Skipped]:
    """Those go first that others of the batch depend on the least: dependents before them."""

    async def remove(job: Job) -> object:
        return await around.store.delete(around.tenant, job.id)

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
    BulkAction, Callable[[Surroundings, Sequence[Job], _Order], Awaitable[list[Skipped]]]
] = {"cancel": _cancel, "retry": _retry, "run_now": _run_now, "delete": _delete}
