"""A job that ends, with all those for whom that means something."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from rota.jobs import Job, JobId, JobStatus, decide_dependents
from rota.stores.mongo.gateway import Gateway
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import Kept, decode_kept
from rota.stores.mongo.jobs.shelf import find_free, read_kept

_WAITING = {"status": str(JobStatus.PENDING)}


async def settle_dependents(gateway: Gateway, ended: Job, now: datetime) -> list[Kept]:
    """Whoever waited for the job, as its end leaves them; nobody if it has not ended.

    All who still wait for it are among them, moved or not: by writing them, two jobs that end at
    the same time learn of each other.
    """
    if not ended.status.is_terminal:
        return []
    if ended.status is JobStatus.COMPLETED:
        waiting = await find_waiting(gateway, [ended.id])
        beside = {each for kept in waiting for each in kept.job.dependencies} - {ended.id}
        others = [kept.job for kept in (await read_kept(gateway, beside)).values()]
    else:
        waiting, others = await _find_descendants(gateway, ended.id), []
    changes = decide_dependents(ended, [*(kept.job for kept in waiting), *others], now)
    moved = {change.job.id: change.job for change in changes}
    return [kept._replace(job=moved.get(kept.job.id, kept.job)) for kept in waiting]


async def find_waiting(gateway: Gateway, job_ids: Iterable[JobId]) -> list[Kept]:
    """The PENDING jobs that depend on one of these, by id."""
    wanted = sorted(set(job_ids))
    found: dict[JobId, Kept] = {}
    for start in range(0, len(wanted), queries.IDS_AT_ONCE):
        some = wanted[start : start + queries.IDS_AT_ONCE]
        for raw in await find_free(gateway, queries.dependents_of(some, **_WAITING)):
            found[raw["_id"]] = decode_kept(raw)
    return [found[job_id] for job_id in sorted(found)]


async def _find_descendants(gateway: Gateway, job_id: JobId) -> list[Kept]:
    """All that wait for the job, directly or through others.

    Each is read before those that wait for it are looked for: whoever joins them later writes it.
    """
    found: dict[JobId, Kept] = {}
    reached: Sequence[JobId] = [job_id]
    while reached:
        new = [kept for kept in await find_waiting(gateway, reached) if kept.job.id not in found]
        found |= {kept.job.id: kept for kept in new}
        reached = [kept.job.id for kept in new]
    return list(found.values())


async def find_no_longer_awaited(gateway: Gateway, gone: Kept) -> list[Kept]:
    """The jobs on which nobody depends any more once this one is gone, as they then are.

    Those on which others still depend are among them, as they were: by writing them, two of their
    dependents that go at the same time learn of each other.
    """
    parents = await read_kept(gateway, gone.job.dependencies)
    if not parents:
        return []
    asked = queries.dependents_of(sorted(parents))._replace(fields=["dependencies", "lock"])
    others = [raw for raw in await gateway.find(asked) if raw["_id"] != gone.job.id]
    awaited = {each for raw in others for each in raw["dependencies"]}
    return [kept._replace(is_awaited=job_id in awaited) for job_id, kept in sorted(parents.items())]
