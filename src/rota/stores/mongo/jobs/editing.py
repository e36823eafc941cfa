"""``amend``, ``delete`` and ``prune``: what is changed by hand, and what goes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import DuplicateJobError
from rota.jobs import Job, JobId, JobStatus, amend_job, check_deletion
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.family import Family
from rota.stores.mongo.jobs.rows import (
    Kept,
    decode_job,
    decode_kept,
    digest_identity,
)
from rota.stores.mongo.jobs.shelf import (
    find_free,
    read_kept,
    read_one,
    set_damaged_aside,
    write_as_planned,
)
from rota.stores.mongo.steps.names import JOBS
from rota.stores.mongo.steps.step import StagedWrite

PRUNED_AT_ONCE = 500


class Amendment(NamedTuple):
    """Which job is to be changed, and how."""

    tenant: str
    job_id: JobId
    fields: Mapping[str, Any]
    now: datetime


async def amend(gateway: Gateway, asked: Amendment) -> Job:
    """Change fields of a job."""

    async def plan() -> tuple[Sequence[StagedWrite], Job]:
        kept = await read_one(gateway, asked.tenant, asked.job_id)
        above = await _read_above(gateway, asked) if "dependencies" in asked.fields else {}
        amended = amend_job(
            kept.job,
            asked.fields,
            asked.now,
            dependency_statuses={job_id: one.job.status for job_id, one in above.items()},
            existing_jobs={job_id: one.job.dependencies for job_id, one in above.items()},
        )
        await _check_twin(gateway, amended)
        family = Family(gateway)
        family.adopt([kept, *above.values()])
        family.put(kept._replace(job=amended))
        if amended.dependencies != kept.job.dependencies:
            await _involve_others(family, kept, amended, asked.now)
        writes = family.plan_writes(asked.now)
        return writes, decode_job({"_id": amended.id, **(writes[0].after or {})})

    return await write_as_planned(gateway, plan)


async def _read_above(gateway: Gateway, asked: Amendment) -> dict[JobId, Kept]:
    """The jobs named as dependencies, and all on which those depend: of this tenant."""
    named = asked.fields["dependencies"]
    reached = {each for each in named if isinstance(each, str)} if _is_list(named) else set()
    found: dict[JobId, Kept] = {}
    while reached:
        read = await read_kept(gateway, reached)
        new = {job_id: one for job_id, one in read.items() if one.job.tenant == asked.tenant}
        found |= new
        below = (each for one in new.values() for each in one.job.dependencies)
        reached = {each for each in below if each not in found}
    return found


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


async def _check_twin(gateway: Gateway, amended: Job) -> None:
    digest = digest_identity(amended)
    if digest is None:
        return
    for raw in await find_free(gateway, queries.by_digests([digest])):
        if raw["_id"] != amended.id:
            raise DuplicateJobError(raw["_id"], "with the same idempotency key under that kind")


async def _involve_others(family: Family, before: Kept, amended: Job, now: datetime) -> None:
    """Those for whom the new dependencies of a job mean something.

    All that still wait on the way up are written as well: two amendments that would lead to each
    other cannot both come about.
    """
    above = [one for one in family.jobs.values() if one.job.id != amended.id]
    dropped = set(before.job.dependencies) - set(amended.dependencies)
    await family.read_parents(dropped)
    await family.read_waiting([amended])
    for one in above:
        if one.job.id in amended.dependencies:
            family.put(one._replace(is_awaited=True))
        elif one.job.status is JobStatus.PENDING:
            family.put(one)
    family.let_go(amended.id, dropped)
    family.settle_dependents(amended, now)


async def delete(gateway: Gateway, tenant: str, job_id: JobId) -> Job:
    """Remove a job at whatever stage."""

    async def plan() -> tuple[Sequence[StagedWrite], Job]:
        kept = await read_one(gateway, tenant, job_id)
        if kept.is_awaited:
            found = await gateway.find(queries.dependents_of([job_id]))
            check_deletion(job_id, [raw["_id"] for raw in found])
        return await _plan_removal(gateway, kept), kept.job

    return await write_as_planned(gateway, plan)


async def _plan_removal(gateway: Gateway, kept: Kept) -> list[StagedWrite]:
    family = Family(gateway)
    family.adopt([kept])
    await family.read_parents(kept.job.dependencies)
    family.remove(kept.job.id)
    return family.plan_writes(kept.job.updated_at)


async def prune(gateway: Gateway, ended_before: datetime, limit: int) -> int:
    """Remove jobs that ended before then and on which none depends, the longest ago first."""
    count = 0
    while count < limit:
        asked = queries.ended(ended_before, min(limit - count, PRUNED_AT_ONCE))
        raws = await find_free(gateway, asked)
        if not raws:
            break
        found = [decode_kept(raw) for raw in await set_damaged_aside(gateway, raws)]
        alone = _count_alone(found)
        if alone or not found:
            count += await _remove_alone(gateway, found[:alone])
        else:
            count += await _remove_one(gateway, found[0])
    return count


def _count_alone(found: Sequence[Kept]) -> int:
    """How many of the first depend on none: nobody comes earlier because of them."""
    dependent = (place for place, kept in enumerate(found) if kept.job.dependencies)
    return next(dependent, len(found))


async def _remove_alone(gateway: Gateway, found: Sequence[Kept]) -> int:
    if not found:
        return 0
    removals = [queries.remove_at(kept.job.id, kept.version) for kept in found]
    return (await gateway.write(JOBS, removals)).deleted_count


async def _remove_one(gateway: Gateway, found: Kept) -> int:
    async def plan() -> tuple[Sequence[StagedWrite], int]:
        kept = (await read_kept(gateway, [found.job.id])).get(found.job.id)
        if kept is None or kept.is_awaited:
            return [], 0
        return await _plan_removal(gateway, kept), 1

    return await write_as_planned(gateway, plan)
