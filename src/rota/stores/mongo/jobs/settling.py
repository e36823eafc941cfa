"""``apply``: what was decided about jobs is written, with all that follows from it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from bson import ObjectId

from rota.jobs import Change, Job, JobId, JobStatus
from rota.stores.kernel.settlement import is_current, make_successor, write_move
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.family import Family
from rota.stores.mongo.jobs.rows import (
    SETTLE_MARKS,
    decode_job,
    digest_identity,
    encode_attempt,
    stage_new,
)
from rota.stores.mongo.jobs.shelf import find_free, write_as_planned
from rota.stores.mongo.steps.names import JOBS
from rota.stores.mongo.steps.step import StagedWrite
from rota.stores.protocol import STALE, Applied

_HELD = frozenset({JobStatus.READY, JobStatus.RUNNING})


class Settled(NamedTuple):
    """The answers, and the jobs that have become READY."""

    answers: list[Applied]
    ready: Sequence[Job] = ()


async def apply_plain(
    gateway: Gateway, changes: Sequence[Change], now: datetime
) -> dict[int, Applied]:
    """Write those changes that concern nobody but their job, all with one command; by position.

    What is not among the answers is stale, or needs more than one write.
    """
    if len({change.job.id for change in changes}) < len(changes):
        return {}  # where several are about one job, each must see those before it
    plain = {place: each for place, each in enumerate(changes) if _is_plain(each)}
    moved = {place: each for place, each in plain.items() if not each.is_removed}
    done = await _settle_together(gateway, moved, now)
    answers = {place: Applied(changes[place].job) for place in done}
    leaving = [place for place in plain if place not in moved]
    if len(leaving) == 1:  # of several deletions it is not told which have been carried out
        removal = queries.settle_and_remove(plain[leaving[0]], now)
        if (await gateway.write(JOBS, [removal])).deleted_count:
            answers[leaving[0]] = Applied(plain[leaving[0]].job, is_removed=True)
    return answers


async def apply_together(gateway: Gateway, changes: Sequence[Change], now: datetime) -> Settled:
    """Write changes, each if it still holds, with all that follows from them, in one step."""

    async def plan() -> tuple[Sequence[StagedWrite], Settled]:
        desk = _Desk(Family(gateway), gateway, now)
        await desk.read(changes)
        return desk.carry_out(changes)

    return await write_as_planned(gateway, plan)


def _is_plain(change: Change) -> bool:
    """Whether it may concern nobody else, and does not hang on what others in the call do."""
    return change.successor is None and change.expected_status in _HELD


async def _settle_together(
    gateway: Gateway, changes: Mapping[int, Change], now: datetime
) -> Sequence[int]:
    """The positions of those that were written."""
    if not changes:
        return ()
    mark = str(ObjectId())
    operations = [queries.settle(change, mark, now) for change in changes.values()]
    if (await gateway.write(JOBS, operations)).matched_count == len(operations):
        return list(changes)
    places: dict[JobId, int] = {change.job.id: place for place, change in changes.items()}
    marked: list[int] = []
    ids = sorted(places)
    for start in range(0, len(ids), queries.IDS_AT_ONCE):
        some = queries.by_ids(ids[start : start + queries.IDS_AT_ONCE], [SETTLE_MARKS])
        found = await gateway.find(some)
        marked += [places[raw["_id"]] for raw in found if mark in raw.get(SETTLE_MARKS, ())]
    return sorted(marked)


class _Desk:
    """Reads all that changes may concern, then carries out one after the other in memory."""

    def __init__(self, family: Family, gateway: Gateway, now: datetime) -> None:
        self._family = family
        self._gateway = gateway
        self._now = now
        self._taken: set[str] = set()
        self._new: dict[JobId, StagedWrite] = {}

    async def read(self, changes: Sequence[Change]) -> None:
        """A number of queries that grows only with how deep a cascade goes."""
        family = self._family
        successors = [each.successor.id for each in changes if each.successor is not None]
        await family.read([*(change.job.id for change in changes), *successors])
        current = [each for each in changes if each.job.id in family.jobs]
        await family.read_waiting(change.job for change in current)
        leaving = [family.jobs[each.job.id].job for each in current if each.is_removed]
        await family.read_parents(each for job in leaving for each in job.dependencies)
        await self._read_taken(filter(None, map(self._make_successor, current)))

    def carry_out(self, changes: Sequence[Change]) -> tuple[Sequence[StagedWrite], Settled]:
        """What is to be written, and what became of each change."""
        answers = [self._carry_out(change) for change in changes]
        new = [each.successor for each in answers if each.successor is not None]
        ready = [*self._family.list_ready(), *new]
        return [*self._family.plan_writes(self._now), *self._new.values()], Settled(answers, ready)

    def _carry_out(self, change: Change) -> Applied:
        kept = self._family.get(change.job.id)
        if kept is None or not is_current(change, kept.job, self._now):
            return STALE
        moved, attempts = write_move(change, kept.job), list(kept.attempts)
        if change.attempt is not None:
            attempts.append(encode_attempt(change.attempt))
        self._family.put(kept._replace(job=moved, attempts=attempts))
        successor = self._continue_series(self._make_successor(change))
        concerned = self._family.settle_dependents(moved, self._now) if kept.is_awaited else []
        is_removed = change.is_removed and not kept.is_awaited
        if is_removed:
            self._family.remove(moved.id)
        return Applied(
            change.job,
            successor,
            released=_ids_at(JobStatus.READY, concerned),
            blocked=_ids_at(JobStatus.BLOCKED, concerned),
            is_removed=is_removed,
        )

    def _make_successor(self, change: Change) -> Job | None:
        return make_successor(change, self._family.jobs[change.job.id].job)

    def _continue_series(self, successor: Job | None) -> Job | None:
        """The next job of the series, unless there is one already under its id or its key."""
        if successor is None or successor.id in self._family.jobs or successor.id in self._new:
            return None
        digest = digest_identity(successor)
        if digest is not None and digest in self._taken:
            return None
        if digest is not None:
            self._taken.add(digest)
        staged = stage_new(successor, self._now)
        self._new[successor.id] = staged
        return decode_job({"_id": successor.id, **(staged.after or {})})

    async def _read_taken(self, successors: Iterable[Job]) -> None:
        """Learn which keys of new jobs others have already."""
        digests = sorted({digest for job in successors if (digest := digest_identity(job))})
        for start in range(0, len(digests), queries.VALUES_AT_ONCE):
            some = queries.by_digests(digests[start : start + queries.VALUES_AT_ONCE])
            for raw in await find_free(self._gateway, some):
                self._taken.update(raw["keys"])


def _ids_at(status: JobStatus, jobs: Sequence[Job]) -> tuple[JobId, ...]:
    return tuple(job.id for job in jobs if job.status is status)
