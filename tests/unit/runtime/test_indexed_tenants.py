"""Which tenants are indexed."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from rota.runtime.search_index import KnownTenants
from rota.runtime.wiring import open_store
from rota.stores.protocol import DocumentWrite
from rota.telemetry.tenant_stats import TENANTS, TenantStats, encode_tenants, key_of_hour
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def list_owners() -> Collection[str]:
    return ["default"]


async def test_tenants_without_a_token_are_indexed_once_they_have_run_jobs() -> None:
    clock = VirtualClock(NOW)
    async with await open_store("memory://") as store:
        known = KnownTenants(store, clock, list_owners)

        async def run_jobs_of(tenant: str, at: datetime) -> None:
            body = encode_tenants([TenantStats(tenant, 5, 0, 0, 0, 10.0, 1.0, 5)])
            await store.write_all([DocumentWrite(TENANTS, key_of_hour(at), None, body)])

        assert await known.list() == {"default"}
        await run_jobs_of("acme", NOW - timedelta(days=5))
        assert await known.list() == {"default"}  # later turns read the last hour only
        again = KnownTenants(store, clock, list_owners)
        assert await again.list() == {"default", "acme"}
        await run_jobs_of("globex", NOW)
        assert await known.list() == {"default", "globex"}
        await clock.advance(30 * HOUR)
        assert await known.list() == {"default", "globex"}
