"""Leases: ``lease`` with and without limits, ``extend``, and a keeper for another thread."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from rota.jobs import Job, JobId, format_instant, parse_instant
from rota.jobs.record import HIGHEST_PRIORITY
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    counts_running,
    lease_chosen,
    lease_limited,
    preview_lease,
    scopes_of,
)
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition, answer_by, run_async
from rota.stores.protocol import LOOK_AHEAD, CapScope, HeldLease, LeasePreview, LeaseRequest
from rota.stores.redis.database import Database
from rota.stores.redis.rows import decode_all, encode_names
from rota.stores.redis.scripts import Script, load_script

LEASE = load_script("lease")
PARTITIONS = load_script("partitions")
FIRST = load_script("first")
TAKE = load_script("take")
EXTEND = load_script("extend")


async def lease(database: Database, request: LeaseRequest, now: datetime) -> list[Job] | None:
    """Due jobs, tenants in turn, without limits; None if the caller cannot run one of the next."""
    tenants = request.tenants
    turns = None if tenants is None else order_turns(set(tenants), request.after_tenant)
    arguments = (
        format_instant(now),
        format_instant(now + request.lease_for),
        request.worker,
        request.limit,
        request.after_tenant,
        encode_names(request.queues),
        encode_names(turns),
        encode_names(request.kinds),
        encode_names(request.labels),
    )
    reply = await _repeat(database, LEASE, arguments)
    return None if reply == 0 else decode_all(reply)


async def lease_under_limits(database: Database, request: LeaseRequest, now: datetime) -> list[Job]:
    """Due jobs for which there is room, or that the caller can run; see the kernel."""
    plan = lease_limited if request.is_limited else lease_chosen
    return await run_async(plan(request, now), answer_by(_Limits(database, now)))


async def preview(database: Database, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    return await run_async(preview_lease(request), answer_by(_Limits(database, now)))


class _Limits:
    """Answers the queries of a lease under limits.

    ``take.lua`` compares the number of leases so far with the one at which the running jobs were
    counted. If another caller has leased in between, it takes nothing.
    """

    def __init__(self, database: Database, now: datetime) -> None:
        self._database = database
        self._now = now
        self._lease_count = 0
        self._found: list[list[bytes]] | None = None
        """The partitions with a due job, as they were when the running jobs were counted."""

    async def count_running(self, request: LeaseRequest) -> dict[Partition, int]:
        leases, self._found, counts = await self._read_partitions(request)
        self._lease_count = int(leases)
        return {(tenant.decode(), queue.decode()): number for tenant, queue, number in counts}

    async def _read_partitions(self, request: LeaseRequest) -> Any:
        queues, tenants = encode_names(request.queues), encode_names(request.tenants)
        arguments = (format_instant(self._now), queues, tenants)
        return await _repeat(self._database, PARTITIONS, arguments)

    async def find_partitions(
        self, request: LeaseRequest, limit: int, full: Collection[CapScope]
    ) -> list[Partition]:
        names, self._found = self._found, None
        if names is None:
            _, names, _ = await self._read_partitions(request)
        closed = set(full)
        partitions = [(tenant.decode(), queue.decode()) for tenant, queue in names]
        found = [each for each in partitions if closed.isdisjoint(scopes_of(*each))]
        turns = order_turns({tenant for tenant, _ in found}, request.after_tenant)
        return [each for tenant in turns[:limit] for each in found if each[0] == tenant]

    async def find_first(
        self,
        request: LeaseRequest,
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],
    ) -> list[Standing]:
        skipped = set(passed_over)
        arguments: list[Any] = [
            format_instant(self._now),
            job_count + len(skipped),
            encode_names(request.kinds),
            encode_names(request.labels),
            LOOK_AHEAD + len(skipped),
        ]
        for tenant, queue in partitions:
            arguments += tenant, queue, "1" if queue in (request.ageing or {}) else ""
        reply = await _repeat(self._database, FIRST, arguments)
        standing = (
            _decode_standing(partition, tail.decode())
            for partition, tails in zip(partitions, reply, strict=True)
            for tail in tails
        )
        return [each for each in standing if each.job_id not in skipped]

    async def take_jobs(
        self, request: LeaseRequest, chosen: Sequence[Candidate]
    ) -> list[Job] | None:
        is_counted = counts_running(request.caps)
        arguments: list[Any] = [
            format_instant(self._now),
            format_instant(self._now + request.lease_for),
            request.worker,
            self._lease_count if is_counted else "",
            encode_names(request.kinds),
            encode_names(request.labels),
        ]
        for job in chosen:
            arguments += job.job_id, job.tenant, job.queue
        shown = await self._database.run(TAKE, arguments)
        if shown is None:
            return None
        self._lease_count += bool(shown[0])
        return decode_all(shown)


async def _repeat(database: Database, script: Script, arguments: Sequence[Any]) -> Any:
    """A script's answer; it is run again while it has more jobs to move than one run moves."""
    while True:
        reply = await database.run(script, arguments)
        if reply is not None:
            return reply


def _decode_standing(partition: Partition, tail: str) -> Standing:
    """A job from the end of its place: rank, created and id."""
    rank, created_at, job_id = tail[:2], tail[2:-36], tail[-36:]
    return Standing(job_id, *partition, HIGHEST_PRIORITY - int(rank), parse_instant(created_at))


def _encode_extension(held: Sequence[HeldLease], until: datetime) -> list[Any]:
    return [format_instant(until), *(part for each in held for part in each)]


async def extend(database: Database, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Extend leases. It is safe to repeat, so a lost answer is asked for again."""
    arguments = _encode_extension(held, until)
    answers = await database.run(EXTEND, arguments)
    return list(map(bool, answers))
