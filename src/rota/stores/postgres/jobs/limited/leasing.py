"""``lease`` under limits: jobs are chosen as ``selection`` says, in one transaction.

Whoever counts the places of a scope holds a lock on it until what was taken is committed: two
cannot both count the same free place. Jobs are looked up without a lock. One that another takes
meanwhile is passed over from then on.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rota.jobs import Job, JobId
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
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.leasing import promote, set_aside
from rota.stores.postgres.jobs.limited.queries import QUERIES
from rota.stores.postgres.jobs.rows import Damage, LeaseTerms, Row, in_calendar
from rota.stores.protocol import Cap, LeaseRequest

MOST_HINDERED = 5
"""So many rounds may come to nothing, because others were quicker, before one gives up."""


async def lease_limited(statements: Statements, request: LeaseRequest, now: datetime) -> list[Job]:
    """Hand out due jobs for which there is a place, round by round."""
    await promote(statements, now)
    async with statements.transaction():
        running = await _count_running(statements, request.caps)
        lessor = _Lessor(statements, request, now, Room(request.caps, running))
        return await lessor.lease()


async def _count_running(statements: Statements, caps: Sequence[Cap]) -> dict[Partition, int]:
    """The leased jobs of each lane; until the transaction ends nobody else adds to what is capped.

    The locks come first, in a statement of their own, so that the count sees what was committed by
    those that had them before.
    """
    if not counts_running(caps):
        return {}
    scopes = [f"{cap.tenant or ''}/{cap.queue or ''}" for cap in caps if cap.running is not None]
    await statements.fetch(QUERIES.lock_scopes, scopes)
    rows = await statements.fetch(QUERIES.count_running)
    return {(row[0], row[1]): row[2] for row in rows}


class _Lessor:
    """Leases jobs under one request."""

    def __init__(
        self, statements: Statements, request: LeaseRequest, now: datetime, room: Room
    ) -> None:
        self._statements = statements
        self._request = request
        self._now = now
        self._room = room
        self._terms = LeaseTerms(request.worker, now, now + request.lease_for)
        self._passed_over: list[JobId] = []

    async def lease(self) -> list[Job]:
        taken: list[Job] = []
        hindered_count = 0
        while len(taken) < self._request.limit and hindered_count < MOST_HINDERED:
            chosen = await self._choose(self._request.limit - len(taken))
            if not chosen:
                break
            leased, damaged = await self._take(chosen)
            await set_aside(self._statements, damaged)
            taken += leased
            hindered_count += not leased and not damaged
        return taken

    async def _choose(self, limit: int) -> list[Candidate]:
        """The jobs of one round."""
        lanes = await self._find_lanes(limit)
        if not lanes:
            return []
        tenants = list(dict.fromkeys(tenant for tenant, _ in lanes))
        candidates = await self._look_along(lanes, part_of(limit, len(tenants)))
        return choose_jobs(tenants, candidates, limit, self._room)

    async def _find_lanes(self, limit: int) -> list[Partition]:
        request, full = self._request, self._room.full_scopes()
        if (None, None) in full:
            return []
        lanes = [(tenant, queue) for tenant, queue in full if None not in (tenant, queue)]
        rows = await self._statements.fetch(
            QUERIES.find_lanes,
            self._now,
            None if request.queues is None else list(request.queues),
            None if request.tenants is None else list(request.tenants),
            request.after_tenant,
            limit,
            [queue for tenant, queue in full if tenant is None],
            [tenant for tenant, queue in full if queue is None],
            [tenant for tenant, _ in lanes],
            [queue for _, queue in lanes],
        )
        return [(row[0], row[1]) for row in rows]

    async def _look_along(self, lanes: Sequence[Partition], count: int) -> list[Candidate]:
        ageing: Mapping[str, timedelta] = self._request.ageing or {}
        rows = await self._statements.fetch(
            QUERIES.look_along,
            self._now,
            [tenant for tenant, _ in lanes],
            [queue for _, queue in lanes],
            [queue in ageing for _, queue in lanes],
            count,
            self._passed_over,
        )
        return [make_candidate(_stand(row), ageing, self._now) for row in rows]

    async def _take(self, chosen: Sequence[Candidate]) -> tuple[list[Job], list[Damage]]:
        """Those of them that nobody else has taken, in their order; the others lose their place."""
        rows = await self._statements.fetch(
            QUERIES.lease_chosen,
            self._now,
            [each.job_id for each in chosen],
            [each.tenant for each in chosen],
            [each.queue for each in chosen],
            self._now + self._request.lease_for,
            self._request.worker,
        )
        jobs, damaged = self._terms.decode(rows)
        leased = {job.id: job for job in jobs}
        for lost in chosen:
            if lost.job_id not in leased:
                self._room.give_back(lost.tenant, lost.queue)
                self._passed_over.append(lost.job_id)
        return [leased[each.job_id] for each in chosen if each.job_id in leased], damaged


def _stand(row: Row) -> Standing:
    job_id, tenant, queue, priority, created_at = row
    return Standing(job_id, tenant, queue, priority, in_calendar(created_at))
