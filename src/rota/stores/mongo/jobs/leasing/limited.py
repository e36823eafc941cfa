"""``lease`` under limits: rounds as ``rota.stores.kernel.limits`` has them."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from rota.jobs import Job, JobId, decide_lease
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Room,
    Standing,
    choose_jobs,
    counts_running,
    make_candidate,
    part_of,
)
from rota.stores.kernel.unit import Partition
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.leasing.leases import claim_jobs, promote_due
from rota.stores.mongo.jobs.leasing.line import tenants_in_turn
from rota.stores.mongo.jobs.rows import decode_kept, stage_kept, to_instant
from rota.stores.mongo.jobs.shelf import find_free, too_busy
from rota.stores.mongo.pipelines import by_ids
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS, VERSION
from rota.stores.mongo.steps.step import StagedWrite, write_together
from rota.stores.protocol import LeaseRequest, is_chosen

PLACES = "places"
"""The document that every lease under such caps writes, so that they follow each other."""

TRY_COUNT = 200


async def lease_limited(gateway: Gateway, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs for which there is a place, round by round."""
    await promote_due(gateway, now)
    for _ in range(TRY_COUNT):
        guard = await _read_guard(gateway) if counts_running(request.caps) else None
        running = await _count_running(gateway) if guard is not None else {}
        lessor = _Lessor(gateway, request, now, Room(request.caps, running), {})
        chosen = await lessor.choose()
        if not chosen:
            return []
        if guard is None:
            leased = await claim_jobs(gateway, request, chosen, now)
        else:
            leased = await _lease_together(gateway, request, chosen, guard, now)
        if leased:
            return leased
    raise too_busy()


async def _lease_together(
    gateway: Gateway,
    request: LeaseRequest,
    chosen: list[JobId],
    guard: StagedWrite,
    now: datetime,
) -> list[Job]:
    """All of them or, when anybody else has leased under caps since they were counted, none."""
    found = await find_free(gateway, queries.by_ids(chosen))
    kept = {raw["_id"]: decode_kept(raw) for raw in found if raw.get("lane") == "due"}
    if len(kept) < len(chosen):
        return []
    jobs = [
        decide_lease(kept[job_id].job, request.worker, request.lease_for, now).job
        for job_id in chosen
    ]
    writes = [stage_kept(kept[job.id]._replace(job=job), now) for job in jobs]
    return jobs if await write_together(gateway, [guard, *writes]) else []


async def _read_guard(gateway: Gateway) -> StagedWrite:
    found = await find_free(gateway, by_ids(DOCUMENTS, [PLACES]))
    version: int | None = found[0][VERSION] if found else None
    return StagedWrite(DOCUMENTS, PLACES, version, {VERSION: (version or 0) + 1, "body": b""})


async def _count_running(gateway: Gateway) -> dict[Partition, int]:
    found = await gateway.aggregate(JOBS, queries.count_running(), queries.SURVEYED)
    return {(raw["_id"]["tenant"], raw["_id"]["queue"]): raw["count"] for raw in found}


class _Lessor(NamedTuple):
    """Chooses jobs under one request; ``chosen`` are those it has chosen so far, by lane."""

    gateway: Gateway
    request: LeaseRequest
    now: datetime
    room: Room
    chosen: dict[Partition, set[JobId]]

    async def choose(self) -> list[JobId]:
        """The jobs of all rounds."""
        taken: list[JobId] = []
        while len(taken) < self.request.limit:
            found = await self._choose_round(self.request.limit - len(taken))
            if not found:
                break
            for each in found:
                self.chosen.setdefault((each.tenant, each.queue), set()).add(each.job_id)
            taken += [each.job_id for each in found]
        return taken

    async def _choose_round(self, limit: int) -> list[Candidate]:
        lanes = await self._find_lanes(limit)
        if not lanes:
            return []
        part = part_of(limit, len(lanes))
        candidates = [
            candidate
            for tenant, queues in lanes.items()
            for queue in queues
            for candidate in await self._look_along(tenant, queue, part)
        ]
        return choose_jobs(list(lanes), candidates, limit, self.room)

    async def _find_lanes(self, limit: int) -> Mapping[str, list[str]]:
        """The lanes with a due job and a place, of up to so many tenants, in their turns."""
        found: dict[str, list[str]] = {}
        async for tenant in tenants_in_turn(self.gateway, self.request, self.now):
            queues = await self._queues_of(tenant)
            if queues:
                found[tenant] = queues
            if len(found) == limit:
                break
        return found

    async def _queues_of(self, tenant: str) -> list[str]:
        """The tenant's queues, among those asked for, with a due job that is left and a place."""
        found: list[str] = []
        after = ""
        while raw := await self.gateway.find(queries.next_queue(self.now, tenant, after)):
            after = raw[0]["queue"]
            if not is_chosen(after, self.request.queues):
                continue
            if self.room.has_place(tenant, after) and await self._look_along(tenant, after, 1):
                found.append(after)
        return found

    async def _look_along(self, tenant: str, queue: str, count: int) -> list[Candidate]:
        """The first jobs of a lane that are not chosen yet."""
        chosen = self.chosen.get((tenant, queue), set())
        asked = count + len(chosen)
        levels: list[int | None] = [None]
        if queue in (self.request.ageing or {}):
            levels = list(range(1, HIGHEST_PRIORITY + 1))
        found = [
            self._stand(raw)
            for level in levels
            for raw in await self.gateway.find(
                queries.first_due(self.now, tenant, asked, [queue], level)
            )
            if raw["_id"] not in chosen
        ]
        return sorted(found)[:count]

    def _stand(self, raw: Raw) -> Candidate:
        created_at = to_instant(raw["created_at"])
        standing = Standing(raw["_id"], raw["tenant"], raw["queue"], raw["priority"], created_at)
        return make_candidate(standing, self.request.ageing, self.now)
