"""Decides the next state of a job: (job, outcome, now) -> Change. Writes nothing."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from msgspec.structs import replace

from rota.clock.protocol import later
from rota.errors import IllegalMoveError, InvalidInputError
from rota.jobs.codec import format_instant
from rota.jobs.ordering import is_due
from rota.jobs.record import (
    Attempt,
    Cancelled,
    Change,
    Completion,
    Deferral,
    Discarded,
    Failed,
    Job,
    Lease,
    Lost,
    Outcome,
    Skipped,
    Snoozed,
    Succeeded,
)
from rota.jobs.recurrence import continue_series, skip_occurrence
from rota.jobs.retry import retry_after, should_retry
from rota.jobs.states import Ending, JobStatus

LOSS_LIMIT = 3
"""After this many losses in a row the job counts as the cause, and fails."""

LONGEST_ERROR = 10_000
"""The number of characters of an error that are kept."""

LONGEST_REPORT = 16 * 1024
"""The number of bytes of a traceback, or of a log, that are kept."""

_CUT = "\n... cut ...\n"
SUCCEEDED = "succeeded"
"""The outcome of an attempt that completed its job."""

_COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)


def decide_lease(job: Job, worker: str, lease_for: timedelta, now: datetime) -> Change:
    """A worker takes a due job, under a token greater than any the job had before."""
    if job.status is JobStatus.READY and not is_due(job, now):
        reason = f"it is due at {format_instant(job.due_at)}"
        raise IllegalMoveError(job.status, JobStatus.RUNNING, reason)
    _check_status(job, JobStatus.READY, JobStatus.RUNNING)
    token = job.last_token + 1
    lease = Lease(token=token, worker=worker, taken_at=now, until=now + lease_for)
    leased = replace(job, status=JobStatus.RUNNING, lease=lease, last_token=token, updated_at=now)
    return _change(job, leased)


def decide_outcome(
    job: Job,
    outcome: Outcome,
    now: datetime,
    chance: float = 0.0,
    started_at: datetime | None = None,
) -> Change:
    """The change that an attempt's outcome means. ``chance`` is for the jitter of a retry.

    ``started_at`` is when the handler was called; without it the attempt began with the lease.
    """
    if isinstance(outcome, Succeeded):
        change = decide_complete(job, now, started_at, outcome.result)
        if outcome.log:
            change = replace(change, attempt=_success(change.job, outcome.log))
        return change
    match outcome:
        case Failed(error):
            change = decide_fail(job, error, now, chance)
        case Snoozed(for_):
            change = decide_snooze(job, for_, now)
        case Discarded(reason):
            change = decide_discard(job, reason, now)
        case Cancelled() | Skipped():
            decide = decide_cancel if isinstance(outcome, Cancelled) else decide_skip
            change = decide(job, outcome.reason, now)
        case Lost():
            change = decide_lost(job, now, chance)
        case _:  # Interrupted, the only outcome left
            change = decide_hand_back(job, now)
    return _with_report(change, outcome, started_at)


def _with_report(change: Change, outcome: Outcome, started_at: datetime | None) -> Change:
    """The change, whose attempt also has what the worker reported about it."""
    attempt = change.attempt
    if attempt is None:
        return change
    if started_at is not None:
        attempt = replace(attempt, started_at=started_at)
    if isinstance(outcome, Failed | Discarded):
        traceback, log = shorten_report(outcome.traceback), shorten_report(outcome.log)
        attempt = replace(attempt, traceback=traceback, log=log)
    return replace(change, attempt=attempt)


def decide_complete(
    job: Job, now: datetime, started_at: datetime | None = None, result: bytes | None = None
) -> Change:
    """The handler returned: COMPLETED, and the next occurrence if the job recurs."""
    lease = _held(job, JobStatus.COMPLETED)
    # Most jobs end here without a series; every avoided call counts.
    completion = Completion(
        worker=lease.worker, started_at=started_at or lease.taken_at, ended_at=now
    )
    change = Change(
        job=replace(
            job,
            status=JobStatus.COMPLETED,
            lease=None,
            updated_at=now,
            loss_count=0,
            completion=completion,
        ),
        path=_COMPLETION,
        expected_token=job.last_token,
        result=result,
        is_removed=job.auto_remove,
    )
    if job.recurrence is None:
        return change
    return replace(change, **continue_series(job, now, has_succeeded=True))


def complete_history(job: Job, attempts: Iterable[Attempt]) -> list[Attempt]:
    """All attempts of a job, the first one first.

    A success is stored as an attempt only if it has a log; otherwise it is that of
    ``Job.completion``.
    """
    history = list(attempts)
    if job.completion is None or any(each.outcome == SUCCEEDED for each in history):
        return history
    return [*history, _success(job, None)]


def _success(job: Job, log: str | None) -> Attempt:
    completion = job.completion
    if completion is None:
        raise IllegalMoveError(job.status, JobStatus.COMPLETED, "it has no completion")
    return Attempt(
        job_id=job.id,
        number=job.attempt_count + 1,
        token=job.last_token,
        worker=completion.worker,
        started_at=completion.started_at,
        ended_at=completion.ended_at,
        outcome=SUCCEEDED,
        log=shorten_report(log),
    )


def decide_fail(job: Job, error: str, now: datetime, chance: float = 0.0) -> Change:
    """The attempt failed: READY for a retry, or FAILED when it was the last."""
    return _decide_spent(job, _spend(job, error, loss_count=0), "failed", now, chance)


def decide_lost(job: Job, now: datetime, chance: float = 0.0) -> Change:
    """The worker is gone: the attempt is spent, and the third loss in a row is the last."""
    lease = _held(job, JobStatus.READY)
    error = f"Lost: worker {lease.worker} let its lease run out at {format_instant(lease.until)}"
    loss_count = job.loss_count + 1
    if loss_count < LOSS_LIMIT:
        return _decide_spent(job, _spend(job, error, loss_count), "lost", now, chance)
    error += f"; set aside after {loss_count} losses in a row"
    return _decide_dead(job, _spend(job, error, loss_count), Ending.LOST, "lost", now)


def follow_policy(change: Change, stored: Job) -> Change:
    """The change as the stored retry policy decides it: it may be another one since the lease."""
    attempt = change.attempt
    if attempt is None or stored.retry_policy == change.job.retry_policy:
        return change
    if attempt.outcome == "failed":
        again = decide_fail(stored, change.job.last_error or "", change.job.updated_at)
    elif attempt.outcome == "lost":
        again = decide_lost(stored, change.job.updated_at)
    else:
        return change
    return replace(again, attempt=attempt)


def decide_discard(job: Job, reason: str, now: datetime) -> Change:
    """The handler discarded the job: FAILED, even with attempts left."""
    spent = _spend(job, reason, loss_count=0)
    return _decide_dead(job, spent, Ending.DISCARDED, "discarded", now)


def decide_snooze(job: Job, snoozed_for: timedelta, now: datetime) -> Change:
    """The handler asked to run again later: READY then, no attempt spent."""
    _held(job, JobStatus.READY)
    if snoozed_for < timedelta(0):
        raise InvalidInputError(
            f"a job cannot be snoozed for {snoozed_for}: that is less than no time",
            {"field": "snoozed_for"},
        )
    ready = _let_go(job, JobStatus.READY, now, due_at=later(now, snoozed_for), loss_count=0)
    return _change(job, ready)


def decide_defer(job: Job, until: datetime, reason: str, now: datetime) -> Change:
    """A gate was closed before the handler started: READY when it opens, no attempt spent."""
    _held(job, JobStatus.READY)
    count = 1 if job.deferral is None else job.deferral.count + 1
    deferral = Deferral(until=until, reason=reason, count=count)
    return _change(job, _let_go(job, JobStatus.READY, now, due_at=until, deferral=deferral))


def decide_skip(job: Job, reason: str, now: datetime) -> Change:
    """The occurrence was missed and does not run: it ends, no attempt spent; its series goes on."""
    _held(job, JobStatus.FAILED)
    skipped = replace(job, last_error=_storable(reason), ending=Ending.CANCELLED)
    ended = _let_go(skipped, JobStatus.FAILED, now)
    return _change(job, ended, **skip_occurrence(job, now))


def decide_hand_back(job: Job, now: datetime) -> Change:
    """The worker shuts down: READY at once for another worker, no attempt spent."""
    _held(job, JobStatus.READY)
    return _change(job, _let_go(job, JobStatus.READY, now))


def decide_cancel(job: Job, reason: str, now: datetime, *, ends_series: bool = True) -> Change:
    """An operator cancels a job that has not ended: the job and its series end.

    A READY job is leased and ended in the same change. A PENDING one becomes BLOCKED. An ended one
    raises IllegalMoveError.
    """
    cancelled = replace(job, last_error=_storable(reason), ending=Ending.CANCELLED)
    follow_up = _follow_up(job, now, ends_series=ends_series)
    if job.status is JobStatus.RUNNING:
        lease = _held(job, JobStatus.FAILED)
        attempt = _attempt(cancelled, lease, "cancelled", now)
        ended = _let_go(cancelled, JobStatus.FAILED, now)
        return _change(job, ended, attempt=attempt, **follow_up)
    if job.status is JobStatus.PENDING:
        return _change(job, _let_go(cancelled, JobStatus.BLOCKED, now), **follow_up)
    _check_status(job, JobStatus.READY, JobStatus.FAILED)
    ended = _let_go(cancelled, JobStatus.FAILED, now, last_token=job.last_token + 1)
    path = (JobStatus.READY, JobStatus.RUNNING, JobStatus.FAILED)
    return Change(job=ended, path=path, expected_token=job.last_token, **follow_up)


def _decide_spent(job: Job, spent: Job, outcome: str, now: datetime, chance: float) -> Change:
    if not should_retry(spent):
        return _decide_dead(job, spent, Ending.EXHAUSTED, outcome, now)
    lease = _held(job, JobStatus.READY)
    due_at = now + retry_after(job.retry_policy, spent.attempt_count, chance)
    ready = _let_go(spent, JobStatus.READY, now, due_at=due_at)
    return _change(job, ready, attempt=_attempt(ready, lease, outcome, now))


def _decide_dead(job: Job, spent: Job, ending: Ending, outcome: str, now: datetime) -> Change:
    lease = _held(job, JobStatus.FAILED)
    dead = _let_go(spent, JobStatus.FAILED, now, ending=ending)
    attempt = _attempt(dead, lease, outcome, now)
    return _change(job, dead, attempt=attempt, **continue_series(job, now))


def _spend(job: Job, error: str, loss_count: int) -> Job:
    return replace(
        job,
        attempt_count=job.attempt_count + 1,
        loss_count=loss_count,
        last_error=_storable(error),
    )


def _follow_up(job: Job, now: datetime, *, ends_series: bool) -> dict[str, Any]:
    if not ends_series:
        return continue_series(job, now)
    return {} if job.recurrence is None else {"series_end": "it was cancelled"}


def _held(job: Job, target: JobStatus) -> Lease:
    """The lease of the running job. Without it, no outcome may be written."""
    if job.status is not JobStatus.RUNNING:
        raise IllegalMoveError(job.status, target)
    if job.lease is None:
        raise IllegalMoveError(job.status, target, "it has no lease")
    return job.lease


def _check_status(job: Job, needed: JobStatus, target: JobStatus) -> None:
    if job.status is not needed:
        raise IllegalMoveError(job.status, target)


def _let_go(job: Job, status: JobStatus, now: datetime, **fields: Any) -> Job:
    return replace(job, status=status, lease=None, updated_at=now, **fields)


def _change(job: Job, after: Job, **fields: Any) -> Change:
    path = (job.status, after.status)
    return Change(job=after, path=path, expected_token=job.last_token, **fields)


def _attempt(job: Job, lease: Lease, outcome: str, now: datetime) -> Attempt:
    return Attempt(
        job_id=job.id,
        number=job.attempt_count,
        token=lease.token,
        worker=lease.worker,
        started_at=lease.taken_at,
        ended_at=now,
        outcome=outcome,
        error=job.last_error or "",
    )


def shorten_report(text: str | None) -> str | None:
    """A traceback or log as it is kept: if it is too long, its middle is cut out."""
    if not text:
        return None
    kept = _clean(text).encode()
    if len(kept) <= LONGEST_REPORT:
        return kept.decode()
    half = (LONGEST_REPORT - len(_CUT)) // 2
    return kept[:half].decode(errors="ignore") + _CUT + kept[-half:].decode(errors="ignore")


def _clean(text: str) -> str:
    """The text in characters that every store can keep."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def _storable(error: str) -> str:
    """The handler's error, shortened."""
    text = _clean(error)
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"


class Quarantine(IntEnum):
    """How strictly a job that lost its worker is isolated."""

    NONE = 0
    SLIGHT = 1
    """The last attempt lost its worker; the cause is unknown."""
    SEVERE = 2
    """One more loss would fail the job, so the cause must be certain."""


def assess_quarantine(job: Job) -> Quarantine:
    """The isolation that the job's losses require. A normal end of an attempt lifts it."""
    if not job.loss_count:
        return Quarantine.NONE
    is_last_loss = job.loss_count + 1 >= LOSS_LIMIT
    is_last_attempt = job.attempt_count + 1 >= job.retry_policy.max_attempts
    return Quarantine.SEVERE if is_last_loss or is_last_attempt else Quarantine.SLIGHT
