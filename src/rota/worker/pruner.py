"""Removes what is older than the retention rules say: jobs, audit entries and effects.

Every process of a store may run a pruner. One of them works at a time, and the progress document in
the store says which. Jobs are looked at in the order in which they ended, from a mark on: once for
each age that a rule names, and not again until a day has passed.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from rota.errors import StaleVersionError
from rota.events import EntriesPruned, JobsPruned
from rota.fleet.outage import StoreRetry
from rota.jobs.fields import LOWEST_ID
from rota.jobs.retention import FOREVER, Expiry, Keep, Retention, format_keep
from rota.policy.audit import list_audited, prune_audit
from rota.policy.once import prune_effects
from rota.policy.retention import (
    Marks,
    Progress,
    StoredProgress,
    read_progress,
    read_rules,
)
from rota.stores.protocol import EndedPlace
from rota.worker.settings import Resources

PRUNED_EVERY = timedelta(minutes=1)
PRUNED_AT_ONCE = 500
PAUSE = timedelta(milliseconds=100)
"""Between two batches, so that pruning does not keep the store busy."""

CLAIMED_FOR = timedelta(seconds=30)
"""How long other processes leave the work to the one that has begun it. Each batch renews it."""

RESTARTED_EVERY = timedelta(days=1)
SWEPT_EVERY = timedelta(days=1)


class Pruner:
    """Applies the stored rules and, where there is none, ``keep``."""

    def __init__(self, resources: Resources, keep: Keep) -> None:
        self._resources = resources
        self._keep = keep

    async def run(self) -> None:
        """Prune every minute or less, so that processes do not ask in step; until cancelled."""
        clock, random = self._resources.clock, self._resources.random
        retry = StoreRetry(self._resources.outage, clock, random)
        while True:
            await clock.sleep(PRUNED_EVERY * (0.5 + random.random() / 2))
            await retry.call(self.run_once)

    async def run_once(self) -> bool:
        """Take a turn; False if another process has just taken one, or a rule cannot be read.

        While a rule cannot be read nothing is removed: a wider rule might keep less.
        """
        store, clock = self._resources.store, self._resources.clock
        stored, now = await read_progress(store), clock.now()
        is_mine = stored.progress.by == self._resources.name
        if not is_mine and timedelta(0) < stored.progress.until - now <= CLAIMED_FOR:
            return False
        rules = await read_rules(store)
        if rules.damages:
            return False
        turn = _Turn(self._resources, rules.make_retention(self._keep), stored)
        try:
            await turn.take()
        except StaleVersionError:  # it took longer than the claim, and another process goes on
            return False
        return True


class _Turn:
    """One turn of one process."""

    def __init__(self, resources: Resources, retention: Retention, stored: StoredProgress) -> None:
        self._resources = resources
        self._retention = retention
        self._stored = stored
        self._marks = stored.progress.marks_of(retention, resources.clock.now(), RESTARTED_EVERY)

    async def take(self) -> None:
        await self._save(self._stored.progress)
        for age in self._retention.job_ages():
            await self._prune_jobs(age)
        now = self._resources.clock.now()
        if not timedelta(0) <= now - self._stored.progress.swept_at < SWEPT_EVERY:
            await self._prune_audit(now)
            await self._prune_effects(now)
            await self._save(replace(self._stored.progress, swept_at=now))

    async def _prune_jobs(self, age: timedelta) -> None:
        """Look at the jobs that have reached an age since the last turn, in batches."""
        clock, store = self._resources.clock, self._resources.store
        now = clock.now()
        before, expiry = _earlier(now, age), Expiry(self._retention, now)
        place, removed_count = self._marks.place_of(age), 0
        while before is not None:
            pruned = await store.prune(before, PRUNED_AT_ONCE, expiry, place)
            removed_count += pruned.removed
            if not pruned.looked:
                break
            place = pruned.place or EndedPlace(before, LOWEST_ID)
            await self._save(self._stored.progress, self._marks.move(age, place), pruned.removed)
            if pruned.place is None:
                break
            await clock.sleep(PAUSE)
        if removed_count and before is not None and self._resources.events.wants(JobsPruned):
            self._resources.events.emit(JobsPruned(count=removed_count, ended_before=before))

    async def _prune_audit(self, now: datetime) -> None:
        store, count = self._resources.store, 0
        for tenant in await list_audited(store):
            before = _earlier(now, self._retention.keep_for(tenant).audit)
            if before is not None:
                count += await prune_audit(store, tenant, before)
        self._emit("audit", count)

    async def _prune_effects(self, now: datetime) -> None:
        retention = self._retention
        count = await prune_effects(
            self._resources.store, lambda tenant: _earlier(now, retention.effects_for(tenant))
        )
        self._emit("effects", count)

    def _emit(self, source: str, count: int) -> None:
        if count and self._resources.events.wants(EntriesPruned):
            self._resources.events.emit(EntriesPruned(source=source, count=count))

    async def _save(
        self, progress: Progress, marks: Marks | None = None, removed_count: int = 0
    ) -> None:
        """Write the progress, and claim the work for a while more."""
        now = self._resources.clock.now()
        self._marks = marks or self._marks
        total = progress.removed_count + removed_count
        saved = replace(
            progress,
            by=self._resources.name,
            until=now + CLAIMED_FOR,
            default=format_keep(self._retention.default),
            marks=progress.with_marks(self._retention, self._marks),
            removed_at=now if removed_count else progress.removed_at,
            removed_count=total,
        )
        write = self._stored.write(saved)
        await self._resources.store.write_all([write])
        self._stored = StoredProgress(saved, write.next_version)


def _earlier(now: datetime, age: timedelta | None) -> datetime | None:
    """The instant that long ago; None if there is none, or the age is forever."""
    if age is None or age == FOREVER:
        return None
    try:
        return now - age
    except OverflowError:
        return None
