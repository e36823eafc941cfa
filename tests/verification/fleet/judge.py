"""Judges what was seen of a fleet: the axioms of schedulers and the invariants of jobs.

``S1`` to ``L3`` and ``I1`` to ``I12`` have the names of the theory. ``LIN`` is linearizability,
``REL`` dependencies, ``ONCE`` the once-ledger, ``POLL`` the documents of pollers, and ``END`` a
process that ended by itself or a request that was refused for no reason.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.verification.fleet.finding import Finding
from tests.verification.fleet.lease_judge import LEASE_CHECKS, tolerance_of
from tests.verification.fleet.processes import (
    LEDGER_KEYS,
    SERIES_INTERVAL,
    SHUT,
    Closing,
    EffectRun,
)
from tests.verification.fleet.server import find_disagreements
from tests.verification.fleet.stage import FleetRecord
from tests.verification.jobs_trace import check_jobs, check_liveness
from tests.verification.jobs_trace.records import (
    AttemptStarted,
    LeaseAnswered,
    LeaseCalled,
)
from tests.verification.trace import check_replicas
from tests.verification.trace.editions import Tolerance

from rota.jobs import JobId, JobStatus
from rota.policy.watch import REFRESH_FOR

_SECOND = timedelta(seconds=1)
_BLINK = timedelta(milliseconds=50)

REPLAYED = 10
"""One in this many fleets in memory is replayed; a replay takes as long as the fleet itself."""


async def judge_fleet(record: FleetRecord) -> tuple[Finding, ...]:
    """Every rule that was broken."""
    found = [finding for check in _CHECKS for finding in check(record)]
    if record.plan.mode == "sqlite" or record.plan.seed % REPLAYED == 0:
        found += [Finding("LIN", text) for text in await find_disagreements(record.log)]
    return tuple(found)


def judge_jobs(record: FleetRecord) -> Iterator[Finding]:
    """I1 to I8, I11 and I12, by the judge of histories."""
    if record.snapshot is None:
        return
    verdict = check_jobs(record.history, record.snapshot)
    late = check_liveness(
        record.history, record.snapshot, since=record.quiet_since, within=record.patience
    )
    for breach in (*verdict.breaches, *late.breaches):
        yield Finding(breach.invariant, str(breach))
    for job in record.snapshot.jobs.values():
        if job.status is JobStatus.PENDING:
            parents = [record.snapshot.jobs.get(each) for each in job.dependencies]
            if all(parent is None or parent.status.is_terminal for parent in parents):
                yield Finding("I12", f"job {job.id} waits for nothing")


def judge_releases(record: FleetRecord) -> Iterator[Finding]:
    """REL: a job starts when those it waits for have ended, and is blocked only by a failure."""
    jobs = {} if record.snapshot is None else record.snapshot.jobs
    started: dict[JobId, datetime] = {}
    for entry in record.history:
        if isinstance(entry, AttemptStarted):
            started.setdefault(entry.job_id, entry.at)
    tolerance = tolerance_of(record)
    for job in jobs.values():
        parents = [jobs[each] for each in job.dependencies if each in jobs]
        if not parents:
            continue
        has_failed = any(parent.status is not JobStatus.COMPLETED for parent in parents)
        if job.status is JobStatus.BLOCKED and job.on_parent_failure == "run":
            yield Finding("REL", f"job {job.id} is blocked, and was to run in any case")
        elif job.status is JobStatus.BLOCKED and not has_failed:
            yield Finding("REL", f"job {job.id} is blocked, and nothing failed before it")
        ended_at = max(parent.updated_at for parent in parents)
        if job.id in started and started[job.id] + tolerance < ended_at:
            yield Finding("REL", f"job {job.id} started at {started[job.id]}, before {ended_at}")


def judge_series(record: FleetRecord) -> Iterator[Finding]:
    """A series that was not cancelled continues if its first occurrence ends before the second."""
    jobs = {} if record.snapshot is None else record.snapshot.jobs
    for first in record.seen.series:
        job = jobs.get(first)
        if job is None or job.occurrence_at is None or first in record.seen.cancelled:
            continue
        is_alone = not any(each.origin == first and each.id != first for each in jobs.values())
        if is_alone and job.updated_at < job.occurrence_at + SERIES_INTERVAL:
            yield Finding("I7", f"series {first} ended after its first occurrence")


def judge_closings(record: FleetRecord) -> Iterator[Finding]:
    """I9: while a queue is closed nothing of it starts. In the end the harness opens it."""
    if record.snapshot is None or not record.seen.closings:
        return
    closings = [
        replace(each, until=min(each.until - tolerance_of(record), record.quiet_since))
        for each in record.seen.closings
    ]
    shut = {job.id for job in record.snapshot.jobs.values() if job.queue == SHUT}
    asked = _lease_times(record)
    for entry in record.history:
        if not isinstance(entry, AttemptStarted) or entry.job_id not in shut:
            continue
        for closing in closings:
            asked_at = asked.get((entry.job_id, entry.token), entry.at)
            if _is_inside(closing, asked_at, entry.at, 2 * record.plan.weather.longest_delay):
                yield Finding("I9", f"job {entry.job_id} started at {entry.at} during {closing}")


def _is_inside(
    closing: Closing, asked_at: datetime, started_at: datetime, delay: timedelta
) -> bool:
    """A gate is judged right before the start; a pause when the job is leased, and seconds late."""
    if closing.is_gate:
        return closing.since < started_at < closing.until - _BLINK
    return closing.since + REFRESH_FOR + delay + _BLINK < asked_at < closing.until


def _lease_times(record: FleetRecord) -> dict[tuple[JobId, int], datetime]:
    """When each lease was asked for."""
    called = {
        (entry.instance, entry.call): entry.at
        for entry in record.history
        if isinstance(entry, LeaseCalled)
    }
    return {
        (grant.job_id, grant.token): called[entry.instance, entry.call]
        for entry in record.history
        if isinstance(entry, LeaseAnswered)
        for grant in entry.grants
    }


def judge_limits(record: FleetRecord) -> Iterator[Finding]:
    """I10, seen by the store itself after each lease."""
    for excess in record.excesses:
        yield Finding("I10", excess)


def judge_effects(record: FleetRecord) -> Iterator[Finding]:
    """ONCE: at most once where that is asked for, never two at a time, one result for all."""
    most_once, _ = LEDGER_KEYS
    for key in LEDGER_KEYS:
        runs = [run for run in record.seen.effects if run.key == key]
        yield from _judge_runs(runs)
        if key == most_once and len(runs) > 1:
            yield Finding("ONCE", f"an effect at most once happened {len(runs)} times: {runs}")
    for key, results in record.seen.results.items():
        if len(results) > 1:
            yield Finding("ONCE", f"{key!r} has several results: {sorted(results)}")


def _judge_runs(runs: list[EffectRun]) -> Iterator[Finding]:
    for run in runs:
        if run.is_repeated:
            yield Finding("ONCE", f"an effect happened after it had a result: {run}")
    for before, after in pairwise(runs):
        if before.ended_at is None or after.began_at < before.ended_at:
            yield Finding("ONCE", f"an effect happened twice at once: {before}, {after}")


def judge_polled(record: FleetRecord) -> Iterator[Finding]:
    """Documents: each processed in the end, not early, and by one poller at a time."""
    tolerance = tolerance_of(record)
    done = {turn.job_id for turn in record.seen.polled if turn.is_done}
    for job_id in record.seen.polled_ids - done:
        yield Finding("POLL", f"document {job_id} was never processed")
    by_job = defaultdict(list)
    for turn in record.seen.polled:
        if turn.began_at + tolerance < turn.due_at:
            yield Finding("POLL", f"document {turn.job_id} was processed early: {turn}")
        if not any(each.instance == turn.host for each in record.frozen):
            by_job[turn.job_id].append(turn)
    for turns in by_job.values():
        turns.sort(key=lambda turn: turn.began_at)
        for before, after in pairwise(turns):
            if after.began_at < before.ended_at:
                yield Finding("POLL", f"processed twice at once: {before}, {after}")


def judge_schedules(record: FleetRecord) -> Iterator[Finding]:
    """S1 to S6 and L1 to L3, over all instances."""
    traces = [recorder.trace for recorder in record.seen.schedules.values()]
    if not traces:
        return
    way = 4 * record.plan.weather.longest_delay
    pause = 31 * _SECOND + way
    lag = pause if record.plan.fails_calls else way
    tolerance = Tolerance(
        after_jump=timedelta(),
        after_fault=pause,
        after_crash=6 * _SECOND + way,
        settle_lag=lag,
        claim_lag=lag,
    )
    verdict = check_replicas(traces, zone=UTC, allowance=5 * _SECOND, tolerance=tolerance)
    for violation in verdict.violations:
        yield Finding(violation.axiom, str(violation))


def judge_ends(record: FleetRecord) -> Iterator[Finding]:
    for error in record.seen.errors:
        yield Finding("END", error)
    for finding in record.server_findings:
        yield Finding("LIN", finding)


_CHECKS: tuple[Callable[[FleetRecord], Iterator[Finding]], ...] = (
    judge_jobs,
    judge_releases,
    judge_series,
    judge_closings,
    judge_limits,
    *LEASE_CHECKS,
    judge_effects,
    judge_polled,
    judge_schedules,
    judge_ends,
)
