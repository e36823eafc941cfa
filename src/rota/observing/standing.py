"""How a store and the jobs of all tenants stand, as far as a store says so."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from rota.jobs import JobFilter, JobStatus
from rota.scheduler.keeping.ledger import SET_ASIDE
from rota.stores.inspection import StoreInspection
from rota.stores.jobs import JobStore, QueueDepth
from rota.stores.jobs.survey import is_dead

PAGE_SIZE = 100

_NO_TIME = timedelta(0)

Inspect = Callable[[], Awaitable[StoreInspection]]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A store as it was found at one moment.

    ``job_counts`` is by status, and holds every status. ``oldest_due_at`` is since when the job is
    due that has waited the longest; None when none is due. ``stalled_count`` are held under leases
    that have run out, and nobody has rescued them. ``dead_count`` are dead letters, of the tenants
    that were named or else of all. ``queues`` has each queue by itself, with all tenants together.
    ``pinned_by`` is who keeps the database from clearing away what is gone.
    """

    taken_at: datetime
    job_counts: Mapping[str, int]
    set_aside_count: int = 0
    oldest_due_at: datetime | None = None
    stalled_count: int = 0
    dead_count: int = 0
    queues: Sequence[QueueDepth] = ()
    pinned_by: str | None = None

    @property
    def oldest_due_for(self) -> timedelta:
        """How long the job that has waited the longest is due."""
        return _NO_TIME if self.oldest_due_at is None else self.taken_at - self.oldest_due_at


async def take_standing(
    store: JobStore, inspect: Inspect, now: datetime, tenants: Collection[str] = ()
) -> Standing:
    """Look at the store; nothing is changed.

    ``inspect`` is usually ``partial(inspect_store, url)``. It counts every job that is kept, so
    once a minute is often enough for a store that keeps millions.
    """
    return await complete_standing(store, await inspect(), now, tenants)


async def complete_standing(
    store: JobStore, inspection: StoreInspection, now: datetime, tenants: Collection[str] = ()
) -> Standing:
    """As ``take_standing``, when the store has been inspected already."""
    counts = inspection.job_counts or {}
    queues = await store.survey(now)
    due_since = [depth.oldest_due_at for depth in queues if depth.oldest_due_at is not None]
    all_dead_count = sum(depth.dead_count for depth in queues)
    return Standing(
        taken_at=now,
        job_counts={str(status): counts.get(status, 0) for status in JobStatus},
        set_aside_count=count_set_aside(inspection),
        oldest_due_at=min(due_since, default=None),
        stalled_count=sum(depth.stalled_count for depth in queues),
        dead_count=await _count_dead(store, tenants) if tenants else all_dead_count,
        queues=tuple(queues),
        pinned_by=inspection.pinned_by,
    )


def count_set_aside(inspection: StoreInspection) -> int:
    """Records of tasks and jobs that cannot be read."""
    return inspection.document_counts.get(SET_ASIDE, 0) + inspection.set_aside_job_count


async def _count_dead(store: JobStore, tenants: Collection[str]) -> int:
    return sum([await _count_dead_of(store, tenant) for tenant in sorted(set(tenants))])


async def _count_dead_of(store: JobStore, tenant: str) -> int:
    wanted, cursor, count = JobFilter(status=JobStatus.FAILED), None, 0
    while True:
        page = await store.find(tenant, wanted, cursor, PAGE_SIZE)
        count += sum(map(is_dead, page.items))
        cursor = page.next_cursor
        if cursor is None:
            return count
