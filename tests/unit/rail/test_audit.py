"""Who did what to whose jobs."""

from datetime import UTC, datetime

import pytest

from rota.errors import StoreError
from rota.rail import Rail, read_audit
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.clause("T-33", "T-30")
async def test_each_tenant_has_a_log_of_its_own_in_the_order_of_time(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    other = Rail(store, "guild", clock=clock)
    job_ids = []
    for each in (rail, other, rail):
        job_id = await each.schedule_once("a", {}, run_at=NOW)
        await each.cancel(job_id, who="ada", why="half of a pair: \ud800")
        job_ids.append(job_id)
        await clock.advance(NOW - NOW.replace(second=0, minute=0, hour=11))
    entries = [entry async for entry in read_audit(store, "guild-7")]
    assert [entry.job_ids[0] for entry in entries] == [job_ids[0], job_ids[2]]
    assert entries[0].why == "half of a pair: \\ud800"
    assert entries[0].details == {"endsSeries": True}
    assert len([entry async for entry in read_audit(store, "guild")]) == 1


async def test_a_damaged_entry_is_not_passed_over(store: MemoryStore) -> None:
    await store.write_all([DocumentWrite("audit", "guild-7/1", None, b"{}")])
    with pytest.raises(StoreError, match="Audit entry guild-7/1 cannot be read"):
        [entry async for entry in read_audit(store, "guild-7")]
