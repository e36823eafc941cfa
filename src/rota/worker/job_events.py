"""The events of a worker about its jobs."""

from datetime import timedelta
from typing import Any

from rota.errors import describe_error
from rota.events import (
    HandlerLeaked,
    JobDeferred,
    JobEvent,
    JobFailed,
    JobNotSettled,
    JobSetApart,
    JobSettled,
    JobStalled,
    JobStarted,
    LeaseLost,
)
from rota.jobs import Change, Interrupted, Job, Lease, Skipped, Snoozed, Succeeded, rail_word
from rota.jobs.transitions import SUCCEEDED
from rota.policy.gates import Closed
from rota.worker.attempts import Attempt, Settlement

_OUTCOME_NAMES: dict[type, str] = {
    Succeeded: "succeeded",
    Snoozed: "snoozed",
    Skipped: "skipped",
    Interrupted: "handed back",
}

NOT_HELD = "the store says that it is not held any longer"
STALE = "stale completion: the lease had passed on before it was written"

_MILLISECOND = timedelta(milliseconds=1)


def job_settled(settlement: Settlement, change: Change) -> JobEvent:
    """What was written of an ended attempt: it was deferred, has ended, or failed."""
    attempt, job, outcome = settlement.attempt, change.job, settlement.result.outcome
    if isinstance(outcome, Closed):
        return JobDeferred(until=job.due_at, reason=outcome.reason, **_named(attempt.job))
    if change.attempt is None or change.attempt.outcome == SUCCEEDED:
        return JobSettled(outcome=_OUTCOME_NAMES[type(outcome)], **_timed(attempt, job))
    return JobFailed(
        outcome=change.attempt.outcome,
        err_code=settlement.result.error_code,
        error=job.last_error or "",
        due_at=job.due_at,
        traceback=change.attempt.traceback,
        **_timed(attempt, job),
    )


def job_started(attempt: Attempt) -> JobStarted:
    return JobStarted(wait_ms=_wait_ms(attempt.job), **_named(attempt.job))


def handler_leaked(attempt: Attempt, leaked_count: int) -> HandlerLeaked:
    reason = str(attempt.cancel_reason)
    return HandlerLeaked(reason=reason, leaked_count=leaked_count, **_named(attempt.job))


def job_set_apart(attempt: Attempt) -> JobSetApart:
    return JobSetApart(loss_count=attempt.job.loss_count, **_named(attempt.job))


def lease_lost(attempt: Attempt, reason: str) -> LeaseLost:
    return LeaseLost(token=attempt.job.last_token, reason=reason, **_named(attempt.job))


def job_not_settled(attempt: Attempt, error: Exception) -> JobNotSettled:
    return JobNotSettled(error=describe_error(error), **_named(attempt.job))


def job_stalled(before: Job, lease: Lease, after: Job) -> JobStalled:
    return JobStalled(
        worker=lease.worker,
        lease_until=lease.until,
        state=rail_word(after.status, after.ending),
        loss_count=after.loss_count,
        **_named(before),
    )


def _timed(attempt: Attempt, job: Job) -> dict[str, Any]:
    return {
        "state": rail_word(job.status, job.ending),
        "wait_ms": _wait_ms(attempt.job),
        "duration_ms": max((attempt.ended_at - attempt.started_at) / _MILLISECOND, 0.0),
        **_named(attempt.job),
    }


def _wait_ms(job: Job) -> float:
    """From when the job was due until it was leased."""
    waited = timedelta(0) if job.lease is None else job.lease.taken_at - job.due_at
    return max(waited / _MILLISECOND, 0.0)


def _named(job: Job) -> dict[str, Any]:
    return {
        "tenant": job.tenant,
        "job_id": job.id,
        "kind": job.kind,
        "queue": job.queue,
        "attempt": job.attempt_count + 1,
    }
