"""``insert``: jobs that are handed in together are kept together."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pymongo import InsertOne

from rota.jobs import Job, JobId
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.placement import Kept as Known
from rota.stores.kernel.placement import plan_insertion
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import (
    Kept,
    decode_job,
    decode_kept,
    digest_identity,
    encode_job,
    stage_kept,
    stage_new,
)
from rota.stores.mongo.jobs.shelf import find_free, read_kept, write_as_planned
from rota.stores.mongo.steps.names import JOBS, VERSION
from rota.stores.mongo.steps.step import StagedWrite
from rota.stores.protocol import Inserted


async def insert_alone(
    gateway: Gateway, jobs: Sequence[Job], now: datetime
) -> list[Inserted] | None:
    """Keep a single job that depends on none, in one write; None when there is more to it."""
    if len(jobs) != 1 or jobs[0].dependencies:
        return None
    (answer,) = plan_insertion(jobs, Known({}, {}, {}))
    raw = {"_id": answer.job.id, VERSION: 1, **encode_job(answer.job, now)}
    written = await gateway.write(JOBS, [InsertOne(raw)])
    return [Inserted(decode_job(raw))] if written.inserted_count else None


async def insert_together(gateway: Gateway, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
    """Keep all of these jobs or none.

    Any job that new ones depend on is written as well: so it cannot end, or go, without the one
    knowing of the other.
    """

    async def plan() -> tuple[Sequence[StagedWrite], list[Inserted]]:
        kept = await read_kept(gateway, _named(jobs))
        twins = await _read_twins(gateway, jobs)
        answers = plan_insertion(jobs, _known(kept, twins))
        writes = _plan_writes([one.job for one in answers if not one.is_existing], kept, now)
        return writes, _copied(answers, writes)

    return await write_as_planned(gateway, plan)


def _named(jobs: Sequence[Job]) -> set[JobId]:
    return {each for job in jobs for each in (job.id, *job.dependencies)}


async def _read_twins(gateway: Gateway, jobs: Sequence[Job]) -> list[Job]:
    """Jobs that have the identity of one of these."""
    digests = sorted({digest for job in jobs if (digest := digest_identity(job))})
    twins: list[Job] = []
    for start in range(0, len(digests), queries.VALUES_AT_ONCE):
        some = digests[start : start + queries.VALUES_AT_ONCE]
        found = await find_free(gateway, queries.by_digests(some))
        twins += [decode_kept(raw).job for raw in found]
    return twins


def _known(kept: Mapping[JobId, Kept], twins: Sequence[Job]) -> Known:
    return Known(
        by_id={job_id: one.job for job_id, one in kept.items()},
        by_identity={identity: twin for twin in twins if (identity := identity_of(twin))},
        statuses={(one.job.tenant, one.job.id): one.job.status for one in kept.values()},
    )


def _plan_writes(
    new: Sequence[Job], kept: Mapping[JobId, Kept], now: datetime
) -> list[StagedWrite]:
    """The new jobs, and those before them on which they depend."""
    awaited = {each for job in new for each in job.dependencies}
    writes = [stage_new(job, now, is_awaited=job.id in awaited) for job in new]
    parents = (kept[each] for each in sorted(awaited) if each in kept)
    return writes + [stage_kept(one._replace(is_awaited=True), now) for one in parents]


def _copied(answers: Sequence[Inserted], writes: Sequence[StagedWrite]) -> list[Inserted]:
    """The answers with payloads of their own: as they would be read."""
    raws = {
        write.raw_id: {"_id": write.raw_id, **write.after}
        for write in writes
        if write.version is None and write.after is not None
    }
    return [
        Inserted(decode_job(raws[one.job.id]), one.is_existing) if one.job.id in raws else one
        for one in answers
    ]
