"""The tenants of an installation, side by side: who is busy, who fails, who waits."""

from datetime import datetime, timedelta

import msgspec

from rota.clock.protocol import Clock
from rota.jobs.record import DEFAULT_TENANT
from rota.rail.jobs import RailStore
from rota.stores.protocol import QueueDepth
from rota.telemetry.tenant_stats import TenantStats, read_tenant_stats

MOST_SURVEYED = 50
"""The number of tenants whose queues are read; of the others only what ended is known."""

MOST_COMPARED = 100
"""The number of tenants in a comparison: the busiest."""

LONGEST_RANGE = timedelta(days=7)


class TenantReport(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant: what ended in the chosen hours, and what waits and runs now.

    ``busy_share`` is its share of all handlers' time. The counts of now are null for a tenant
    beyond the busiest 50.
    """

    tenant: str
    succeeded: int
    failed: int
    dead: int
    busy_seconds: float
    busy_share: float
    mean_wait_ms: float | None
    due_count: int | None = None
    running_count: int | None = None
    dead_letter_count: int | None = None
    oldest_due_at: datetime | None = None

    @property
    def failed_share(self) -> float:
        ended = self.succeeded + self.failed
        return self.failed / ended if ended else 0.0


async def compare_tenants(
    store: RailStore, clock: Clock, lasting: timedelta
) -> tuple[TenantReport, ...]:
    """The tenants with attempts that ended in this time, the busiest first; and the default one."""
    now = clock.now()
    found = await read_tenant_stats(store, now - min(lasting, LONGEST_RANGE), now)
    if not any(it.tenant == DEFAULT_TENANT for it in found):
        found.append(TenantStats(DEFAULT_TENANT))
    total = sum(it.handler_ms for it in found)
    reports = []
    busiest = sorted(found, key=lambda it: (-it.handler_ms, it.tenant))[:MOST_COMPARED]
    for place, stats in enumerate(busiest):
        depths = await store.survey(now, stats.tenant) if place < MOST_SURVEYED else None
        reports.append(_report(stats, total, depths))
    return tuple(reports)


def _report(stats: TenantStats, total_ms: float, depths: list[QueueDepth] | None) -> TenantReport:
    report = TenantReport(
        tenant=stats.tenant,
        succeeded=stats.succeeded,
        failed=stats.failed + stats.stalled,
        dead=stats.dead,
        busy_seconds=round(stats.handler_ms / 1000, 3),
        busy_share=stats.handler_ms / total_ms if total_ms else 0.0,
        mean_wait_ms=stats.mean_wait_ms,
    )
    if depths is None:
        return report
    due = [it.oldest_due_at for it in depths if it.oldest_due_at is not None]
    return msgspec.structs.replace(
        report,
        due_count=sum(it.due_count for it in depths),
        running_count=sum(it.running_count for it in depths),
        dead_letter_count=sum(it.dead_count for it in depths),
        oldest_due_at=min(due, default=None),
    )
