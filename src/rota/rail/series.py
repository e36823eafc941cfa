"""Operator actions on a job or series: find its current job, then change it.

A worker may take or end a job at any moment. The decision is then made again on the new state.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from rota.errors import (
    ConflictError,
    IllegalMoveError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
)
from rota.jobs import (
    PAUSED_UNTIL,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    decide_cancel,
)
from rota.jobs.fields import read_id
from rota.rail.context import RailContext
from rota.rail.jobs import walk_jobs

ROUND_LIMIT = 20
"""How often a decision is repeated because a worker was faster."""

PASSED_OVER = "passed over: its series was paused when its time came"

_LIVE = (JobStatus.READY, JobStatus.PENDING, JobStatus.RUNNING)


async def find_job(around: RailContext, job_id: object) -> Job | None:
    named = read_id(job_id, "job_id")
    return (await around.store.get(around.tenant, [named])).get(named)


async def find_live(around: RailContext, job_id: object) -> list[Job]:
    """The job if it has not ended, else the live jobs of its series.

    Raises JobNotFoundError when there is neither, JobEndedError when the whole series has ended. A
    series with overlapping occurrences may have several live jobs.
    """
    named = read_id(job_id, "job_id")
    job = await find_job(around, named)
    if job is not None and not job.status.is_terminal and not _may_overlap(job):
        return [job]
    if job is not None and job.recurrence is None:
        raise JobEndedError(job.id, job.status)
    origin = named if job is None else job.origin or job.id
    # Twice: between the two queries a waiting job may start running.
    for _ in range(2):
        found = {each.id: each async for each in _scan_series(around, origin)}
        if found:
            return sorted(found.values(), key=lambda each: each.occurrence_at or each.due_at)
    if job is None:
        raise JobNotFoundError(named)
    raise JobEndedError(job.id, job.status)


async def cancel_jobs(
    around: RailContext, job_id: object, reason: str, *, ends_series: bool
) -> list[Job]:
    """Cancel the job and its series, or only this occurrence."""
    cancelled: list[Job] = []
    for _ in range(ROUND_LIMIT):
        now = around.clock.now()
        try:
            live = await find_live(around, job_id)
        except JobEndedError:
            if cancelled:
                return cancelled
            raise
        named = [job for job in live if job.id == job_id]
        chosen = live if ends_series else named or live[:1]
        changes = [decide_cancel(job, reason, now, ends_series=ends_series) for job in chosen]
        applied = await around.store.apply(changes, now)
        cancelled += [each.job for each in applied if each.job is not None]
        if not any(each.is_stale for each in applied):
            return cancelled
    raise _outrun(job_id)


async def move_job(around: RailContext, job_id: object, due_at: datetime) -> Job:
    """Move a waiting job to another due time."""
    for _ in range(ROUND_LIMIT):
        live = await find_live(around, job_id)
        waiting = [job for job in live if job.status is not JobStatus.RUNNING]
        if not waiting:
            raise IllegalMoveError(JobStatus.RUNNING, JobStatus.READY, "it is running already")
        moved = await _amend(around, waiting[0], due_at=due_at)
        if moved is not None and moved.status is not JobStatus.RUNNING:
            return moved
    raise _outrun(job_id)


async def pause_series(around: RailContext, job_id: object) -> Job:
    """Pause the series. Running jobs finish."""
    for _ in range(ROUND_LIMIT):
        live = _require_series(await find_live(around, job_id))
        paused = [job if job.is_paused else await _pause(around, job) for job in live]
        if None not in paused:
            return paused[-1] or live[-1]
    raise _outrun(job_id)


async def resume_series(around: RailContext, job_id: object, *, catch_up: bool) -> Job:
    """Resume the series with its next occurrence or, to catch up, with the one it missed."""
    for _ in range(ROUND_LIMIT):
        live = _require_series(await find_live(around, job_id))
        resumed = [await _resume(around, job, catch_up=catch_up) for job in live]
        if None not in resumed:
            return resumed[-1] or live[-1]
    raise _outrun(job_id)


async def _scan_series(around: RailContext, origin: JobId) -> AsyncIterator[Job]:
    for status in _LIVE:
        async for job in walk_jobs(around, JobFilter(status=status)):
            if job.origin == origin:
                yield job


async def _amend(around: RailContext, job: Job, **fields: Any) -> Job | None:
    """The amended job, or None when it has ended or was removed meanwhile."""
    try:
        return await around.store.amend(around.tenant, job.id, fields, around.clock.now())
    except (JobEndedError, JobNotFoundError):
        return None


async def _pause(around: RailContext, job: Job) -> Job | None:
    has_begun = job.status is JobStatus.RUNNING or job.attempt_count > 0
    if has_begun:
        return await _amend(around, job, is_paused=True)
    return await _amend(around, job, is_paused=True, due_at=PAUSED_UNTIL)


async def _resume(around: RailContext, job: Job, *, catch_up: bool) -> Job | None:
    """The job that continues the series, or None when it moved meanwhile and must be read again."""
    occurrence_at = job.occurrence_at or job.due_at
    if job.due_at != PAUSED_UNTIL or job.status is JobStatus.RUNNING:
        return await _amend(around, job, is_paused=False) if job.is_paused else job
    if catch_up or occurrence_at >= around.clock.now():
        return await _amend(around, job, is_paused=False, due_at=occurrence_at)
    # First the mark, then the end that passes it on: a crash in between leaves a job that is never
    # due, and the next resume continues from there.
    freed = await _amend(around, job, is_paused=False)
    if freed is None or freed.status is JobStatus.RUNNING:
        return None
    now = around.clock.now()
    change = decide_cancel(freed, PASSED_OVER, now, ends_series=False)
    (applied,) = await around.store.apply([change], now)
    return applied.successor or applied.job


def _require_series(live: list[Job]) -> list[Job]:
    if live[0].recurrence is None:
        raise InvalidJobError("job_id", "must name a series, and this job does not recur")
    return live


def _may_overlap(job: Job) -> bool:
    return job.recurrence is not None and job.recurrence.overlap == "allow"


def _outrun(job_id: object) -> ConflictError:
    return ConflictError(
        f"Job {job_id} was changed by others each time it was to be changed here",
        {"jobId": str(job_id)},
    )
