"""The next job of a series, made when the present one ends."""

from datetime import datetime
from typing import Any

from rota.jobs.identity import derive_job_id
from rota.jobs.record import Job
from rota.jobs.recurrence import SeriesEnd, next_occurrence, occurrence_key
from rota.jobs.states import JobStatus


def continue_series(job: Job, now: datetime) -> dict[str, Any]:
    """The fields of a ``Change`` that say how the job's series goes on; none if it has none.

    The successor begins with a clean slate. It waits for no dependencies: those were the first
    occurrence's.
    """
    if job.recurrence is None:
        return {}
    occurrence_at = job.occurrence_at or job.due_at
    following = next_occurrence(job.recurrence, occurrence_at, now)
    if isinstance(following, SeriesEnd):
        return {"series_end": following.reason}
    successor = Job(
        id=derive_job_id(job.id, occurrence_at),
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=following.at,
        status=JobStatus.READY,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key,
        occurrence=occurrence_key(job.kind, following.recurrence, following.at),
        occurrence_at=following.at,
        origin=job.origin or job.id,
        recurrence=following.recurrence,
        auto_remove=job.auto_remove,
        created_at=now,
        updated_at=now,
    )
    return {"successor": successor, "missed_count": following.missed_count}
