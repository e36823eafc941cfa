"""How a store and the jobs of all tenants stand, as far as a store says so."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from rota.jobs import Job, JobFilter, JobStatus, rail_word
from rota.scheduler.keeping.ledger import SET_ASIDE
from rota.stores.inspection import StoreInspection
from rota.stores.jobs import JobStore

STALLED_LIMIT = 1_000
"""More stalled jobs than this are not counted: they are many enough."""

PAGE_SIZE = 100

_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = timedelta(0)

Inspect = Callable[[], Awaitable[StoreInspection]]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A store as it was found at one moment.

    ``job_counts`` is by status, and holds every status. ``oldest_due_at`` is since when the job is
    due that has waited the longest; None when none is due. ``stalled_count`` are held under leases
    that have run out, and nobody has rescued them; it stops at ``STALLED_LIMIT``.
    ``dead_count`` are dead letters, of the tenants that were named; None when none was.
    """

    taken_at: datetime
    job_counts: Mapping[str, int]
    set_aside_count: int = 0
    oldest_due_at: datetime | None = None
    stalled_count: int = 0
    dead_count: int | None = None

    @property
    def failed_count(self) -> int:
        """All that have FAILED: dead letters, and those discarded or cancelled."""
        return self.job_counts.get(JobStatus.FAILED, 0)

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
    # Asked from before all jobs on, the first instant at which one is due is that of the oldest.
    first_due_at = await store.next_due_at(_BEFORE_ALL)
    stalled = await store.find_expired(now, STALLED_LIMIT)
    return Standing(
        taken_at=now,
        job_counts={str(status): counts.get(status, 0) for status in JobStatus},
        set_aside_count=count_set_aside(inspection),
        oldest_due_at=first_due_at if first_due_at is not None and first_due_at <= now else None,
        stalled_count=len(stalled),
        dead_count=await _count_dead(store, tenants) if tenants else None,
    )


def count_set_aside(inspection: StoreInspection) -> int:
    """Records of tasks and jobs that cannot be read."""
    return inspection.document_counts.get(SET_ASIDE, 0) + inspection.set_aside_job_count


def is_dead(job: Job) -> bool:
    """Whether the job is a dead letter."""
    return rail_word(job.status, job.ending) == "dlq"


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
