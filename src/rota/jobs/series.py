"""The next job of a series, and how punctual a run was."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.jobs.identity import derive_job_id
from rota.jobs.record import PAUSED_UNTIL, Job
from rota.jobs.recurrence import (
    NextOccurrence,
    SeriesEnd,
    count_missed,
    next_occurrence,
    occurrence_key,
)
from rota.jobs.states import JobStatus


def continue_series(job: Job, now: datetime) -> dict[str, Any]:
    """The fields of a ``Change`` that continue the job's series; none without a series.

    The successor starts without attempts and without dependencies: those belong to the first
    occurrence.
    """
    if job.recurrence is None:
        return {}
    occurrence_at = job.occurrence_at or job.due_at
    started_at = None if job.lease is None else max(job.lease.taken_at, occurrence_at)
    following = next_occurrence(job.recurrence, occurrence_at, now, started_at)
    if isinstance(following, SeriesEnd):
        return {"series_end": following.reason}
    successor = _follow(job, occurrence_at, following, now)
    if started_at is not None and following.missed_count and following.at > now:
        untold_count = count_missed(job.recurrence, started_at, now)
        successor = replace(successor, missed_count=untold_count)
    return {"successor": successor, "missed_count": following.missed_count}


def begin_beside(job: Job, now: datetime) -> Job | None:
    """The next job of a series with overlapping occurrences, created when the current one starts.

    None for other series. Its id is the one that the end of the job would give it, so it is created
    once.
    """
    if job.recurrence is None or job.recurrence.overlap != "allow":
        return None
    occurrence_at = job.occurrence_at or job.due_at
    following = next_occurrence(job.recurrence, occurrence_at, now)
    if isinstance(following, SeriesEnd):
        return None
    return _follow(job, occurrence_at, following, now)


def _follow(job: Job, occurrence_at: datetime, following: NextOccurrence, now: datetime) -> Job:
    return Job(
        id=derive_job_id(job.id, occurrence_at),
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=PAUSED_UNTIL if job.is_paused else following.at,
        status=JobStatus.READY,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key,
        occurrence=occurrence_key(job.kind, following.recurrence, following.at),
        occurrence_at=following.at,
        origin=job.origin or job.id,
        recurrence=following.recurrence,
        is_paused=job.is_paused,
        auto_remove=job.auto_remove,
        created_at=now,
        updated_at=now,
    )


_ON_TIME = timedelta(0)


class Punctuality(msgspec.Struct, frozen=True, gc=False):
    """When a run was due, how late it is, and what else it covers.

    ``missed_count`` is the number of occurrences without a run that this run is the first to
    report. Each is reported once, unless the run is repeated. ``is_catch_up``: the next occurrence
    is already due, and this run covers it too.
    """

    scheduled_for: datetime
    late_for: timedelta
    missed_count: int = 0
    is_catch_up: bool = False


def assess_punctuality(job: Job, now: datetime) -> Punctuality:
    """What a handler that starts at ``now`` should know about its job's timing.

    A job of a series is judged by its occurrence, even when it was moved. Any other job is judged
    by its due time, which a retry moves.
    """
    scheduled_for = job.occurrence_at or job.due_at
    late_for = max(now - scheduled_for, _ON_TIME)
    if job.recurrence is None or job.recurrence.overlap == "allow":
        return Punctuality(scheduled_for, late_for, job.missed_count)
    since_count = count_missed(job.recurrence, scheduled_for, now)
    return Punctuality(scheduled_for, late_for, job.missed_count + since_count, since_count > 0)
