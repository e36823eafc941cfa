"""Moves a tenant to another shard while it works.

First its jobs are copied, but for those that run. Then the tenant is frozen: once every process
knows, none leases or writes for it; what has changed is copied, running jobs with their leases
last. One write of the placement document switches the tenant over. At last the copies on the source
are removed.

A mover may die at any point. Until the switch the tenant lies on the source, and a freeze that is
not renewed ends; after it the tenant lies on the target. Another mover goes on from the document.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime, timedelta
from secrets import token_hex
from typing import NamedTuple

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import MoveConflictError
from rota.jobs import Job, JobFilter, JobId, JobStatus
from rota.stores.opened import OpenStore
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.stores.shards.merge import tenant_of
from rota.stores.shards.placement import Move, Phase, Placement
from rota.stores.shards.store import ShardedStore

RENEWED_AT = 0.75
"""A mover shows that it is alive when this part of its time is left."""

LEASE_MARGIN = timedelta(seconds=30)
"""Copied leases last longer by that: an extension on the source may have come after the copy."""

PORTION = 1_000
PAGE = 100

MOST_ROUNDS = 10
"""How often the copy is compared and completed before the mover gives up."""

logger = logging.getLogger("rota.stores.shards")

Report = Callable[[str, int, int], None]
"""Is called with the step, how many jobs are done, and of how many."""


class Moved(NamedTuple):
    """A completed move."""

    tenant: str
    source: str
    target: str
    job_count: int


def ignore(_step: str, _done: int, _total: int) -> None:
    """Report to no one."""


class Mover:
    """Moves tenants between the shards of a store, one after another."""

    def __init__(self, store: ShardedStore, clock: Clock, report: Report = ignore) -> None:
        self._store = store
        self._clock = clock
        self._report = report
        self._name = token_hex(8)

    async def move(self, tenant: str, target: str) -> Moved | None:
        """Move a tenant, or complete its move; None if it lies there already."""
        self._store.members.check_name(target, "target")
        view = self._store.view
        placement = await view.change(lambda known: self._claim(known, tenant, target))
        if tenant not in placement.moves:
            return None
        return await _Run(self._store, self._clock, self._report, tenant).complete()

    async def finish(self) -> list[Moved]:
        """Complete the moves that movers have left behind when they died."""
        placement = await self._store.view.current()
        now = self._store.view.now()
        left = {each: it.target for each, it in placement.moves.items() if it.until <= now}
        moved = [await self.move(tenant, target) for tenant, target in left.items()]
        return [each for each in moved if each is not None]

    def _claim(self, known: Placement, tenant: str, target: str) -> Placement:
        """Begin the move, or take it over from a mover that has died."""
        now, move = self._store.view.now(), known.moves.get(tenant)
        until = now + self._store.view.timing.held_for
        if move is None:
            source = known.locate(tenant)
            if source == target:
                return known
            new = Move(source, target, self._name, until=until, since=now)
            return known.with_move(tenant, new)
        if move.target != target:
            raise MoveConflictError(
                f'Tenant "{tenant}" is moving to shard "{move.target}": complete that first, with '
                f"rota shards move {tenant} {move.target}",
                {"tenant": tenant, "target": move.target},
            )
        if move.by != self._name and move.until > now:
            raise MoveConflictError(
                f'Another process moves tenant "{tenant}"; if it has died, try again in '
                f"{(move.until - now).total_seconds():.0f} s",
                {"tenant": tenant, "target": move.target},
            )
        taken = replace(move, by=self._name, until=until, since=now)
        return known.with_move(tenant, taken)


class _ThawedError(Exception):
    """The freeze has ended or may have, because this mover was too slow to renew it."""


class _Run:
    """One mover at work on one tenant."""

    def __init__(self, store: ShardedStore, clock: Clock, report: Report, tenant: str) -> None:
        self._view = store.view
        self._timing = store.view.timing
        self._clock = clock
        self._tenant = tenant
        self._report = report
        self._claimed = move = store.view.placement.moves[tenant]
        self._source = store.members[move.source]
        self._target = store.members[move.target]

    async def complete(self) -> Moved:
        """Do what is left to do, phase by phase."""
        while True:
            try:
                await self._go_on()
            except _ThawedError:
                await self._change(self._prolong)
            else:
                break
        done = self._move
        await self._change(lambda known: known.with_move(self._tenant, None))
        return Moved(self._tenant, done.source, done.target, done.job_count)

    async def _go_on(self) -> None:
        if self._move.phase == "copying":
            await self._settle(self._move.since)  # who does not know the move would lease copies
            await self._copy_resting()
            await self._enter("frozen")
        if self._move.phase == "frozen":
            await self._settle(self._move.since)
            job_count = await self._copy_rest()
            await self._enter("removing", job_count)
        await self._settle(self._move.since)
        await self._remove_source()

    @property
    def _move(self) -> Move:
        move = self._view.placement.moves.get(self._tenant)
        if move is None or move.by != self._claimed.by:
            raise self._conflict()
        return move

    def _check_claim(self) -> None:
        """Refuse to write once another mover may have taken over.

        A process may be paused between any two calls. What it then wrote would undo what the tenant
        has done since, on a shard where it works again.
        """
        if self._move.until <= self._view.now():
            raise _ThawedError

    def _prolong(self, known: Placement) -> Placement:
        until = self._view.now() + self._timing.held_for
        return known.with_move(self._tenant, replace(known.moves[self._tenant], until=until))

    def _conflict(self) -> MoveConflictError:
        return MoveConflictError(
            f'Another process has taken over the move of tenant "{self._tenant}"',
            {"tenant": self._tenant, "target": self._claimed.target},
        )

    async def _enter(self, phase: Phase, job_count: int = 0) -> None:
        """Enter the next phase; the last one also puts the tenant on the target."""
        before = self._move

        def decide(known: Placement) -> Placement:
            now = self._view.now()
            if known.moves[self._tenant] != before:
                raise _ThawedError
            until = now + self._timing.held_for
            after = replace(before, phase=phase, since=now, until=until, job_count=job_count)
            known = known.put(self._tenant, before.target) if phase == "removing" else known
            return known.with_move(self._tenant, after)

        await self._change(decide)
        logger.info("Tenant %s: %s -> %s, %s", self._tenant, before.source, before.target, phase)

    async def _renew(self) -> None:
        """Show now and then that this mover is alive."""
        if self._move.until - self._view.now() > self._timing.held_for * RENEWED_AT:
            return
        before = self._move

        def decide(known: Placement) -> Placement:
            if known.moves[self._tenant] != before:
                raise _ThawedError
            return self._prolong(known)

        await self._change(decide)

    async def _change(self, decide: Callable[[Placement], Placement]) -> None:
        """Change the placement, unless another mover has taken over."""

        def check(known: Placement) -> Placement:
            move = known.moves.get(self._tenant)
            if move is None or move.by != self._claimed.by:
                raise self._conflict()
            return decide(known)

        await self._view.change(check)

    async def _settle(self, since: datetime) -> None:
        """Wait until no process acts on the placement before the present phase."""
        left = since + self._timing.settled_after - self._view.now()
        self._report("waiting for other processes", 0, 0)
        await self._clock.sleep(left)

    async def _copy_resting(self) -> None:
        """Copy jobs while the tenant works. Few of them change before it is frozen."""
        total, done = await self._source.count(self._tenant), 0
        async for records in self._read(self._source):
            resting = [each for each in records if not _is_running(each)]
            await self._load(resting)
            done += len(records)
            self._report("copying while the tenant works", done, total)
            await self._renew()

    async def _copy_rest(self) -> int:
        """Copy everything as it is now; how many jobs the tenant has."""
        for _ in range(MOST_ROUNDS):
            is_whole = await self._copy_changed()
            await self._remove_strangers(is_certain=not is_whole)
            is_whole &= await self._copy_running()
            job_count = await self._source.count(self._tenant)
            if is_whole and job_count == await self._target.count(self._tenant):
                return job_count
        raise MoveConflictError(
            f'The jobs of tenant "{self._tenant}" keep changing although it is frozen',
            {"tenant": self._tenant, "target": self._claimed.target},
        )

    async def _copy_changed(self) -> bool:
        """Copy what has changed since the first copy; whether the target has it all now."""
        is_whole, done, total = True, 0, await self._source.count(self._tenant)
        async for records in self._read(self._source):
            is_whole &= await self._make_equal([each for each in records if not _is_running(each)])
            await self._renew()
            done += len(records)
            self._report("copying what has changed", done, total)
        return is_whole

    async def _copy_running(self) -> bool:
        """Copy running jobs, with leases that last at least as long as their holders know."""
        cursor, wanted, is_whole = None, JobFilter(status=JobStatus.RUNNING), True
        while True:
            page = await self._source.find(self._tenant, wanted, cursor, PAGE)
            is_whole &= await self._make_equal([await self._with_attempts(it) for it in page.items])
            await self._renew()
            cursor = page.next_cursor
            if cursor is None:
                return is_whole

    async def _with_attempts(self, job: Job) -> KeptJob:
        attempts = await self._source.attempts(self._tenant, job.id)
        if job.lease is not None:
            lease = replace(job.lease, until=job.lease.until + LEASE_MARGIN)
            job = replace(job, lease=lease)
        return KeptJob(job, tuple(attempts))

    async def _make_equal(self, records: Sequence[Record]) -> bool:
        """Have the target hold these records as they are; False if it would not take one.

        It refuses a job whose idempotency key belongs to one that the source no longer has.
        """
        jobs = {each.job.id: each.job for each in records if isinstance(each, KeptJob)}
        known = await self._target.get(self._tenant, list(jobs))
        await self._delete(self._target, [each for each in known if known[each] != jobs[each]])
        missing = [
            each
            for each in records
            if isinstance(each, KeptJob) and known.get(each.job.id) != each.job
        ]
        await self._load([each for each in records if not isinstance(each, KeptJob)])
        return await self._load(missing) == len(missing)

    async def _remove_strangers(self, *, is_certain: bool) -> None:
        """Remove from the target what the source no longer has."""
        counts = [await each.count(self._tenant) for each in (self._source, self._target)]
        if not is_certain and counts[1] <= counts[0]:
            return
        async for records in self._read(self._target):
            ids = [each.job.id for each in records if isinstance(each, KeptJob)]
            known = await self._source.get(self._tenant, ids)
            await self._delete(self._target, [each for each in ids if each not in known])
            await self._renew()

    async def _remove_source(self) -> None:
        """Remove the copies that are left on the source; unreadable jobs stay."""
        if await self._source.count(self._tenant) > self._move.job_count:
            await self._rescue_late_jobs()
        total, done = self._move.job_count, 0
        async for records in self._read(self._source):
            ids = [each.job.id for each in records if isinstance(each, KeptJob)]
            await self._delete(self._source, ids)
            await self._renew()
            done += len(ids)
            self._report("removing the source", done, total)

    async def _rescue_late_jobs(self) -> None:
        """Copy jobs that a call inserted on the source long after it was begun.

        It takes a call that was under way for more than the time that movers wait. A job that has
        ended on the target and was removed there cannot be told from them, and may run again.
        """
        async for records in self._read(self._source):
            fresh = [
                each for each in records if isinstance(each, KeptJob) and not each.job.last_token
            ]
            await self._load(fresh)

    async def _load(self, records: Sequence[Record]) -> int:
        """How many of them the target did not have."""
        if not records:
            return 0
        self._check_claim()
        return await self._target.load(records, self._view.now())

    async def _delete(self, shard: OpenStore, job_ids: Collection[JobId]) -> None:
        """Remove jobs, after their dependents on that shard.

        A job stays if an unreadable one depends on it.
        """
        tried: set[JobId] = set()
        waiting = [set(job_ids)] if job_ids else []
        while waiting:
            self._check_claim()
            stayed = await shard.erase(self._tenant, waiting.pop(), self._view.now())
            found = await shard.find_dependents(self._tenant, stayed, PAGE) if stayed else ()
            dependents = {job.id for job in found} - tried
            if dependents:
                tried |= dependents
                waiting += [set(stayed), dependents]

    async def _read(self, shard: OpenStore) -> AsyncIterator[list[KeptJob | UnreadableJob]]:
        """The tenant's jobs on a shard, portion by portion."""
        cursor: str | None = None
        while True:
            portion = await shard.dump(cursor, PORTION)
            yield [
                each
                for each in portion.records
                if not isinstance(each, KeptDocument) and tenant_of(each) == self._tenant
            ]
            cursor = portion.cursor
            if cursor is None:
                return


def _is_running(record: Record) -> bool:
    return isinstance(record, KeptJob) and record.job.status is JobStatus.RUNNING
