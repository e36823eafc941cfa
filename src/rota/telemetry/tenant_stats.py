"""How busy each tenant is, by hour: one document for all tenants, so that they can be compared."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from rota.stores.documents import decode_body
from rota.stores.protocol import Document, DocumentStore
from rota.telemetry.counters import OTHER
from rota.telemetry.stats import MinuteStats, prune_before

TENANTS = "stats.tenants"
"""The collection. A key is the hour."""

MOST_TENANTS = 1_000
"""The number of tenants that an hour counts by themselves; the rest is ``other``."""

TENANTS_KEPT = timedelta(days=8)

_HOUR = timedelta(hours=1)


class TenantStats(msgspec.Struct, frozen=True, array_like=True):
    """The ended attempts of a tenant, and how long they waited and took in all."""

    tenant: str
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    stalled: int = 0
    handler_ms: float = 0.0
    wait_ms: float = 0.0
    started: int = 0

    @property
    def ended_count(self) -> int:
        return self.succeeded + self.failed + self.stalled

    @property
    def mean_wait_ms(self) -> float | None:
        return self.wait_ms / self.started if self.started else None


def stats_of(tenant: str, minute: MinuteStats) -> TenantStats:
    return TenantStats(
        tenant,
        minute.succeeded,
        minute.failed,
        minute.dead,
        minute.stalled,
        minute.handler.sum_ms,
        minute.wait.sum_ms,
        minute.wait.count,
    )


def add_tenants(kept: Iterable[TenantStats], more: Iterable[TenantStats]) -> list[TenantStats]:
    """Add tenant by tenant; beyond ``MOST_TENANTS`` of them as ``other``."""
    total = {it.tenant: it for it in kept}
    for each in more:
        name = each.tenant
        if name not in total and len(total) >= MOST_TENANTS:
            name = OTHER
        known = total.get(name) or TenantStats(name)
        sums = [getattr(known, it) + getattr(each, it) for it in TenantStats.__struct_fields__[1:]]
        total[name] = TenantStats(name, *sums)
    return list(total.values())


def key_of_hour(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H")


def encode_tenants(stats: Iterable[TenantStats]) -> bytes:
    return msgspec.json.encode([*stats])


def decode_tenants(document: Document | None) -> list[TenantStats]:
    """The tenants in the document; none when it is missing or unreadable."""
    return decode_body(document, list[TenantStats], [])


async def read_tenant_stats(
    store: DocumentStore, since: datetime, until: datetime
) -> list[TenantStats]:
    """All tenants with attempts that ended in these hours, the busiest first."""
    count = max(0, -(-(until - since) // _HOUR))
    keys = [key_of_hour(until - index * _HOUR) for index in range(count + 1)]
    documents = await store.read(TENANTS, keys)
    total: list[TenantStats] = []
    for document in documents.values():
        total = add_tenants(total, decode_tenants(document))
    return sorted(total, key=lambda it: (-it.ended_count, it.tenant))


async def prune_tenant_stats(store: DocumentStore, now: datetime) -> int:
    return await prune_before(store, TENANTS, key_of_hour(now - TENANTS_KEPT))
