"""``amend``, ``delete`` and ``prune``: what is changed by hand, and what goes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from rota.errors import DuplicateJobError
from rota.jobs import Job, JobId, JobStatus, amend_job, check_deletion
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.family import find_no_longer_awaited, settle_dependents
from rota.stores.mongo.jobs.rows import (
    Kept,
    decode_job,
    decode_kept,
    digest_identity,
    stage_kept,
    stage_removal,
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
        writes = [stage_kept(kept._replace(job=amended), asked.now)]
        if amended.dependencies != kept.job.dependencies:
            writes += await _plan_others(gateway, kept, amended, above, asked.now)
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


async def _plan_others(
    gateway: Gateway, before: Kept, amended: Job, above: Mapping[JobId, Kept], now: datetime
) -> list[StagedWrite]:
    """Those for whom the new dependencies of a job mean something.

    All that still wait on the way up are written as well: two amendments that would lead to each
    other cannot both come about.
    """
    dropped = set(before.job.dependencies) - set(amended.dependencies)
    left = before._replace(job=replace(before.job, dependencies=tuple(sorted(dropped))))
    touched = {job_id: one for job_id, one in above.items() if one.job.status is JobStatus.PENDING}
    touched |= {one.job.id: one for one in await find_no_longer_awaited(gateway, left)}
    for each in amended.dependencies:
        touched[each] = above[each]._replace(is_awaited=True)
    if before.is_awaited:
        blocked = await settle_dependents(gateway, amended, now)
        touched |= {one.job.id: one for one in blocked}
    touched.pop(amended.id, None)
    return [stage_kept(one, now) for _, one in sorted(touched.items())]


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
    freed = await find_no_longer_awaited(gateway, kept) if kept.job.dependencies else []
    return [stage_removal(kept), *(stage_kept(one, kept.job.updated_at) for one in freed)]


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
