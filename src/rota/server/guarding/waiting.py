"""How many jobs of a tenant may wait before no more are taken."""

from datetime import datetime, timedelta
from typing import NamedTuple

from rota.clock.protocol import Clock
from rota.errors import QuotaExceededError
from rota.stores.protocol import JobStore

COUNTED_EVERY = timedelta(minutes=1)
RECOUNTED_EVERY = timedelta(seconds=1)
"""While there are too many: so soon it is noticed that there are not any more."""

MOST_REMEMBERED = 10_000

_SHARE = 10


class Count(NamedTuple):
    """How many jobs waited when they were counted, and how many were taken since."""

    waiting_count: int
    taken_count: int
    counted_at: datetime


class WaitingQuota:
    """Refuses jobs of a tenant that has too many waiting already, at next to no cost.

    Jobs are counted in the store once a minute, and whenever so many were taken here since that a
    tenth of what was free is used up. Several servers on one store may therefore together take more
    than the limit, by as much as they take in a minute.
    """

    def __init__(self, store: JobStore, clock: Clock, limit: int | None) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._counts: dict[str, Count] = {}

    async def admit(self, tenant: str, job_count: int = 1) -> None:
        """Count jobs that are about to be kept; QuotaExceededError when they are too many."""
        if self._limit is None:
            return
        now = self._clock.now()
        count = self._counts.get(tenant)
        if count is None or self._is_due(count, job_count, self._limit, now):
            count = Count(await self._count(tenant, now), 0, now)
        if count.waiting_count + count.taken_count + job_count > self._limit:
            self._keep(tenant, count)
            raise QuotaExceededError(
                f"Too many jobs are waiting: no more than {self._limit} may",
                "waiting_limit",
                int(RECOUNTED_EVERY.total_seconds()),
            )
        self._keep(tenant, count._replace(taken_count=count.taken_count + job_count))

    def _is_due(self, count: Count, job_count: int, limit: int, now: datetime) -> bool:
        free = max(0, limit - count.waiting_count)
        is_full = count.taken_count + job_count > free
        counted_for = now - count.counted_at
        if counted_for < timedelta():
            return True
        if is_full:
            return counted_for >= RECOUNTED_EVERY
        return counted_for >= COUNTED_EVERY or count.taken_count > free // _SHARE

    async def _count(self, tenant: str, now: datetime) -> int:
        depths = await self._store.survey(now, tenant)
        return sum(depth.due_count + depth.later_count for depth in depths)

    def _keep(self, tenant: str, count: Count) -> None:
        self._counts.pop(tenant, None)
        while len(self._counts) >= MOST_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[tenant] = count
