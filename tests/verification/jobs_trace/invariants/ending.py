"""How jobs end, and how their attempts are counted."""

from collections.abc import Iterator
from itertools import pairwise

from tests.verification.jobs_trace.evidence import Account, Evidence, Settling
from tests.verification.jobs_trace.records import AttemptStarted
from tests.verification.jobs_trace.report import Breach

from rota.jobs import JobStatus


def check_endings(evidence: Evidence) -> Iterator[Breach]:
    """I2: one end, by one settlement, and nothing after it."""
    for account in evidence.accounts.values():
        ends = [one for one in account.settlings if one.is_certain and _ends(one)]
        if len(ends) > 1:
            statuses = ", ".join(one.move.target for one in ends)
            yield Breach("I2", account.job_id, f"it ended {len(ends)} times: {statuses}")
        for end in ends[:1]:
            yield from _check_silence_after(account, end)
        yield from _check_final_status(account, ends, evidence)


def check_attempts(evidence: Evidence) -> Iterator[Breach]:
    """I3: attempts are numbered 1, 2, 3 …, in the store and where they were run."""
    for job_id, attempts in evidence.snapshot.attempts.items():
        if job_id not in evidence.snapshot.jobs:
            continue  # lost altogether, which is a breach of I1
        numbers = [attempt.number for attempt in attempts if attempt.outcome != "cancelled"]
        job = evidence.snapshot.jobs[job_id]
        count = job.attempt_count + (job.completion is not None)  # a success spends none
        if numbers != list(range(1, count + 1)):
            yield Breach("I3", job_id, f"{count} attempts are kept as {numbers}")
    for account in evidence.accounts.values():
        for before, after in pairwise(sorted(account.started, key=lambda one: one.token)):
            yield from _check_step(account, before, after)


def _ends(settling: Settling) -> bool:
    return settling.move.target.is_terminal


def _check_silence_after(account: Account, end: Settling) -> Iterator[Breach]:
    if end.answered_at is None:
        return
    for granted in account.granted:
        if granted.called_at > end.answered_at:
            yield Breach("I2", account.job_id, f"it was leased after it was {end.move.target}")
    for one in account.settlings:
        if one.is_certain and one is not end and one.called_at > end.answered_at:
            yield Breach("I2", account.job_id, f"it was moved after it was {end.move.target}")


def _check_final_status(
    account: Account, ends: list[Settling], evidence: Evidence
) -> Iterator[Breach]:
    kept = evidence.snapshot.jobs.get(account.job_id)
    if kept is None:
        return
    if ends and kept.status is not ends[0].move.target:
        yield Breach(
            "I2", account.job_id, f"{ends[0].move.target} was written, it is {kept.status}"
        )
    if kept.status is JobStatus.BLOCKED:
        is_explained = account.may_have_ended or evidence.unanswered_apply_count > 0
    else:
        possible = {one.move.target for one in account.settlings if one.is_possible}
        is_explained = not kept.status.is_terminal or kept.status in possible
    if not is_explained:
        yield Breach("I2", account.job_id, f"it is {kept.status} but was not settled so")


def _check_step(
    account: Account, before: AttemptStarted, after: AttemptStarted
) -> Iterator[Breach]:
    """From one start to the next the number goes up by one if the lease between was spent."""
    lowest, highest = 0, after.token - before.token
    if highest == 1:
        settled = [one for one in account.settlings_of(before.token) if one.is_certain]
        spent = [one.move.attempt is not None for one in settled]
        lowest, highest = (int(spent[0]), int(spent[0])) if spent else (0, 1)
    if not lowest <= after.number - before.number <= highest:
        message = f"attempt {before.number} was followed by {after.number}"
        yield Breach("I3", account.job_id, message)
