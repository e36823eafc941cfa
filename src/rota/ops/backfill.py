"""Backfills a series: runs its handler for occurrences of the past that have no successful run.

Each occurrence gets a job of its own, with the occurrence as its ``scheduled_for``. The jobs do not
recur, so the series goes on as it would have. Their ids follow from the series and the occurrence:
to repeat a backfill creates nothing twice.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from rota.clock.loop import call_in_thread
from rota.errors import InvalidInputError, JobNotFoundError
from rota.jobs import Job, JobId, JobRequest, JobStatus, Recurrence, admit_job, make_trigger
from rota.jobs.fields import derive_job_id
from rota.jobs.recurrence import series_of
from rota.ops.series import find_jobs_of, find_series_job
from rota.policy.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext

MOST_JOBS = 1_000
_STEP = timedelta(milliseconds=1)
_INSTANT = timedelta(microseconds=1)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_IN_AUDIT = 100


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would create, or has created.

    ``occurrences`` get a job, in this order. ``left_out_count`` have one that completed, waits or
    runs, or were backfilled before. ``is_applied``: the jobs ``job_ids`` were created.
    """

    series_id: JobId
    since: datetime
    until: datetime
    occurrences: tuple[datetime, ...]
    left_out_count: int = 0
    job_ids: tuple[JobId, ...] = ()
    is_applied: bool = False


async def plan_backfill(
    context: RailContext, series_id: JobId, since: datetime, until: datetime
) -> Backfill:
    """What ``run_backfill`` would create. Writes nothing.

    Raises InvalidInputError for a range that is empty, ends in the future or has more than
    ``MOST_JOBS`` occurrences.
    """
    return await _plan(context, await find_series_job(context, series_id), since, until)


async def run_backfill(
    context: RailContext,
    series_id: JobId,
    since: datetime,
    until: datetime,
    *,
    who: str | None = None,
    why: str | None = None,
) -> Backfill:
    """Create a job for each occurrence from ``since`` to ``until`` that has none."""
    job = await find_series_job(context, series_id)
    plan = await _plan(context, job, since, until)
    if not plan.occurrences:
        return plan
    now = context.clock.now()
    jobs = [_make(job, at, now, number) for number, at in enumerate(plan.occurrences)]
    details = {"since": since.isoformat(), "until": until.isoformat(), "count": len(jobs)}
    act = AuditedAction(
        action="backfill",
        who=who,
        why=why,
        job_ids=(plan.series_id, *(it.id for it in jobs[:_SHOWN_IN_AUDIT])),
        details=details,
    )
    await record_action(context, act)
    inserted = await context.store.insert(jobs, now)
    return replace(plan, job_ids=tuple(it.job.id for it in inserted), is_applied=True)


def backfill_id(series_id: JobId, at: datetime) -> JobId:
    """The id of the job that backfills this occurrence of the series."""
    return derive_job_id(f"{series_id}|backfill", at)


async def _plan(context: RailContext, job: Job, since: datetime, until: datetime) -> Backfill:
    _check_range(since, until, context.clock.now())
    recurrence, series_id = job.recurrence, series_of(job)
    if recurrence is None:
        raise JobNotFoundError(job.id)
    found = await call_in_thread(lambda: list(_list_occurrences(recurrence, since, until)))
    if len(found) > MOST_JOBS:
        reason = f"more than {MOST_JOBS} occurrences are due by then; choose an earlier instant"
        raise _refuse("until", until, reason)
    taken = await _find_taken(context, series_id, found)
    return Backfill(
        series_id=series_id,
        since=since,
        until=until,
        occurrences=tuple(at for at in found if at not in taken),
        left_out_count=len(taken),
    )


def _check_range(since: datetime, until: datetime, now: datetime) -> None:
    if until > now:
        raise _refuse("until", until, "is in the future; a backfill is for the past")
    if since < _EARLIEST:
        raise _refuse("since", since, "is before 1970")
    if since > until:
        raise _refuse("since", since, f"is later than until, {until.isoformat()}")


def _list_occurrences(
    recurrence: Recurrence, since: datetime, until: datetime
) -> Iterator[datetime]:
    """The occurrences in the range, one more than a backfill may have."""
    trigger = make_trigger(recurrence)
    at = trigger.next_after(since - _INSTANT)
    for _ in range(MOST_JOBS + 1):
        if at is None or at > until:
            return
        yield at
        at = trigger.next_after(at)


async def _find_taken(
    context: RailContext, series_id: JobId, occurrences: Sequence[datetime]
) -> Collection[datetime]:
    """The occurrences that need no job."""
    wanted = set(occurrences)
    jobs = await find_jobs_of(context.store, context.tenant, series_id)
    taken = {
        it.occurrence_at
        for it in jobs
        if it.occurrence_at is not None
        and (it.status is JobStatus.COMPLETED or not it.status.is_terminal)
    }
    ids = {backfill_id(series_id, at): at for at in occurrences}
    existing = await context.store.get(context.tenant, list(ids)) if ids else {}
    return (taken & wanted) | {ids[each] for each in existing}


def _make(job: Job, at: datetime, now: datetime, number: int) -> Job:
    """The job of one occurrence. Jobs that are created together start in their order."""
    request = JobRequest(
        name=job.name,
        queue=job.queue,
        payload=job.payload,
        priority=job.priority,
        retry_policy=job.retry_policy,
        notifies=job.notifies,
        label=job.label,
        due_at=now + number * _STEP,
    )
    series_id = series_of(job)
    made = admit_job(request, job_id=backfill_id(series_id, at), now=now, tenant=job.tenant)
    # A kind that was taken from a name may have characters that are refused otherwise.
    return replace(made, kind=job.kind, occurrence_at=at, origin=series_id)


def _refuse(field: str, value: datetime, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field}: {value.isoformat()}: {reason}", {"field": field})
