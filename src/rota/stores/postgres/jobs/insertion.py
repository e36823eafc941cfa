"""``insert``: jobs are kept, all of them or none."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg
from msgspec.structs import replace

from rota.errors import InvalidJobError, StoreUnavailableError
from rota.jobs import Job, JobId, JobStatus, are_job_ids, normalize_job_id
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import (
    Reading,
    are_alike,
    decode_jobs,
    digest_identity,
    encode_body,
    encode_jobs,
    known_ids,
    recurs,
)
from rota.stores.protocol import Inserted

MOST_AT_ONCE = 2_000
MOST_BYTES_AT_ONCE = 8 * 1024 * 1024
"""Within these a statement is over well before its deadline, and its message not too long."""

BETWEEN_BODIES = chr(30)

TRY_COUNT = 5
"""How often it is looked up what exists, when others keep on writing the same meanwhile."""


class _Batch(NamedTuple):
    """Jobs for one statement, with their bodies."""

    jobs: Sequence[Job]
    bodies: Sequence[str]


class _RacedError(Exception):
    """Somebody has written one of the jobs since it was looked up."""


def is_plain(job: Job) -> bool:
    """Whether ``insert_one`` takes it: a job as it is when it was just made, on its own."""
    return (
        job.status is JobStatus.READY
        and not job.dependencies
        and job.updated_at == job.created_at
        and normalize_job_id(job.id) == job.id
        and not (job.attempt_count or job.loss_count or job.last_token)
        and (job.lease, job.last_error, job.ending, job.deferral) == (None,) * 4
    )


async def insert_one(
    statements: Statements, job: Job, now: datetime, notice: tuple[str, str] | None
) -> bool:
    """Keep a plain job, and tell others by channel and message; False if it exists already.

    A statement by itself, whose values are no lists, takes half as long as that for many.
    """
    channel, message = notice or (None, None)
    body, digest = encode_body(job), digest_identity(job)
    place = (job.tenant, job.queue, job.priority, job.due_at, job.created_at)
    values = (now, job.id, *place, digest, body, channel, message, recurs(job))
    return bool(await statements.fetch(QUERIES.insert_one, *values))


async def insert(
    statements: Statements, jobs: Sequence[Job], now: datetime, *, may_be_new: bool = True
) -> list[Inserted]:
    """Keep the jobs; nothing is looked up beforehand where nothing is likely to be found."""
    _check_ids(jobs)
    if not jobs:
        return []
    if may_be_new and not any(job.dependencies for job in jobs):
        are_ready = all(job.status is JobStatus.READY and job.lease is None for job in jobs)
        ready = jobs if are_ready else [_made_ready(job) for job in jobs]
        if await _insert_at_once(statements, ready, now):
            return [Inserted(job) for job in ready]
    for _ in range(TRY_COUNT):
        try:
            async with statements.transaction():
                return await _insert_carefully(statements, jobs, now)
        except _RacedError:
            continue
    raise StoreUnavailableError(
        "Others keep on writing the same jobs; nothing was written",
        {"reason": "others were writing the same jobs", "outcome": "nothing was written"},
    )


def _check_ids(jobs: Sequence[Job]) -> None:
    if not are_job_ids([job.id for job in jobs]):
        raise InvalidJobError("id", "must be a UUID in lower case")


def _made_ready(job: Job) -> Job:
    """As a new job without dependencies is, whatever it says."""
    if job.status is JobStatus.READY and job.lease is None:
        return job
    return replace(job, status=JobStatus.READY, lease=None)


async def _insert_at_once(statements: Statements, jobs: Sequence[Job], now: datetime) -> bool:
    """Keep all of them if none exists; otherwise False, and nothing is kept.

    One statement is carried out as a whole, and needs no transaction of its own, if it fails where
    a job exists. That is an error in the server's log: only where nobody expects it, without keys.
    """
    may_exist = statements.is_foreign or any(job.idempotency_key is not None for job in jobs)
    batches = list(_batches(jobs))
    if len(batches) == 1 and not statements.is_foreign and (len(jobs) == 1 or not may_exist):
        return await _insert_batch(statements, batches[0], now, may_exist=may_exist)
    try:
        async with statements.transaction():
            for batch in batches:
                is_new = await _insert_batch(statements, batch, now, may_exist=may_exist)
                _take_back_unless(is_new)
    except _RacedError:
        return False
    return True


def _take_back_unless(is_new: bool) -> None:  # noqa: FBT001 - reads as a sentence
    """End the transaction in which something existed already."""
    if not is_new:
        raise _RacedError


async def _insert_batch(
    statements: Statements, batch: _Batch, now: datetime, *, may_exist: bool
) -> bool:
    columns = encode_jobs(*batch)
    if may_exist:
        made = await statements.fetch(QUERIES.insert_missing, now, *columns)
        return len(made) == len(batch.jobs)
    try:
        await _insert_new(statements, columns, now)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def _insert_new(
    statements: Statements, columns: Sequence[Sequence[Any]], now: datetime
) -> None:
    """Keep all of these, or fail when one exists."""
    if not are_alike(columns):
        await statements.fetch(QUERIES.insert_jobs, now, *columns)
        return
    ids, bodies, *_, tenants, queues, priorities, instants = columns
    same = (tenants[0], queues[0], priorities[0], instants[0])
    await statements.fetch(
        QUERIES.insert_alike, now, ",".join(ids), BETWEEN_BODIES.join(bodies), *same
    )


async def _insert_carefully(
    statements: Statements, jobs: Sequence[Job], now: datetime
) -> list[Inserted]:
    """Look up what exists and what is depended on, and keep what is missing."""
    parents = {each for job in jobs for each in job.dependencies}
    locked = decode_jobs(await statements.fetch(QUERIES.lock_jobs, known_ids(parents)))
    answers = plan_insertion(jobs, await _look_up(statements, jobs, locked))
    new = [answer.job for answer in answers if not answer.is_existing]
    awaited = frozenset(each for job in new for each in job.dependencies)
    await _keep(statements, new, awaited, now)
    to_mark = [each for each, kept in locked.kept.items() if not kept.is_awaited]
    if marked := [each for each in to_mark if each in awaited]:
        await statements.fetch(QUERIES.mark_awaited, marked)
    return answers


async def _look_up(statements: Statements, jobs: Sequence[Job], locked: Reading) -> Kept:
    found = decode_jobs(await statements.fetch(QUERIES.read_jobs, [job.id for job in jobs])).jobs
    digests = [digest for job in jobs if (digest := digest_identity(job)) is not None]
    twins = decode_jobs(await statements.fetch(QUERIES.find_twins, digests)).jobs
    # Of one that is both to be kept and depended on, the locked reading is the later one.
    present = {**found, **locked.jobs}
    return Kept(
        by_id=present,
        by_identity={key: twin for twin in twins.values() if (key := identity_of(twin))},
        statuses={(job.tenant, job.id): job.status for job in present.values()},
    )


async def _keep(
    statements: Statements, new: Sequence[Job], awaited: frozenset[JobId], now: datetime
) -> None:
    for batch in _batches(new):
        columns = encode_jobs(*batch, awaited)
        made = await statements.fetch(QUERIES.insert_missing, now, *columns)
        if len(made) < len(batch.jobs):
            raise _RacedError
    links = [(parent, job.id) for job in new for parent in job.dependencies]
    for start in range(0, len(links), MOST_AT_ONCE):
        parents, children = zip(*links[start : start + MOST_AT_ONCE], strict=True)
        await statements.fetch(QUERIES.add_dependencies, list(parents), list(children))


async def insert_missing(
    statements: Statements, jobs: Sequence[Job], now: datetime
) -> frozenset[JobId]:
    """Keep those of the jobs, none of which has dependencies, that do not exist; their ids."""
    made: list[JobId] = []
    for batch in _batches(jobs):
        columns = encode_jobs(*batch)
        made += [row[0] for row in await statements.fetch(QUERIES.insert_missing, now, *columns)]
    return frozenset(made)


def _batches(jobs: Sequence[Job]) -> Iterator[_Batch]:
    """As many jobs at a time as one statement should hold; at least one."""
    start = byte_count = 0
    bodies: list[str] = []
    for end, job in enumerate(jobs):
        body = encode_body(job)
        is_full = len(bodies) >= MOST_AT_ONCE or byte_count + len(body) > MOST_BYTES_AT_ONCE
        if bodies and is_full:
            yield _Batch(jobs[start:end], bodies)
            start, byte_count, bodies = end, 0, []
        bodies.append(body)
        byte_count += len(body)
    if bodies:
        yield _Batch(jobs[start:], bodies)
