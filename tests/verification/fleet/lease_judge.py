"""I4 in true time: handlers run within their leases, and leases end when they said they would."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from tests.verification.fleet.finding import Finding
from tests.verification.fleet.server import Operation, of_verbs
from tests.verification.fleet.stage import FleetRecord
from tests.verification.jobs_trace.records import (
    AttemptEnded,
    AttemptStarted,
    Crashed,
    ExtendAnswered,
    ExtendCalled,
    LeaseAnswered,
)

from rota.jobs import JobId

_BLINK = timedelta(milliseconds=50)

Held = tuple[str, JobId, int]
"""The instance, the job and the token of a lease."""


@dataclass(frozen=True, slots=True)
class Work:
    """One run of a handler, in true time."""

    job_id: JobId
    instance: str
    token: int
    began_at: datetime
    ended_at: datetime

    @property
    def held(self) -> Held:
        return self.instance, self.job_id, self.token


def tolerance_of(record: FleetRecord) -> timedelta:
    """By how much the clocks of a fleet may differ: half of the longest way there and back."""
    return record.plan.weather.longest_delay + _BLINK if record.plan.drifts else timedelta()


def judge_overlaps(record: FleetRecord) -> Iterator[Finding]:
    """No two handlers of one job run at a time."""
    tolerance = tolerance_of(record)
    by_job: defaultdict[JobId, list[Work]] = defaultdict(list)
    for work in list_work(record):
        by_job[work.job_id].append(work)
    for job_id, runs in by_job.items():
        runs.sort(key=lambda run: (run.began_at, run.token))
        for before, after in pairwise(runs):
            if after.began_at + tolerance < before.ended_at:
                yield Finding("I4", f"job {job_id} ran twice at once: {before}, {after}")


def judge_limits_of_leases(record: FleetRecord) -> Iterator[Finding]:
    """A handler starts and goes on only while its worker knows that its lease lasts."""
    tolerance = tolerance_of(record)
    for entry, until in _known_ends(record):
        if entry.at <= until + tolerance or _is_remote(entry.instance):
            continue
        if isinstance(entry, AttemptStarted):
            yield Finding("I4", f"started after its lease ended at {until}: {entry}")
        elif not _is_thawing(record, entry) and not _releases_effect(record, entry.job_id):
            yield Finding("I4", f"went on after its lease ended at {until}: {entry}")


def _known_ends(
    record: FleetRecord,
) -> Iterator[tuple[AttemptStarted | AttemptEnded, datetime]]:
    """For each start and each end of a handler: how long its worker knew its lease to last."""
    ends: dict[Held, datetime] = {}
    answers = _extensions(record)
    for entry in record.history:
        match entry:
            case LeaseAnswered():
                for grant in entry.grants:
                    ends[entry.instance, grant.job_id, grant.token] = grant.until
            case ExtendAnswered():
                kept = {held: until for held, until in answers[entry] if until is not None}
                ends |= {held: max(ends.get(held, until), until) for held, until in kept.items()}
            case AttemptStarted() | AttemptEnded():
                yield entry, ends.get((entry.instance, entry.job_id, entry.token), entry.at)


def _is_thawing(record: FleetRecord, entry: AttemptEnded) -> bool:
    return any(
        freeze.instance == entry.instance and freeze.since <= entry.at <= freeze.until + _BLINK
        for freeze in record.frozen
    )


def _releases_effect(record: FleetRecord, job_id: JobId) -> bool:
    """Whether its handler may have asked the store to release a claim when it was cancelled."""
    job = None if record.snapshot is None else record.snapshot.jobs.get(job_id)
    return job is not None and "once" in job.payload


def judge_lost(record: FleetRecord) -> Iterator[Finding]:
    """A handler ends when its worker learns that its lease is lost."""
    lost: dict[Held, datetime] = {}
    for entry, answers in _extensions(record).items():
        for held, until in answers:
            if until is None:
                lost.setdefault(held, entry.at)
    for work in list_work(record):
        is_late = work.held in lost and lost[work.held] + _BLINK < work.ended_at
        if is_late and not _releases_effect(record, work.job_id):
            yield Finding("I4", f"it went on after {lost[work.held]}, without a lease: {work}")


def _extensions(record: FleetRecord) -> dict[ExtendAnswered, list[tuple[Held, datetime | None]]]:
    """Until when each answer extends each lease; None for one that is lost."""
    called: dict[tuple[str, int], ExtendCalled] = {}
    found: dict[ExtendAnswered, list[tuple[Held, datetime | None]]] = {}
    for entry in record.history:
        if isinstance(entry, ExtendCalled):
            called[entry.instance, entry.call] = entry
        elif isinstance(entry, ExtendAnswered):
            asked = called[entry.instance, entry.call]
            found[entry] = [
                ((entry.instance, *lease), asked.until if is_kept else None)
                for lease, is_kept in zip(asked.held, entry.kept, strict=True)
            ]
    return found


def _is_remote(instance: str) -> bool:
    """Whether it is a worker outside, which does what it likes between its calls."""
    return instance.startswith("http")


def judge_losses(record: FleetRecord) -> Iterator[Finding]:
    """The store takes no lease away that lasts, in the order of its own log."""
    ends: dict[tuple[JobId, int], datetime] = {}
    for one in of_verbs(record.log, "lease", "extend", "apply"):
        if one.refusal is not None:
            continue
        if one.verb == "lease":
            ends |= {(job.id, job.lease.token): job.lease.until for job in one.answer}
        elif one.verb == "extend":
            _prolong(ends, one)
        else:
            yield from _find_hasty(ends, one)


def _prolong(ends: dict[tuple[JobId, int], datetime], extend: Operation) -> None:
    held, until, _ = extend.arguments
    for lease, is_kept in zip(held, extend.answer, strict=True):
        key = (lease.job_id, lease.token)
        if is_kept:
            ends[key] = max(ends.get(key, until), until)


def _find_hasty(ends: dict[tuple[JobId, int], datetime], apply: Operation) -> Iterator[Finding]:
    changes, now = apply.arguments
    for change, applied in zip(changes, apply.answer, strict=True):
        is_loss = change.attempt is not None and change.attempt.outcome == "lost"
        until = ends.get((change.job_id, change.expected_token))
        if is_loss and not applied.is_stale and until is not None and now <= until:
            yield Finding("I4", f"job {change.job_id} was lost at {now}, leased until {until}")


def list_work(record: FleetRecord) -> Iterator[Work]:
    """Every run that ended. A run that ends as its process thaws did nothing since it froze."""
    open_runs: dict[Held, AttemptStarted] = {}
    for entry in record.history:
        match entry:
            case AttemptStarted() if not _is_remote(entry.instance):
                open_runs[entry.instance, entry.job_id, entry.token] = entry
            case AttemptEnded():
                begun = open_runs.pop((entry.instance, entry.job_id, entry.token), None)
                if begun is not None:
                    yield _work(record, begun, entry.at)
            case Crashed():
                for held in [held for held in open_runs if held[0] == entry.instance]:
                    yield _work(record, open_runs.pop(held), entry.at)


def _work(record: FleetRecord, begun: AttemptStarted, ended_at: datetime) -> Work:
    for freeze in record.frozen:
        is_meant = freeze.instance == begun.instance and freeze.since >= begun.at
        if is_meant and freeze.since <= ended_at <= freeze.until + _BLINK:
            ended_at = freeze.since
    return Work(begun.job_id, begun.instance, begun.token, begun.at, ended_at)


LEASE_CHECKS: tuple[Callable[[FleetRecord], Iterator[Finding]], ...] = (
    judge_overlaps,
    judge_limits_of_leases,
    judge_lost,
    judge_losses,
)
