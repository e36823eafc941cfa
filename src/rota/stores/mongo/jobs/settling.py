"""``apply``: what was decided about jobs is written, with all that follows from it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from bson import ObjectId

from rota.jobs import Change, Job, JobId, JobStatus
from rota.stores.jobs.moves import is_current, make_successor, write_move
from rota.stores.jobs.results import STALE, Applied
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.family import find_no_longer_awaited, settle_dependents
from rota.stores.mongo.jobs.rows import (
    Kept,
    decode_job,
    digest_identity,
    encode_attempt,
    stage_kept,
    stage_new,
    stage_removal,
)
from rota.stores.mongo.jobs.shelf import find_free, read_kept, write_as_planned
from rota.stores.mongo.steps.names import JOBS
from rota.stores.mongo.steps.step import StagedWrite

_HELD = frozenset({JobStatus.READY, JobStatus.RUNNING})


class Settled(NamedTuple):
    """The answers, and the jobs that have become READY."""

    answers: list[Applied]
    ready: Sequence[Job] = ()


async def apply_plain(
    gateway: Gateway, changes: Sequence[Change], now: datetime
) -> dict[int, Applied]:
    """Write those changes that concern nobody but their job, each in one write; by position.

    What is not among the answers is stale, or needs more than one write.
    """
    if len({change.job.id for change in changes}) < len(changes):
        return {}  # where several are about one job, each must see those before it
    plain = {place: each for place, each in enumerate(changes) if _is_plain(each)}
    moved = {place: each for place, each in plain.items() if not each.is_removed}
    done = await _settle_together(gateway, moved, now)
    answers = {place: Applied(changes[place].job) for place in done}
    for place, change in plain.items():
        if change.is_removed:
            removal = queries.settle_and_remove(change, now)
            if (await gateway.write(JOBS, [removal])).deleted_count:
                answers[place] = Applied(change.job, is_removed=True)
    return answers


async def apply_carefully(gateway: Gateway, change: Change, now: datetime) -> Settled:
    """Write one change, if it still holds, with all that follows from it, in one step."""

    async def plan() -> tuple[Sequence[StagedWrite], Settled]:
        kept = (await read_kept(gateway, [change.job.id])).get(change.job.id)
        if kept is None or not is_current(change, kept.job, now):
            return [], Settled([STALE])
        return await _plan(gateway, change, kept, now)

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
        some = queries.by_ids(ids[start : start + queries.IDS_AT_ONCE], ["mark"])
        found = await gateway.find(some)
        marked += [places[raw["_id"]] for raw in found if raw.get("mark") == mark]
    return sorted(marked)


async def _plan(
    gateway: Gateway, change: Change, kept: Kept, now: datetime
) -> tuple[Sequence[StagedWrite], Settled]:
    moved = write_move(change, kept.job)
    attempts = list(kept.attempts)
    if change.attempt is not None:
        attempts.append(encode_attempt(change.attempt))
    successor = await _find_successor(gateway, make_successor(change, kept.job))
    concerned = await settle_dependents(gateway, moved, now) if kept.is_awaited else []
    is_removed = change.is_removed and not kept.is_awaited
    after = kept._replace(job=moved, attempts=attempts)
    writes = [stage_kept(each, now) for each in concerned]
    if is_removed:
        writes.append(stage_removal(kept))
        writes += [stage_kept(each, now) for each in await find_no_longer_awaited(gateway, kept)]
    else:
        writes.append(stage_kept(after, now))
    if successor is not None:
        staged = stage_new(successor, now)
        writes.append(staged)
        successor = decode_job({"_id": successor.id, **(staged.after or {})})
    answer = Applied(
        change.job,
        successor,
        released=_ids_at(JobStatus.READY, concerned),
        blocked=_ids_at(JobStatus.BLOCKED, concerned),
        is_removed=is_removed,
    )
    ready = [each.job for each in (after, *concerned) if each.job.status is JobStatus.READY]
    return writes, Settled([answer], ready if successor is None else [*ready, successor])


async def _find_successor(gateway: Gateway, successor: Job | None) -> Job | None:
    """The next job of the series, unless there is one already under its id or its key."""
    if successor is None or await read_kept(gateway, [successor.id]):
        return None
    digest = digest_identity(successor)
    if digest is not None and await find_free(gateway, queries.by_digests([digest])):
        return None
    return successor


def _ids_at(status: JobStatus, concerned: Sequence[Kept]) -> tuple[JobId, ...]:
    return tuple(kept.job.id for kept in concerned if kept.job.status is status)
