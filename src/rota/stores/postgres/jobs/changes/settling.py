"""``apply``: changes that still hold are written, with all they mean for others, in one step."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from rota.jobs import Attempt, Change, Job, JobStatus
from rota.stores.kernel.settlement import check_path, is_current, make_successor, write_move
from rota.stores.postgres.jobs.changes.family import Family
from rota.stores.postgres.jobs.changes.removal import remove
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.insertion import insert_missing
from rota.stores.postgres.jobs.leasing import set_aside
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import encode_attempt
from rota.stores.protocol import STALE, Applied

_COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)


class Settled(NamedTuple):
    """What became of each change, and the jobs that are READY because of them."""

    answers: list[Applied]
    ready: Sequence[Job] = ()


def check_paths(changes: Iterable[Change]) -> None:
    """Refuse any that goes a way which is not in the table of moves."""
    for change in changes:
        if change.path != _COMPLETION:
            check_path(change)


async def apply(statements: Statements, changes: Sequence[Change], now: datetime) -> Settled:
    """Write each change that still holds.

    A single one that only completes its job is one statement, and a transaction by itself.
    """
    if len(changes) == 1 and _is_plain(changes[0]) and await _complete(statements, changes):
        return Settled([Applied(changes[0].job)])
    if not changes:
        return Settled([])
    async with statements.transaction():
        return await _apply_all(statements, changes, now)


async def _apply_all(statements: Statements, changes: Sequence[Change], now: datetime) -> Settled:
    """Plain completions together, the others with care; they do not concern each other.

    Where several changes are about one job, each must see those before it.
    """
    answers: dict[int, Applied] = {}
    if len({change.job.id for change in changes}) == len(changes):
        plain = [place for place, change in enumerate(changes) if _is_plain(change)]
        plain.sort(key=lambda place: changes[place].job.id)
        done = await _complete(statements, [changes[place] for place in plain])
        answers = {plain[index]: Applied(changes[plain[index]].job) for index in done}
    ready: Sequence[Job] = ()
    if len(answers) < len(changes):
        left = {place: change for place, change in enumerate(changes) if place not in answers}
        careful, ready = await _apply_carefully(statements, left, now)
        answers |= zip(left, careful, strict=True)
    return Settled([answers[place] for place in range(len(changes))], ready)


def _is_plain(change: Change) -> bool:
    """Whether it completes its job, and more follows only if others depend on it."""
    return (
        change.path == _COMPLETION
        and change.successor is None
        and change.attempt is None
        and not change.is_removed
    )


async def _complete(statements: Statements, changes: Sequence[Change]) -> Sequence[int]:
    """The positions of those that were still current, and on which nobody depends.

    What a change writes of its job is the same as when it was leased, under the same token; only
    when it is due may have been amended since.
    """
    if not changes:
        return ()
    jobs = [change.job for change in changes]
    ends = [job.updated_at for job in jobs]
    ((positions,),) = await statements.fetch(
        QUERIES.complete_jobs,
        [job.id for job in jobs],
        [change.expected_token for change in changes],
        [job.tenant for job in jobs],
        [job.due_at for job in jobs],
        [] if ends.count(ends[0]) == len(ends) else ends,
        ends[0],
    )
    return range(len(jobs)) if positions is None else [position - 1 for position in positions]


async def _apply_carefully(
    statements: Statements, changes: Mapping[int, Change], now: datetime
) -> Settled:
    """Lock the jobs and all that wait for them, decide in memory, write together."""
    family = Family(statements)
    await family.lock(change.job.id for change in changes.values())
    ending = [change.job for change in changes.values() if change.job.status.is_terminal]
    completing = {job.id for job in ending if job.status is JobStatus.COMPLETED}
    await family.lock_waiting(completing, {job.id for job in ending} - completing)
    desk = _Desk(family, now)
    answers = [desk.carry_out(change) for change in changes.values()]
    await set_aside(statements, family.damaged)
    ready = await family.write(now)
    await _write_attempts(statements, desk.attempts)
    successors = [answer.successor for answer in answers if answer.successor is not None]
    made = await insert_missing(statements, successors, now)
    await remove(statements, desk.removed)
    answers = [_without_existing(answer, made) for answer in answers]
    return Settled(answers, [*ready, *(job for job in successors if job.id in made)])


def _without_existing(answer: Applied, made: frozenset[str]) -> Applied:
    if answer.successor is None or answer.successor.id in made:
        return answer
    return replace(answer, successor=None)


async def _write_attempts(statements: Statements, attempts: Sequence[Attempt]) -> None:
    if attempts:
        await statements.fetch(
            QUERIES.add_attempts,
            [attempt.job_id for attempt in attempts],
            [encode_attempt(attempt) for attempt in attempts],
        )


class _Desk:
    """Carries out one change after the other, in memory."""

    def __init__(self, family: Family, now: datetime) -> None:
        self._family = family
        self._now = now
        self.attempts: list[Attempt] = []
        self.removed: list[Job] = []

    def carry_out(self, change: Change) -> Applied:
        kept = self._family.jobs.get(change.job.id)
        if kept is None or not is_current(change, kept, self._now):
            return STALE
        moved = write_move(change, kept)
        self._family.put(moved)
        if change.attempt is not None:
            self.attempts.append(change.attempt)
        concerned = self._family.settle_dependents(moved, self._now)
        is_removed = change.is_removed and moved.id not in self._family.awaited
        if is_removed:
            self.removed.append(moved)
        return Applied(
            change.job,
            make_successor(change, kept),
            released=_ids_at(JobStatus.READY, concerned),
            blocked=_ids_at(JobStatus.BLOCKED, concerned),
            is_removed=is_removed,
        )


def _ids_at(status: JobStatus, jobs: Sequence[Job]) -> tuple[str, ...]:
    return tuple(job.id for job in jobs if job.status is status)
