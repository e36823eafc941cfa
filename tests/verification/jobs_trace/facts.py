"""From the records of jobs to those of a history."""

from tests.verification.jobs_trace.records import (
    Grant,
    JobFacts,
    KeptFacts,
    Move,
    MoveAnswer,
    Place,
)

from rota.jobs import Change, Job
from rota.stores.kernel.identity import identity_of
from rota.stores.protocol import Applied, Inserted


def describe_job(job: Job) -> JobFacts:
    return JobFacts(
        id=job.id,
        tenant=job.tenant,
        due_at=job.due_at,
        identity=identity_of(job),
        place=place_of(job),
    )


def place_of(job: Job) -> Place | None:
    """None for a job that belongs to no series."""
    if job.origin is None or job.occurrence_at is None:
        return None
    return Place(job.origin, job.occurrence_at)


def describe_kept(inserted: Inserted) -> KeptFacts:
    return KeptFacts(inserted.job.id, inserted.job.status, inserted.is_existing)


def describe_grant(job: Job) -> Grant:
    until = job.due_at if job.lease is None else job.lease.until
    return Grant(job.id, job.last_token, until, job.due_at)


def describe_move(change: Change) -> Move:
    attempt = change.attempt
    if attempt is not None and attempt.outcome == "succeeded":
        attempt = None  # it has a log, and spends nothing
    return Move(
        job_id=change.job_id,
        token=change.expected_token,
        source=change.path[0],
        target=change.path[-1],
        due_at=change.job.due_at,
        attempt=None if attempt is None else attempt.number,
        outcome=None if attempt is None else attempt.outcome,
        successor=None if change.successor is None else describe_job(change.successor),
        is_removed=change.is_removed,
    )


def describe_answer(applied: Applied) -> MoveAnswer:
    return MoveAnswer(
        is_applied=not applied.is_stale,
        successor_id=None if applied.successor is None else applied.successor.id,
        released=applied.released,
        blocked=applied.blocked,
    )
