"""Leases: one at a time, not before their time, and nothing done without."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from tests.verification.jobs_trace.evidence import Account, Evidence, Granted, Settling
from tests.verification.jobs_trace.report import Breach

from rota.jobs import JobStatus


def check_overlap(evidence: Evidence) -> Iterator[Breach]:
    """I4: a lease is given when the one before it was settled, and taken away when it ran out."""
    for account in evidence.accounts.values():
        for before, after in pairwise(account.leases_by_token):
            yield from _check_succession(account, before, after)
        for settling in account.settlings:
            if settling.is_certain and settling.move.outcome == "lost":
                yield from _check_loss(account, settling)


def check_tokens(evidence: Evidence) -> Iterator[Breach]:
    """I5: what is written, and what is run, belongs to the lease that was given last."""
    for account in evidence.accounts.values():
        settled = [one for one in account.settlings if one.is_certain and one.is_settled_lease]
        for token, count in Counter(one.move.token for one in settled).items():
            if count > 1:
                yield Breach("I5", account.job_id, f"token {token} was settled {count} times")
        for one in settled:
            yield from _check_present(account, one, evidence)
        yield from _check_work(account, evidence)


def check_due(evidence: Evidence) -> Iterator[Breach]:
    """I11: by the store's own word, and by what it was told before."""
    for account in evidence.accounts.values():
        for granted in account.granted:
            due_at = max([granted.grant.due_at, *_told_due(account, granted)])
            if granted.now < due_at:
                message = f"it was leased at {granted.now}, and is due at {due_at}"
                yield Breach("I11", account.job_id, message)


def _check_succession(account: Account, before: Granted, after: Granted) -> Iterator[Breach]:
    token = before.grant.token
    if after.grant.token == token:
        workers = f"{before.worker} and {after.worker}"
        yield Breach("I4", account.job_id, f"token {token} was given to both {workers}")
        return
    ends = account.settlings_of(token)
    if not any(end.called_at <= after.answered_at for end in ends):
        message = f"token {after.grant.token} was given before token {token} was settled"
        yield Breach("I4", account.job_id, message)


def _check_loss(account: Account, loss: Settling) -> Iterator[Breach]:
    """A lease must last until the time that its holder was given."""
    token = loss.move.token
    given = [one.grant.until for one in account.granted if one.grant.token == token]
    extended = [
        one.until
        for one in account.extensions
        if one.token == token and one.answered_at < loss.called_at
    ]
    until = max([*given, *extended], default=None)
    if until is not None and loss.now <= until:
        message = f"token {token} was taken away at {loss.now}, and lasts until {until}"
        yield Breach("I4", account.job_id, message)


def _check_present(account: Account, settling: Settling, evidence: Evidence) -> Iterator[Breach]:
    token = settling.move.token
    newer = [
        one
        for one in account.granted
        if one.grant.token > token and one.answered_at < settling.called_at
    ]
    if newer:
        message = f"token {token} settled it after token {newer[0].grant.token} was given"
        yield Breach("I5", account.job_id, message)
    is_given = any(one.grant.token == token for one in account.granted)
    if not is_given and not evidence.unanswered_lease_count:
        yield Breach("I5", account.job_id, f"token {token} settled it and was never given")


def _check_work(account: Account, evidence: Evidence) -> Iterator[Breach]:
    leases = {(one.grant.token, one.worker): one.answered_at for one in account.granted}
    for started in account.started:
        given_at = leases.get((started.token, started.worker))
        if given_at is None or started.at < given_at:
            message = f"{started.worker} began with token {started.token} and did not have it"
            yield Breach("I5", account.job_id, message)
    begun = {started.token for started in account.started}
    for one in account.settlings:
        is_done = one.is_certain and one.move.target is JobStatus.COMPLETED
        if evidence.has_attempts and is_done and one.move.token not in begun:
            message = f"it was completed under token {one.move.token}, and no worker ran it"
            yield Breach("I5", account.job_id, message)


def _told_due(account: Account, granted: Granted) -> Iterator[datetime]:
    if account.is_amended:
        return
    if granted.grant.token == 1:
        if account.facts is not None:
            yield account.facts.due_at
        return
    for one in account.settlings_of(granted.grant.token - 1):
        if one.is_certain and one.move.target is JobStatus.READY:
            yield one.move.due_at
