"""The judge of histories of jobs.

It is given what processes wrote down, and what the store holds in the end, and says which promises
were broken. Calls that were cut off may have been carried out or not: it objects only to what
cannot be explained either way.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from tests.verification.jobs_trace.evidence import Evidence
from tests.verification.jobs_trace.invariants.ending import check_attempts, check_endings
from tests.verification.jobs_trace.invariants.keeping import (
    check_keys,
    check_nothing_disappears,
    check_occurrences,
    check_sums,
)
from tests.verification.jobs_trace.invariants.leasing import check_due, check_overlap, check_tokens
from tests.verification.jobs_trace.invariants.progress import check_starts
from tests.verification.jobs_trace.records import JobEntry
from tests.verification.jobs_trace.report import Breach, JobsVerdict
from tests.verification.jobs_trace.snapshot import Snapshot

_CHECKS: tuple[Callable[[Evidence], Iterator[Breach]], ...] = (
    check_nothing_disappears,
    check_endings,
    check_attempts,
    check_overlap,
    check_tokens,
    check_keys,
    check_occurrences,
    check_sums,
    check_due,
)


def check_jobs(
    history: Iterable[JobEntry], snapshot: Snapshot, *, leases_in_parts: bool = False
) -> JobsVerdict:
    """Judge safety: I1 to I8, and I11. It holds whatever happened to the processes.

    ``history`` is everything that anybody did to the store, in order; see ``merge_histories``.
    With ``leases_in_parts`` an answer to a lease may lack what a shard has leased that then failed.
    """
    evidence = Evidence(history, snapshot)
    evidence.unanswered_lease_count += leases_in_parts
    return _verdict(evidence, (breach for check in _CHECKS for breach in check(evidence)))


def check_liveness(
    history: Iterable[JobEntry], snapshot: Snapshot, *, since: datetime, within: timedelta
) -> JobsVerdict:
    """Judge liveness: I12. Nothing disturbs since ``since``, and workers are not overloaded.

    ``within`` is lease, sweep and poll together: how long a job may wait at most.
    """
    evidence = Evidence(history, snapshot)
    return _verdict(evidence, check_starts(evidence, since, within))


def _verdict(evidence: Evidence, breaches: Iterable[Breach]) -> JobsVerdict:
    return JobsVerdict(tuple(breaches), evidence.entry_count, len(evidence.accounts))
