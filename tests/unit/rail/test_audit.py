"""Who did what to whose jobs."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from rota.errors import StoreError
from rota.policy.audit import read_audit_backwards
from rota.rail import Rail, read_audit
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


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


async def test_the_newest_are_read_without_reading_the_rest(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    for number in range(3):
        await rail.set_maintenance(False, who=f"number {number}")
        await clock.advance(MINUTE)
    met = [entry.who async for entry in read_audit_backwards(store, "guild-7")]
    assert met == ["number 2", "number 1", "number 0"]
    (first, *_), *_ = [page async for page in store.scan("audit:guild-7")]
    assert b"number 2" in first.body


async def test_entries_of_earlier_versions_are_read_after_the_others(
    rail: Rail, store: MemoryStore
) -> None:
    await rail.set_maintenance(False, who="ada")
    (new,) = [entry async for entry in read_audit(store, "guild-7")]
    for number, tenant in ((1, "guild-7"), (2, "guild-7"), (3, "guild-70")):
        entry = replace(new, id=f"0000000{number}", who=f"old {number}")
        body = msgspec.json.encode(entry)
        await store.write_all([DocumentWrite("audit", f"{tenant}/{entry.id}", None, body)])
    met = [entry.who async for entry in read_audit_backwards(store, "guild-7")]
    assert met == ["ada", "old 2", "old 1"]
    assert [entry.who async for entry in read_audit(store, "guild-7")] == met[::-1]


async def test_quiet_hours_record_who_set_them_and_why(rail: Rail, store: MemoryStore) -> None:
    await rail.set_quiet_hours("22:00", "07:00", "Europe/London", who="ada", why="sleep")
    await rail.set_quiet_hours(who="bob")
    entries = [entry async for entry in read_audit(store, "guild-7")]
    assert [(entry.who, entry.why) for entry in entries] == [("ada", "sleep"), ("bob", "")]


async def test_a_damaged_entry_is_not_passed_over(store: MemoryStore) -> None:
    await store.write_all([DocumentWrite("audit", "guild-7/1", None, b"{}")])
    with pytest.raises(StoreError, match="Audit entry guild-7/1 cannot be read"):
        [entry async for entry in read_audit(store, "guild-7")]
