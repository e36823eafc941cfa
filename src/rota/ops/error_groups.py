"""Error groups of a tenant: list them, find their dead letters, retry or discard those."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from rota.errors import NotFoundError
from rota.jobs import Ending, Job, JobId
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.explanation import name_error
from rota.rail.dead_letters import (
    HIGHEST_RETRY,
    DeadLetterFilter,
    DeadLetters,
    Retried,
    RetryPlan,
)
from rota.rail.jobs import RailContext
from rota.stores.protocol import DocumentStore
from rota.telemetry.error_groups import ErrorGroup, read_groups, sign


class GroupLetters(msgspec.Struct, frozen=True):
    """The dead letters of a group that were not retried yet, the newest job first."""

    jobs: tuple[Job, ...]
    has_more: bool = False

    @property
    def ids(self) -> tuple[JobId, ...]:
        return tuple(job.id for job in self.jobs)


class GroupDiscarded(msgspec.Struct, frozen=True):
    """How many dead letters were discarded, and how many stay because other jobs depend on them."""

    discarded_count: int
    kept_count: int = 0


async def list_error_groups(
    store: DocumentStore, tenant: str, *, kind: str | None = None
) -> tuple[ErrorGroup, ...]:
    """The tenant's error groups, the latest first; secrets in messages are masked."""
    groups = (await read_groups(store, tenant)).values()
    chosen = [_mask(it) for it in groups if kind in (None, it.kind)]
    return tuple(sorted(chosen, key=lambda it: it.last_at, reverse=True))


async def find_error_group(store: DocumentStore, tenant: str, group_id: str) -> ErrorGroup:
    """One group; NotFoundError if the tenant has none with that id."""
    found = (await read_groups(store, tenant)).get(group_id)
    if found is None:
        raise NotFoundError(f'No error group has the id "{group_id:.40}"', {"field": "group_id"})
    return _mask(found)


def _mask(group: ErrorGroup) -> ErrorGroup:
    return msgspec.structs.replace(group, message=name_error(group.message))


async def find_group_letters(
    context: RailContext, group: ErrorGroup, limit: int = HIGHEST_RETRY
) -> GroupLetters:
    """The dead letters whose last attempt belongs to the group, up to ``limit``."""
    found: list[Job] = []
    async for job in _walk_letters(context, group.kind):
        if await _belongs(context, job, group):
            if len(found) == limit:
                return GroupLetters(tuple(found), has_more=True)
            found.append(job)
    return GroupLetters(tuple(found))


async def _walk_letters(context: RailContext, kind: str) -> AsyncIterator[Job]:
    letters, wanted = _letters(context), DeadLetterFilter(kind=kind, with_discarded=True)
    cursor: str | None = None
    while True:
        page = await letters.list(wanted, cursor=cursor, limit=HIGHEST_LIMIT)
        ids = [it.job_id for it in page.items]
        jobs = await context.store.get(context.tenant, ids)
        for job_id in ids:
            if job_id in jobs:
                yield jobs[job_id]
        cursor = page.next_cursor
        if cursor is None:
            return


async def _belongs(context: RailContext, job: Job, group: ErrorGroup) -> bool:
    outcome = "discarded" if job.ending is Ending.DISCARDED else "failed"
    if sign(job.kind, outcome, job.last_error, None).name != group.name:
        return False  # its attempts need not be read
    attempts = await context.store.attempts(context.tenant, job.id)
    if not attempts:
        return False
    last = attempts[-1]
    return sign(job.kind, last.outcome, last.error, last.traceback).id == group.id


async def retry_group(
    context: RailContext, job_ids: Sequence[JobId], *, who: str, why: str | None = None
) -> Retried:
    """Retry dead letters that ``find_group_letters`` has named."""
    return await _letters(context).retry(RetryPlan(tuple(job_ids)), who=who, why=why)


async def discard_group(
    context: RailContext, job_ids: Sequence[JobId], *, who: str, why: str | None = None
) -> GroupDiscarded:
    """Delete dead letters that ``find_group_letters`` has named; not those others depend on."""
    dependents = await context.store.find_dependents(context.tenant, list(job_ids), HIGHEST_RETRY)
    needed = {each for job in dependents for each in job.dependencies}
    free = [each for each in job_ids if each not in needed]
    count = await _letters(context).discard(free, who=who, why=why) if free else 0
    return GroupDiscarded(count, len(job_ids) - len(free))


def _letters(context: RailContext) -> DeadLetters:
    return DeadLetters(
        context.store, context.tenant, clock=context.clock, draw_bits=context.draw_bits
    )
