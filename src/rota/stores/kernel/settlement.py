"""``apply``: each change that still holds, and what follows from it for other jobs."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from rota.errors import IllegalMoveError, InvalidInputError
from rota.jobs import (
    PAUSED_UNTIL,
    Change,
    Ending,
    Job,
    JobId,
    JobStatus,
    can_transition,
    is_stalled,
    planned_start,
)
from rota.jobs.graph import describe_skip
from rota.jobs.recurrence import continue_series
from rota.jobs.transitions import follow_policy
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.unit import (
    Amended,
    Decision,
    NewJob,
    Placed,
    Plan,
    Reading,
    Stored,
    Waiting,
    Writes,
    group_by_parent,
    read_dependents,
    read_jobs,
    read_twins,
    read_waiting,
)
from rota.stores.protocol import STALE, Applied

COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)
"""The path of most changes."""

MOVE_FIELDS = (
    "status",
    "due_at",
    "attempt_count",
    "loss_count",
    "last_error",
    "ending",
    "lease",
    "last_token",
    "deferral",
    "completion",
    "updated_at",
)
"""What a change writes of its job. Other fields may have been amended since it was decided."""

SERIES_FIELDS = (
    *("queue", "name", "kind", "payload", "priority", "retry_policy", "auto_remove"),
    "is_paused",
)
"""What a successor takes from its stored parent, for the same reason."""


def check_path(change: Change) -> None:
    """Refuse a change whose path is not in the table of moves."""
    for current, target in pairwise(change.path):
        if not can_transition(current, target):
            raise IllegalMoveError(current, target)


def check_paths(changes: Iterable[Change]) -> None:
    """As ``check_path``; most changes are completions."""
    for change in changes:
        if change.path != COMPLETION:
            check_path(change)


def find_plain(changes: Sequence[Change]) -> list[Change]:
    """The changes that complete a job, and write nothing else unless others depend on it.

    A native path may write them in the transaction in which the kernel writes the rest, which still
    refuses all if one path is not in the table. Only the order of changes of
    the same job matters: a call with two of them has no plain ones.
    """
    if len({change.job_id for change in changes}) < len(changes):
        return []
    return [
        change
        for change in changes
        if change.path == COMPLETION and change.successor is None and not change.is_removed
    ]


def merge_answers(
    changes: Iterable[Change], completed: Collection[JobId], others: Iterable[Applied]
) -> list[Applied]:
    """The answer for each change: completed natively, or by the kernel."""
    left = iter(others)
    return [Applied(one.job) if one.job_id in completed else next(left) for one in changes]


def is_current(change: Change, stored: Job | None, now: datetime) -> bool:
    """Whether the job is still as it was when the change was decided.

    A loss holds only while the lease is expired: a late holder may have extended it.
    """
    if stored is None or stored.tenant != change.job.tenant:
        return False
    if (stored.status, stored.last_token) != (change.expected_status, change.expected_token):
        return False
    is_loss = change.attempt is not None and change.attempt.outcome == "lost"
    return is_stalled(stored, now) if is_loss else True


def write_move(change: Change, stored: Job) -> Job:
    """The stored job, moved as decided."""
    return replace(stored, **{name: getattr(change.job, name) for name in MOVE_FIELDS})


def apply_placed(job: Job, placed: Placed, now: datetime) -> Job:
    """The job as ``placed`` leaves it, which is not PENDING any more."""
    moved = replace(job, status=placed.status, updated_at=now)
    if placed.ending is None:
        return moved
    return replace(moved, ending=placed.ending, last_error=placed.error)


def make_successor(change: Change, stored: Job) -> Job | None:
    """The next job of the series, with the amendments of the present one."""
    following = change.successor
    if stored.recurrence != change.job.recurrence:
        following = _follow_new_rule(change, stored)
    if following is None:
        return None
    successor = replace(following, **{name: getattr(stored, name) for name in SERIES_FIELDS})
    if successor.is_paused:
        return replace(successor, due_at=PAUSED_UNTIL)
    return replace(successor, due_at=planned_start(successor))


def _follow_new_rule(change: Change, stored: Job) -> Job | None:
    """The successor of a job whose series has another rule since the change was decided."""
    is_cancelled = change.successor is None and change.job.ending is Ending.CANCELLED
    if is_cancelled or not change.job.status.is_terminal:
        return None
    has_succeeded = change.job.status is JobStatus.COMPLETED
    following = continue_series(stored, change.job.updated_at, has_succeeded=has_succeeded)
    successor: Job | None = following.get("successor")
    return successor


def apply(changes: Sequence[Change], now: datetime) -> Plan[list[Applied]]:
    """Write each change that still holds; a change sees those before it."""
    check_paths(changes)
    jobs = WorkingSet(now)
    settled = yield from jobs.read(changes)
    answers = [jobs.carry_out(change) for change in settled]
    return Decision(jobs.writes, answers)


def _successors(changes: Iterable[Change]) -> set[JobId]:
    return {change.successor.id for change in changes if change.successor is not None}


class WorkingSet:
    """The jobs that changes concern, as they will be once the changes are written."""

    def __init__(self, now: datetime) -> None:
        self.writes = Writes(now)
        self._jobs: dict[JobId, Stored] = {}
        self._waiting: dict[JobId, Waiting] = {}
        self._children: dict[JobId, dict[JobId, None]] = {}
        self._dependents: dict[JobId, set[JobId]] = {}
        self._taken: set[Identity] = set()

    def read(self, changes: Sequence[Change]) -> Reading[Sequence[Change]]:
        """Read what the changes may concern: a fixed number of queries.

        Returns the changes, those of failed attempts as the stored retry policies decide them.
        """
        named = {change.job_id for change in changes} | _successors(changes)
        self._jobs = dict((yield from read_jobs(named, skips_damaged=True)))
        changes = [self._follow_policy(change) for change in changes]
        if missing := _successors(changes) - named:
            self._jobs |= yield from read_jobs(missing, skips_damaged=True)
        existing = [change for change in changes if change.job_id in self._jobs]
        yield from self._read_taken(existing)
        awaited = [change for change in existing if self._jobs[change.job_id].is_awaited]
        yield from self.read_waiting(change.job for change in awaited)
        leaving = {change.job_id for change in awaited if change.is_removed}
        self._dependents = yield from read_dependents(leaving)
        return changes

    def _follow_policy(self, change: Change) -> Change:
        stored = self._jobs.get(change.job_id)
        if stored is None or not is_current(change, stored.job, self.writes.now):
            return change
        return follow_policy(change, stored.job)

    def read_waiting(self, ending: Iterable[Job]) -> Reading[None]:
        """Read who waits for jobs that are about to end, as far as their end may reach."""
        ended = [job for job in ending if job.status.is_terminal]
        completed = {job.id for job in ended if job.status is JobStatus.COMPLETED}
        failed = {job.id for job in ended} - completed
        found = yield from read_waiting(failed, is_deep=True)
        found += yield from read_waiting(completed, is_deep=False)
        for one in found:
            self._waiting.setdefault(one.job_id, one)
        for parent, children in group_by_parent(found).items():
            self._children.setdefault(parent, {}).update(dict.fromkeys(children))

    def carry_out(self, change: Change) -> Applied:
        """What the change did, or that it was stale."""
        stored = self._jobs.get(change.job_id)
        if stored is None or not is_current(change, stored.job, self.writes.now):
            return STALE
        successor = self._continue_series(make_successor(change, stored.job))
        if len(change.path) == 1:
            self._note_continued(stored, change)
            return Applied(change.job, successor)
        moved = write_move(change, stored.job)
        self._put(stored._replace(job=moved))
        if change.attempt is not None:
            self.writes.attempts.append(change.attempt)
        if change.result is not None and moved.status is JobStatus.COMPLETED:
            self.writes.results[moved.id] = change.result
        released, blocked = self.settle_dependents(moved)
        is_removed = change.is_removed and self._remove(moved)
        return Applied(change.job, successor, released, blocked, is_removed)

    def settle_dependents(self, ended: Job) -> tuple[tuple[JobId, ...], tuple[JobId, ...]]:
        """Release or block the jobs that wait for one that has ended: both lists by id."""
        if ended.status is JobStatus.COMPLETED:
            return tuple(sorted(self._release_children(ended.id))), ()
        if ended.status.is_terminal:
            released, blocked = self._fail_children(ended.id)
            return tuple(sorted(released)), tuple(sorted(blocked))
        return (), ()

    def _read_taken(self, changes: Sequence[Change]) -> Reading[None]:
        """Learn which identities of successors exist already."""
        following = (make_successor(each, self._jobs[each.job_id].job) for each in changes)
        identities = (identity_of(job) for job in following if job is not None)
        twins = yield from read_twins({each for each in identities if each is not None})
        self._taken = {identity for job in twins if (identity := identity_of(job)) is not None}

    def _put(self, stored: Stored) -> None:
        job = stored.job
        if job.id in self.writes.amended:
            reason = f"job {job.id} begins the next job of its series and changes in one call"
            raise InvalidInputError(reason, {"field": "changes", "value": job.id})
        self._jobs[job.id] = stored
        self._waiting.pop(job.id, None)
        self.writes.placed.pop(job.id, None)
        if job.id in self.writes.new:
            self.writes.new[job.id] = NewJob(job)
        else:
            self.writes.moved[job.id] = job

    def _continue_series(self, successor: Job | None) -> Job | None:
        """Create the next job of the series, unless its id or its key exists already."""
        if successor is None or successor.id in self._jobs:
            return None
        identity = identity_of(successor)
        if identity is not None:
            if identity in self._taken:
                return None
            self._taken.add(identity)
        self._jobs[successor.id] = Stored(successor)
        self.writes.new[successor.id] = NewJob(successor)
        return successor

    def _note_continued(self, stored: Stored, change: Change) -> None:
        """Note with a job that runs on that its series has its next job."""
        recurrence = stored.job.recurrence
        if recurrence is None or recurrence != change.job.recurrence:
            return
        job = replace(stored.job, recurrence=replace(recurrence, is_continued=True))
        self._jobs[job.id] = stored._replace(job=job)
        self.writes.amended[job.id] = Amended(stored.job, job, None)

    def _release_children(self, parent: JobId) -> list[JobId]:
        children = self._waiting_for(parent)
        return [child.job_id for child in children if self._lower(child)]

    def _fail_children(self, failed: JobId) -> tuple[list[JobId], list[JobId]]:
        """Release or block the descendants of a job that did not complete.

        Each is reached once, in an order that does not depend on the store: level by level, by id.
        """
        released: list[JobId] = []
        blocked: list[JobId] = []
        reached = [failed]
        for parent in reached:  # grows while it is walked
            for child in sorted(self._waiting_for(parent)):
                if child.on_parent_failure == "run":
                    released += [child.job_id] if self._lower(child) else []
                    continue
                self._block(child, parent)
                blocked.append(child.job_id)
                reached.append(child.job_id)
        return released, blocked

    def _waiting_for(self, parent: JobId) -> list[Waiting]:
        children = self._children.get(parent, ())
        return [self._waiting[child] for child in children if child in self._waiting]

    def _lower(self, waiting: Waiting) -> bool:
        """The job waits for one dependency less; whether it is released."""
        lowered = waiting._replace(open_count=waiting.open_count - 1)
        is_released = lowered.open_count == 0
        status = JobStatus.READY if is_released else JobStatus.PENDING
        self._place(Placed(lowered, status, lowered.open_count))
        return is_released

    def _block(self, waiting: Waiting, parent: JobId) -> None:
        blocked = Placed(waiting, JobStatus.BLOCKED, waiting.open_count)
        if waiting.on_parent_failure == "skip":
            blocked = blocked._replace(ending=Ending.CANCELLED, error=describe_skip(parent))
        self._place(blocked)

    def _place(self, placed: Placed) -> None:
        job_id = placed.waiting.job_id
        self.writes.placed[job_id] = placed
        if placed.status is JobStatus.PENDING:
            self._waiting[job_id] = placed.waiting
            return
        del self._waiting[job_id]
        if job_id in self._jobs:  # a later change of the same call may concern it
            stored = self._jobs[job_id]
            moved = apply_placed(stored.job, placed, self.writes.now)
            self._jobs[job_id] = stored._replace(job=moved)

    def _remove(self, job: Job) -> bool:
        """Remove the job, unless others depend on it."""
        if self._dependents.get(job.id, set()) - self.writes.removed:
            return False
        del self._jobs[job.id]
        self.writes.moved.pop(job.id, None)
        self.writes.attempts = [each for each in self.writes.attempts if each.job_id != job.id]
        self.writes.results.pop(job.id, None)
        if self.writes.new.pop(job.id, None) is None:
            self.writes.removed.add(job.id)
        return True
