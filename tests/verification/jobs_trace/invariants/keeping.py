"""What is kept: nothing lost, nothing doubled, nothing from nowhere."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import Literal

from tests.verification.jobs_trace.evidence import Account, Evidence
from tests.verification.jobs_trace.facts import place_of
from tests.verification.jobs_trace.report import Breach

from rota.jobs import JobId
from rota.stores.kernel.identity import identity_of


def check_nothing_disappears(evidence: Evidence) -> Iterator[Breach]:
    """I1: what was acknowledged is there, unless somebody removed it."""
    for account in evidence.missing():
        if account.is_acknowledged and not _is_excused(account, evidence):
            yield Breach("I1", account.job_id, "it was acknowledged, and is not there any more")


def check_sums(evidence: Evidence) -> Iterator[Breach]:
    """I8: the states add up, and whatever is kept was handed in."""
    kept = evidence.snapshot.jobs
    counted = sum(evidence.snapshot.counts.values())
    if counted != len(kept):
        yield Breach("I8", None, f"the store counts {counted} jobs and lists {len(kept)}")
    for job_id in kept:
        account = evidence.accounts.get(job_id)
        if account is None or account.facts is None:
            yield Breach("I8", job_id, "it was never submitted")
    yield from _check_pruned(evidence)


def check_keys(evidence: Evidence) -> Iterator[Breach]:
    """I6: the store does not hold two jobs with the same key, nor acknowledge a second one."""
    yield from _find_doubles(
        "I6", ((identity_of(job), job.id) for job in evidence.snapshot.jobs.values())
    )
    acknowledged = (
        (account.facts.identity, account.job_id)
        for account in evidence.accounts.values()
        if account.facts is not None and account.is_acknowledged and not _may_be_gone(account)
    )
    yield from _find_doubles("I6", acknowledged)


def check_occurrences(evidence: Evidence) -> Iterator[Breach]:
    """I7: no two jobs stand for one occurrence, of those that are kept and those that were."""
    yield from _find_doubles(
        "I7", ((place_of(job), job.id) for job in evidence.snapshot.jobs.values())
    )
    brought_about = (
        (account.facts.place, account.job_id)
        for account in evidence.accounts.values()
        if account.facts is not None and account.is_acknowledged
    )
    yield from _find_doubles("I7", brought_about)


def _find_doubles(
    invariant: Literal["I6", "I7"], keyed: Iterable[tuple[Hashable | None, JobId]]
) -> Iterator[Breach]:
    ids: defaultdict[Hashable, set[JobId]] = defaultdict(set)
    for key, job_id in keyed:
        if key is not None:
            ids[key].add(job_id)
    for key, same in ids.items():
        if len(same) > 1:
            yield Breach(invariant, min(same), f"{key} has {len(same)} jobs: {sorted(same)}")


def _may_be_gone(account: Account) -> bool:
    """Whether its key may have been free again for another."""
    return account.is_deleted or account.may_have_ended


def _is_removed(account: Account) -> bool:
    """Deleted by somebody, or by itself when it was done."""
    return account.is_deleted or any(
        one.is_possible and one.move.is_removed for one in account.settlings
    )


def _is_excused(account: Account, evidence: Evidence) -> bool:
    if _is_removed(account):
        return True
    was_pruned = evidence.pruned_count + evidence.possibly_pruned_count > 0
    may_have_ended = account.may_have_ended or evidence.unanswered_apply_count > 0
    return was_pruned and may_have_ended


def _check_pruned(evidence: Evidence) -> Iterator[Breach]:
    missing = [account for account in evidence.missing() if not _is_removed(account)]
    acknowledged_count = sum(account.is_acknowledged for account in missing)
    highest = evidence.pruned_count + evidence.possibly_pruned_count
    if acknowledged_count > highest:
        yield Breach("I8", None, f"{acknowledged_count} jobs are gone, {highest} were pruned")
    if evidence.pruned_count > len(missing):
        lost = f"{evidence.pruned_count} were pruned"
        yield Breach("I8", None, f"{lost}, {len(missing)} of those handed in are gone")
