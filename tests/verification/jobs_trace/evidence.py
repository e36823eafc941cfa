"""A history, sorted by job: what is certain, and what may have been."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.verification.jobs_trace.records import (
    AmendCalled,
    ApplyAnswered,
    ApplyCalled,
    AttemptEnded,
    AttemptStarted,
    DeleteCalled,
    ExtendAnswered,
    ExtendCalled,
    Grant,
    InsertAnswered,
    InsertCalled,
    JobEntry,
    JobFacts,
    KeptFacts,
    LeaseAnswered,
    LeaseCalled,
    Move,
    MoveAnswer,
    PruneAnswered,
    PruneCalled,
    Refused,
)
from tests.verification.jobs_trace.snapshot import Snapshot

from rota.jobs import JobId, JobStatus


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease, from the call that asked for it to the answer that gave it."""

    grant: Grant
    worker: str
    called_at: datetime
    answered_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class Settling:
    """A change that was handed in; without an answer it may have been applied."""

    move: Move
    answer: MoveAnswer | None
    called_at: datetime
    answered_at: datetime | None
    now: datetime

    @property
    def is_certain(self) -> bool:
        return self.answer is not None and self.answer.is_applied

    @property
    def is_possible(self) -> bool:
        return self.answer is None or self.answer.is_applied

    @property
    def is_settled_lease(self) -> bool:
        """Whether it ended a lease; a job that only begins the next of its series runs on."""
        return self.move.source is JobStatus.RUNNING and self.move.target is not JobStatus.RUNNING


@dataclass(frozen=True, slots=True)
class Extension:
    """A lease that was let last until then."""

    token: int
    until: datetime
    answered_at: datetime


@dataclass(slots=True)
class Account:
    """All that is known of one job."""

    job_id: JobId
    facts: JobFacts | None = None
    acknowledged: KeptFacts | None = None
    """What the store first said of it, if it ever did."""
    is_successor: bool = False
    granted: list[Granted] = field(default_factory=list)
    settlings: list[Settling] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    started: list[AttemptStarted] = field(default_factory=list)
    ended: list[AttemptEnded] = field(default_factory=list)
    released_at: datetime | None = None
    is_blocked: bool = False
    is_amended: bool = False
    is_deleted: bool = False

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged is not None or self.is_successor

    @property
    def leases_by_token(self) -> list[Granted]:
        return sorted(self.granted, key=lambda granted: granted.grant.token)

    def settlings_of(self, token: int) -> list[Settling]:
        """Those of that lease that were applied, or may have been."""
        return [
            one
            for one in self.settlings
            if one.is_possible and one.is_settled_lease and one.move.token == token
        ]

    @property
    def may_have_ended(self) -> bool:
        return self.is_blocked or any(
            one.is_possible and one.move.target.is_terminal for one in self.settlings
        )


class Evidence:
    """A history and what the store holds in the end."""

    def __init__(self, history: Iterable[JobEntry], snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.accounts: dict[JobId, Account] = {}
        self.entry_count = 0
        self.has_attempts = False
        self.unanswered_lease_count = 0
        self.unanswered_apply_count = 0
        self.pruned_count = 0
        self.possibly_pruned_count = 0
        self._collect(list(history))

    def account(self, job_id: JobId) -> Account:
        if job_id not in self.accounts:
            self.accounts[job_id] = Account(job_id)
        return self.accounts[job_id]

    def missing(self) -> Iterator[Account]:
        """Jobs that were handed in and that the store does not hold."""
        return (one for one in self.accounts.values() if one.job_id not in self.snapshot.jobs)

    def _collect(self, history: list[JobEntry]) -> None:
        self.entry_count = len(history)
        answers: dict[tuple[str, int], Any] = {}
        for entry in history:
            if isinstance(entry, _ANSWERS):
                answers[entry.instance, entry.call] = entry
        by_kind: defaultdict[type, list[Any]] = defaultdict(list)
        for entry in history:
            by_kind[type(entry)].append(entry)
        for kind, note in _NOTES.items():
            for entry in by_kind[kind]:
                answer = answers.get((entry.instance, getattr(entry, "call", 0)))
                if not isinstance(answer, Refused):
                    note(self, entry, answer)


def _note_insert(evidence: Evidence, call: InsertCalled, answer: InsertAnswered | None) -> None:
    for asked in call.jobs:
        account = evidence.account(asked.id)
        account.facts = account.facts or asked
    for kept in () if answer is None else answer.jobs:
        account = evidence.account(kept.id)
        account.acknowledged = account.acknowledged or kept
        account.is_blocked |= kept.status is JobStatus.BLOCKED


def _note_lease(evidence: Evidence, call: LeaseCalled, answer: LeaseAnswered | None) -> None:
    if answer is None:
        evidence.unanswered_lease_count += 1
        return
    for grant in answer.grants:
        granted = Granted(grant, call.worker, call.at, answer.at, call.now)
        evidence.account(grant.job_id).granted.append(granted)


def _note_apply(evidence: Evidence, call: ApplyCalled, answer: ApplyAnswered | None) -> None:
    evidence.unanswered_apply_count += answer is None
    answers = [None] * len(call.moves) if answer is None else answer.answers
    answered_at = None if answer is None else answer.at
    for move, each in zip(call.moves, answers, strict=True):
        settling = Settling(move, each, call.at, answered_at, call.now)
        evidence.account(move.job_id).settlings.append(settling)
        _note_consequences(evidence, settling)


def _note_consequences(evidence: Evidence, settling: Settling) -> None:
    successor = settling.move.successor
    if successor is not None and settling.is_possible:
        account = evidence.account(successor.id)
        account.facts = account.facts or successor
        account.is_successor |= settling.is_certain
    for job_id in () if settling.answer is None else settling.answer.blocked:
        evidence.account(job_id).is_blocked = True
    for job_id in () if settling.answer is None else settling.answer.released:
        evidence.account(job_id).released_at = settling.now


def _note_extend(evidence: Evidence, call: ExtendCalled, answer: ExtendAnswered | None) -> None:
    if answer is None:
        return
    for (job_id, token), is_kept in zip(call.held, answer.kept, strict=True):
        if is_kept:
            extension = Extension(token, call.until, answer.at)
            evidence.account(job_id).extensions.append(extension)


def _note_prune(evidence: Evidence, call: PruneCalled, answer: PruneAnswered | None) -> None:
    if answer is None:
        evidence.possibly_pruned_count += call.limit
    else:
        evidence.pruned_count += answer.count


def _note_amend(evidence: Evidence, call: AmendCalled, _: object) -> None:
    evidence.account(call.job_id).is_amended = True


def _note_delete(evidence: Evidence, call: DeleteCalled, _: object) -> None:
    evidence.account(call.job_id).is_deleted = True


def _note_start(evidence: Evidence, entry: AttemptStarted, _: object) -> None:
    evidence.has_attempts = True
    evidence.account(entry.job_id).started.append(entry)


def _note_end(evidence: Evidence, entry: AttemptEnded, _: object) -> None:
    evidence.account(entry.job_id).ended.append(entry)


_ANSWERS = (InsertAnswered, LeaseAnswered, ApplyAnswered, ExtendAnswered, PruneAnswered, Refused)
_NOTES: dict[type, Any] = {
    InsertCalled: _note_insert,
    LeaseCalled: _note_lease,
    ApplyCalled: _note_apply,
    ExtendCalled: _note_extend,
    PruneCalled: _note_prune,
    AmendCalled: _note_amend,
    DeleteCalled: _note_delete,
    AttemptStarted: _note_start,
    AttemptEnded: _note_end,
}
