"""The gates of all tenants, as they are kept."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError, StaleVersionError
from rota.policy.gate_settings import (
    EVERYTHING,
    GATE_CHANGES,
    GATES,
    LATEST_CHANGE,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
)
from rota.policy.gates import Maintenance, Open
from rota.policy.quiet_hours import QuietHours
from rota.policy.watch import GateWatch
from rota.rail.settings import (
    PLANNED_LIMIT,
    clear_maintenance,
    clear_quiet_hours,
    list_gates,
    plan_maintenance,
    set_maintenance,
    set_quiet_hours,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import a_job

NOW = datetime(2026, 1, 5, 23, tzinfo=UTC)
HOUR = timedelta(hours=1)
NIGHT = QuietHours(time(22), time(7), ZoneInfo("Europe/London"))
WINDOW = Maintenance(from_at=NOW, until=NOW + HOUR, reason="disks", who="ops")
ACME = Scope(tenant="acme")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_quiet_hours_are_set_replaced_and_cleared(store: MemoryStore) -> None:
    await set_quiet_hours(store, "acme", NIGHT)
    assert await list_gates(store) == ((TenantQuietHours("acme", NIGHT),), ())
    other = QuietHours(time(20), time(8), NIGHT.zone)
    await set_quiet_hours(store, "acme", other)
    assert await list_gates(store) == ((TenantQuietHours("acme", other),), ())
    await clear_quiet_hours(store, "acme")
    await clear_quiet_hours(store, "acme")
    assert await list_gates(store) == ((), ())


async def test_maintenance_is_set_replaced_and_cleared(store: MemoryStore) -> None:
    for scope in (EVERYTHING, ACME, Scope(queue="mail")):
        await set_maintenance(store, scope, Maintenance())
        await set_maintenance(store, scope, WINDOW)
    kept = (await list_gates(store)).entries
    scopes = (EVERYTHING, Scope(queue="mail"), ACME)
    assert kept == tuple(ScopedMaintenance(scope, (WINDOW,)) for scope in scopes)
    for scope in scopes:
        await clear_maintenance(store, scope)
        await clear_maintenance(store, scope)
    assert await list_gates(store) == ((), ())


async def test_maintenance_can_be_planned_beside_other_windows(store: MemoryStore) -> None:
    later = Maintenance(from_at=NOW + 3 * HOUR, until=NOW + 4 * HOUR)
    await plan_maintenance(store, ACME, WINDOW, NOW)
    await plan_maintenance(store, ACME, later, NOW)
    assert (await list_gates(store)).entries == (ScopedMaintenance(ACME, (WINDOW, later)),)
    await plan_maintenance(store, ACME, Maintenance(), NOW + HOUR)
    assert (await list_gates(store)).entries == (ScopedMaintenance(ACME, (later, Maintenance())),)


async def test_the_number_of_planned_windows_is_bounded(store: MemoryStore) -> None:
    for _ in range(PLANNED_LIMIT):
        await plan_maintenance(store, ACME, WINDOW, NOW)
    with pytest.raises(InvalidInputError, match="window is one too many: 100"):
        await plan_maintenance(store, ACME, WINDOW, NOW)
    await plan_maintenance(store, ACME, Maintenance(), NOW + HOUR)
    assert (await list_gates(store)).entries == (ScopedMaintenance(ACME, (Maintenance(),)),)


async def test_a_damaged_document_is_listed_and_can_be_replaced(store: MemoryStore) -> None:
    broken = DocumentWrite(GATES, "maintenance/tenant/acme", None, b"{")
    await store.write_all([broken])
    await set_quiet_hours(store, "acme", NIGHT)
    found = await list_gates(store)
    assert [damage.key for damage in found.damages] == [broken.key]
    assert found.entries == (TenantQuietHours("acme", NIGHT),)
    await plan_maintenance(store, ACME, WINDOW, NOW)
    assert (await list_gates(store)).damages == ()


@pytest.mark.parametrize("tenant", ["", "a/b", "a b"])
async def test_a_wrong_tenant_is_refused_before_anything_is_written(
    store: MemoryStore, tenant: str
) -> None:
    with pytest.raises(InvalidInputError, match="tenant"):
        await set_quiet_hours(store, tenant, NIGHT)
    with pytest.raises(InvalidInputError, match="tenant"):
        await clear_quiet_hours(store, tenant)
    assert await store.read(GATE_CHANGES, [LATEST_CHANGE]) == {}


async def test_every_worker_learns_of_changes_that_were_made_at_once(store: MemoryStore) -> None:
    watch = GateWatch(store)
    await watch.refresh(NOW)
    tenants = [f"tenant-{number}" for number in range(20)]
    changes = [set_quiet_hours(store, tenant, NIGHT) for tenant in tenants]
    await asyncio.gather(*changes)
    await watch.refresh(NOW + timedelta(seconds=2))
    verdicts = [watch.judge(a_job(tenant=each), NOW, notifies=True) for each in tenants]
    assert Open() not in verdicts


class OvertakenStore(MemoryStore):
    """Somebody else changes the gate between every reading and writing of it."""

    overtaken_count = 0

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        found = await super().read(collection, keys)
        if collection == GATES and self.overtaken_count:
            self.overtaken_count -= 1
            expected = found["maintenance"].version if found else None
            await self.write_each([DocumentWrite(GATES, "maintenance", expected, b"{}")])
        return found


async def test_a_change_that_is_overtaken_is_made_again() -> None:
    store = OvertakenStore()
    store.overtaken_count = 5
    await set_maintenance(store, EVERYTHING, WINDOW)
    assert (await list_gates(store)).entries == (ScopedMaintenance(EVERYTHING, (WINDOW,)),)


async def test_a_change_that_is_always_overtaken_is_given_up() -> None:
    store = OvertakenStore()
    store.overtaken_count = 1000
    with pytest.raises(StaleVersionError, match="maintenance"):
        await set_maintenance(store, EVERYTHING, WINDOW)
