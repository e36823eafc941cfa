"""Liveness: what is due is started, once nothing disturbs any more."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tests.verification.jobs_trace.evidence import Account, Evidence, Granted
from tests.verification.jobs_trace.report import Breach

from rota.jobs import JobStatus


def check_starts(evidence: Evidence, since: datetime, within: timedelta) -> Iterator[Breach]:
    """I12: for each lease given since then, and for what was still waiting in the end."""
    for account in evidence.accounts.values():
        for granted in account.granted:
            ready_at = max(since, _ready_at(account, granted))
            if granted.now - ready_at > within:
                late_for = granted.now - ready_at
                yield Breach("I12", account.job_id, f"it was leased {late_for} late")
    yield from _check_left_over(evidence, since, within)


def _ready_at(account: Account, granted: Granted) -> datetime:
    """When it could first have been leased, as far as is known."""
    times = [granted.grant.due_at]
    if account.released_at is not None:
        times.append(account.released_at)
    times += [one.now for one in account.settlings_of(granted.grant.token - 1)]
    if account.granted and account.released_at is None and account.facts is not None:
        times.append(account.facts.due_at)
    return max(times)


def _check_left_over(evidence: Evidence, since: datetime, within: timedelta) -> Iterator[Breach]:
    ended_at = evidence.snapshot.at
    for job in evidence.snapshot.jobs.values():
        if job.status is JobStatus.READY and ended_at - max(job.due_at, since) > within:
            yield Breach("I12", job.id, f"it is due since {job.due_at}, and no worker took it")
        if job.lease is not None and ended_at - max(job.lease.until, since) > within:
            yield Breach("I12", job.id, f"its lease ran out at {job.lease.until}, unnoticed")
