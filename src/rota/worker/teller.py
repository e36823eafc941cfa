"""What became of jobs, told as events; nothing is made of what nobody would notice."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from rota.errors import RotaError
from rota.events import (
    EventEmitter,
    HandlerLeaked,
    JobDeferred,
    JobFailed,
    JobNotSettled,
    JobSetApart,
    JobSettled,
    JobStalled,
    JobStarted,
    LeaseLost,
)
from rota.jobs import Change, Interrupted, Job, Snoozed, Succeeded, rail_word
from rota.policy.gates import Closed
from rota.worker.context import CancelReason
from rota.worker.running.held import Held

OUTCOME_NAMES: dict[type, str] = {
    Succeeded: "succeeded",
    Snoozed: "snoozed",
    Interrupted: "handed back",
}

_MILLISECOND = timedelta(milliseconds=1)


class Teller:
    """Turns what happened to jobs into events."""

    def __init__(self, journal: EventEmitter) -> None:
        self._journal = journal

    def tell_settled(self, batch: Iterable[Held]) -> None:
        if not self._journal.wants(JobFailed):  # the most noticeable of them
            return
        wants_all = self._journal.wants(JobSettled)
        for held in batch:
            if held.is_stale:
                self._tell_stale(held)
            elif held.change is not None and (wants_all or held.change.attempt is not None):
                self._tell_change(held, held.change)

    def tell_started(self, held: Held) -> None:
        self._journal.emit(JobStarted(wait_ms=wait_ms(held.job), **_named(held.job)))

    def tell_leaked(self, held: Held, leaked_count: int) -> None:
        reason = str(held.cancel_reason)
        self._journal.emit(
            HandlerLeaked(reason=reason, leaked_count=leaked_count, **_named(held.job))
        )

    def tell_set_apart(self, held: Held) -> None:
        self._journal.emit(JobSetApart(loss_count=held.job.loss_count, **_named(held.job)))

    def tell_lost(self, held: Held) -> None:
        """The store said that the lease is another's, or nobody's."""
        reason = "the store says that it is not held any longer"
        self._journal.emit(LeaseLost(token=held.job.last_token, reason=reason, **_named(held.job)))

    def tell_refused(self, held: Held, error: RotaError) -> None:
        self._journal.emit(
            JobNotSettled(error=f"{type(error).__name__}: {error}", **_named(held.job))
        )

    def tell_stalled(self, before: Job, change: Change) -> None:
        if before.lease is None:
            return
        self._journal.emit(
            JobStalled(
                worker=before.lease.worker,
                lease_until=before.lease.until,
                state=rail_word(change.job.status, change.job.ending),
                loss_count=change.job.loss_count,
                **_named(before),
            )
        )

    def _tell_stale(self, held: Held) -> None:
        if held.cancel_reason is CancelReason.LOST:
            return  # it was told when that was noticed
        self._journal.emit(
            LeaseLost(
                token=held.job.last_token,
                reason="stale completion: the lease had passed on before it was written",
                **_named(held.job),
            )
        )

    def _tell_change(self, held: Held, change: Change) -> None:
        job = change.job
        if isinstance(held.outcome, Closed):
            until, reason = job.due_at, held.outcome.reason
            self._journal.emit(JobDeferred(until=until, reason=reason, **_named(held.job)))
        elif change.attempt is None:
            outcome = OUTCOME_NAMES[type(held.outcome)]
            self._journal.emit(JobSettled(outcome=outcome, **_timed(held, job)))
        else:
            self._journal.emit(
                JobFailed(
                    outcome=change.attempt.outcome,
                    err_code=held.error_code,
                    error=job.last_error or "",
                    due_at=job.due_at,
                    **_timed(held, job),
                )
            )


def _timed(held: Held, job: Job) -> dict[str, Any]:
    return {
        "state": rail_word(job.status, job.ending),
        "wait_ms": wait_ms(held.job),
        "duration_ms": max((held.ended_at - held.started_at) / _MILLISECOND, 0.0),
        **_named(held.job),
    }


def wait_ms(job: Job) -> float:
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
