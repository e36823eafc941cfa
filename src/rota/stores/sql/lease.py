"""``lease`` and ``extend`` on a server: which due jobs a caller gets, and how leases are kept.

A lease first marks the READY jobs that have become due. They form a partition for each queue of
each tenant. The native path locks the first jobs of each partition that no one else has locked, and
leases them if the caller can run all of them. Otherwise, and under limits, the kernel decides.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rota.errors import DamagedJobError
from rota.jobs import Job, JobId, decide_lease, order_key
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    find_ranks,
    lease_chosen,
    lease_limited,
    preview_lease,
)
from rota.stores.kernel.partitions import find_partitions
from rota.stores.kernel.turns import share_out
from rota.stores.kernel.unit import Partition, answer_by, run_async
from rota.stores.protocol import LOOK_AHEAD, CapScope, HeldLease, LeasePreview, LeaseRequest
from rota.stores.rows import Row, decode_standings, logger, to_micros
from rota.stores.sql.partitions import Steps
from rota.stores.sql.server import ServerSession

MOST_MARKED_DUE = 10_000
"""How many jobs one lease marks as due, the longest due first: it keeps the transaction short."""


async def lease(
    session: ServerSession, request: LeaseRequest, now: datetime, *, is_native: bool
) -> list[Job]:
    """See ``JobStore.lease``."""
    async with session.transaction():
        call = LeaseCall(session, request, now)
        await call.mark_due()
        if request.is_limited:
            return await run_async(lease_limited(request, now), answer_by(call))
        taken = await call.take_in_turns() if is_native else None
        if taken is None:
            taken = await run_async(lease_chosen(request, now), answer_by(call))
        return taken


async def preview(session: ServerSession, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    async with session.transaction():
        call = LeaseCall(session, request, now)
        await call.mark_due()
        return await run_async(preview_lease(request), answer_by(call))


class LeaseCall:
    """One call of ``lease``, in its transaction."""

    def __init__(self, session: ServerSession, request: LeaseRequest, now: datetime) -> None:
        self._session = session
        self._queries = session.queries
        self._request = request
        self._now = now

    async def mark_due(self) -> None:
        """Mark the jobs that have become due, unless another caller is doing so."""
        late = await self._session.fetch(
            self._queries.find_late, now=to_micros(self._now), limit=MOST_MARKED_DUE
        )
        await self._session.change(self._queries.mark_due, [job_id for (job_id,) in late])

    async def count_running(self, request: LeaseRequest) -> dict[Partition, int]:  # noqa: ARG002 - all are counted
        """One lock for all scopes; the count that follows sees all leases before."""
        await self._session.fetch(self._queries.lock_row, name="caps")
        rows = await self._session.fetch(self._queries.count_running)
        return {(tenant, queue): count for tenant, queue, count in rows}

    async def take_jobs(self, request: LeaseRequest, chosen: Sequence[Candidate]) -> list[Job]:
        ids = sorted(each.job_id for each in chosen)
        rows = await self._session.fetch(self._queries.take_chosen, ids=ids)
        return await self._take(request, await self._read(rows))

    async def take_in_turns(self) -> list[Job] | None:
        """The next jobs, tenants in turn; None if the caller cannot run one of them.

        More jobs may be locked than are taken. They are free after the commit.
        """
        request = self._request
        partitions = await self.find_partitions(request, request.limit, ())
        tenants = dict.fromkeys(tenant for tenant, _ in partitions)
        counts = dict.fromkeys(tenants, request.limit // max(1, len(tenants)) + 1)
        offered = dict[str, list[Job]]()
        while True:
            offered |= await self._lock_first(partitions, counts)
            chosen, asked = share_out(offered, request.limit)
            # Of those that were asked for more than was looked at, more is looked at.
            short = [each for each in asked if asked[each] > len(offered[each]) == counts.get(each)]
            if not short:
                break
            counts = dict.fromkeys(short, request.limit)
        if not all(request.accepts(job.kind, job.label) for job in chosen):
            return None
        return await self._take(request, chosen)

    async def _lock_first(
        self, partitions: Sequence[Partition], counts: Mapping[str, int]
    ) -> dict[str, list[Job]]:
        """The first jobs of these tenants, as many of each as it has a count."""
        places = [
            {"tenant": tenant, "queue": queue, "limit": counts[tenant]}
            for tenant, queue in partitions
            if tenant in counts
        ]
        rows = await self._take_first(places)
        while len(jobs := await self._read(rows)) < len(rows):  # one was set aside
            rows = await self._take_first(places)
        offered: dict[str, list[Job]] = {tenant: [] for tenant in counts}
        for job in sorted(jobs, key=order_key):
            offered[job.tenant].append(job)
        return {tenant: mine[: counts[tenant]] for tenant, mine in offered.items()}

    async def _take_first(self, places: Sequence[dict[str, Any]]) -> list[Row]:
        now = to_micros(self._now)
        return await self._session.fetch_each(
            self._queries.take_first, places, now=now, priority=None
        )

    async def find_partitions(
        self, request: LeaseRequest, limit: int, full: Collection[CapScope]
    ) -> list[Partition]:
        plan = find_partitions(request, limit, full, to_micros(self._now))
        return await run_async(plan, answer_by(Steps(self._session)))

    async def find_first(
        self,
        request: LeaseRequest,
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],
    ) -> list[Standing]:
        seen = LOOK_AHEAD if request.is_selective else job_count + len(passed_over)
        places = [
            {"tenant": tenant, "queue": queue, "priority": priority}
            for tenant, queue, priority in find_ranks(request, partitions)
        ]
        rows = await self._session.fetch_each(
            self._queries.find_first,
            places,
            now=to_micros(self._now),
            limit=job_count,
            seen=seen,
            passed_over=list(passed_over),
            kinds=_sorted(request.kinds),
            labels=_sorted(request.labels),
        )
        return decode_standings(rows)

    async def _read(self, rows: Iterable[Row]) -> list[Job]:
        """The locked jobs; one that cannot be read is set aside: it would hold up those behind."""
        jobs: list[Job] = []
        for row in rows:
            try:
                jobs.append(self._session.decode(row))
            except DamagedJobError as damage:
                logger.warning("%s; it is set aside", damage)
                await self._session.fetch(
                    self._queries.set_aside, job_id=row[0], reason=damage.reason
                )
        return jobs

    async def _take(self, request: LeaseRequest, jobs: Sequence[Job]) -> list[Job]:
        """Lease these locked jobs."""
        worker, lease_for = request.worker, request.lease_for
        await self._session.change(
            self._queries.lease_jobs,
            [job.id for job in jobs],
            now=to_micros(self._now),
            worker=worker,
            until=to_micros(self._now + lease_for),
        )
        return [decide_lease(job, worker, lease_for, self._now).job for job in jobs]


def _sorted(names: Collection[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


async def extend(session: ServerSession, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """See ``JobStore.extend``. A lease that is held now was held when it was extended."""
    leases = sorted(set(held))
    if not leases:
        return []
    ids = [each.job_id for each in leases]
    await session.fetch(session.queries.extend_leases, ids=ids, held=leases, until=to_micros(until))
    tokens: dict[JobId, int] = dict(await session.fetch(session.queries.read_tokens, ids=ids))
    return [tokens.get(each.job_id) == each.token for each in held]
