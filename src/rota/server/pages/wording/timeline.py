"""What has happened to a job, and what will: step by step."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from rota.jobs import PAUSED_UNTIL, Attempt, Job, JobStatus
from rota.server.pages.wording.payloads import Lines, show_text
from rota.server.pages.wording.statuses import sign_of
from rota.server.pages.wording.times import tell_length


class Step(NamedTuple):
    """One happening; ``is_ahead`` for what is yet to come."""

    at: datetime
    headline: str
    shape: str
    tone: str = "plain"
    note: str = ""
    error: Lines | None = None
    is_ahead: bool = False


_OUTCOMES = {
    "failed": ("failed", "cross", "red"),
    "discarded": ("was given up", "cross", "red"),
    "lost": ("was lost with its worker", "alert", "red"),
    "cancelled": ("was cancelled", "slash", "quiet"),
}


def tell_timeline(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[Step]:
    """From its making to its end, or to what comes next."""
    told = [Step(job.created_at, "Created", "plus", "quiet")]
    error_before = None
    for each in attempts:
        told.append(_tell_attempt(each, is_new=each.error != error_before))
        error_before = each.error
    told += _tell_present(job, attempts, now)
    return told


def _tell_attempt(attempt: Attempt, *, is_new: bool) -> Step:
    """An error that is the same as before is not told a second time."""
    words, shape, tone = _OUTCOMES.get(attempt.outcome, (attempt.outcome, "cross", "red"))
    note = f"after {tell_length(attempt.lasted_for)}, on {attempt.worker}"
    headline = f"Attempt {attempt.number} {words}"
    error = show_text(attempt.error) if is_new else None
    if not is_new:
        note += ", with the same error as before"
    return Step(attempt.started_at, headline, shape, tone, note, error)


def _tell_present(job: Job, attempts: Sequence[Attempt], now: datetime) -> Iterator[Step]:
    if job.deferral is not None and not job.status.is_terminal:
        times = "" if job.deferral.count == 1 else f", {job.deferral.count} times so far"
        note = f"{job.deferral.reason}{times}"
        until = job.deferral.until
        yield Step(until, "Held back until", "pause", "amber", note, is_ahead=until > now)
    if job.status is JobStatus.RUNNING and job.lease is not None:
        lease = job.lease
        number = job.attempt_count + 1
        note = f"on {lease.worker}"
        yield Step(lease.taken_at, f"Attempt {number} began", "play", "blue", note)
    elif job.status.is_terminal:
        yield _tell_end(job, attempts, now)
    elif job.due_at < PAUSED_UNTIL and job.status is JobStatus.READY:
        headline = "Due" if job.due_at <= now else "Will be due"
        yield Step(job.due_at, headline, "clock", "blue", is_ahead=job.due_at > now)


def _tell_end(job: Job, attempts: Sequence[Attempt], now: datetime) -> Step:
    sign = sign_of(job, now)
    error = None
    is_told = bool(attempts) and attempts[-1].error == job.last_error
    if job.last_error and not is_told and job.status is not JobStatus.COMPLETED:
        error = show_text(job.last_error)
    return Step(job.updated_at, sign.word.capitalize(), sign.shape, sign.tone, "", error)
