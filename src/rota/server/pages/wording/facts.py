"""Everything else that is known of a job, fact by fact."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from rota.jobs import BackoffStrategy, Job, RetryPolicy
from rota.server.pages.wording.times import tell_length, tell_local
from rota.triggers.zone import load_zone

Link = Callable[..., str]

_BACKOFFS = {
    BackoffStrategy.FIXED: "always {base} apart",
    BackoffStrategy.LINEAR: "{base} apart, growing evenly up to {longest}",
    BackoffStrategy.EXPONENTIAL: "{base} apart, doubling up to {longest}",
    BackoffStrategy.LADDER: "after {rungs}",
}


class Fact(NamedTuple):
    """A name and what it is: a text, perhaps with a link, or an instant."""

    name: str
    value: str = ""
    link: str = ""
    at: datetime | None = None
    note: str = ""


def list_facts(job: Job, link: Link) -> list[Fact]:
    return [
        Fact("Queue", job.queue, link("jobs", queue=job.queue)),
        Fact("Kind", job.kind, link("jobs", q=job.kind)),
        Fact("Tenant", job.tenant),
        Fact("Priority", f"{job.priority} of 10"),
        Fact("Due", at=job.due_at),
        Fact("Created", at=job.created_at),
        Fact("Changed", at=job.updated_at),
        Fact("Attempts", _tell_attempts(job), note=tell_policy(job.retry_policy)),
        *_tell_lease(job),
        *_tell_series(job, link),
        *_tell_names(job, link),
    ]


def tell_policy(policy: RetryPolicy) -> str:
    """When it is tried again, in words."""
    if policy.max_attempts == 1:
        return "tried once, never again"
    form = _BACKOFFS[policy.backoff_strategy]
    return form.format(
        base=_seconds(policy.base_delay_seconds),
        longest=_seconds(policy.max_delay_seconds),
        rungs=", ".join(_seconds(each) for each in policy.ladder_seconds),
    )


def _tell_attempts(job: Job) -> str:
    return f"{job.attempt_count} of {job.retry_policy.max_attempts} spent"


def _tell_lease(job: Job) -> Iterator[Fact]:
    if job.lease is not None:
        yield Fact("Worker", job.lease.worker)
        yield Fact("Lease until", at=job.lease.until, note=f"token {job.lease.token}")


def _tell_series(job: Job, link: Link) -> Iterator[Fact]:
    recurrence = job.recurrence
    if recurrence is None:
        return
    yield Fact("Recurs", recurrence.text, note=recurrence.zone)
    if job.occurrence_at is not None:
        local = tell_local(job.occurrence_at, load_zone(recurrence.zone))
        yield Fact("Occurrence", local)
    if job.origin not in {None, job.id}:
        yield Fact("Series began with", "first job", link("jobs", str(job.origin)))
    if job.missed_count:
        yield Fact("Missed", f"{job.missed_count} occurrences before it")
    yield Fact("Overlap", recurrence.overlap)


def _tell_names(job: Job, link: Link) -> Iterator[Fact]:
    if job.idempotency_key is not None:
        yield Fact("Idempotency key", job.idempotency_key)
    if job.replaces is not None:
        yield Fact("Stands in for", "the job that died", link("jobs", job.replaces))
    if job.auto_remove:
        yield Fact("When it ends", "it is removed")
    if job.trace is not None:
        yield Fact("Trace", job.trace)


def _seconds(count: int) -> str:
    return tell_length(timedelta(seconds=count))
