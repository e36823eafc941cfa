"""Quiet hours and maintenance, set through a rail."""

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.policy.gate_settings import Scope, ScopedMaintenance, TenantQuietHours
from rota.rail import Rail, read_audit
from rota.rail.settings import list_gates
from rota.stores.memory import MemoryStore

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def test_quiet_hours_are_set_and_cleared_for_the_rails_tenant(
    rail: Rail, store: MemoryStore
) -> None:
    await rail.set_quiet_hours("22:00", "07:00", "Europe/London", rest_days=[6])
    ((entry,), _) = await list_gates(store)
    assert isinstance(entry, TenantQuietHours)
    assert (entry.tenant, entry.hours.start, entry.hours.end) == ("guild-7", time(22), time(7))
    assert (entry.hours.zone, entry.hours.rest_days) == (ZoneInfo("Europe/London"), {6})
    await rail.set_quiet_hours(None)
    assert (await list_gates(store)).entries == ()


async def test_maintenance_is_switched_on_and_off_and_written_down(
    rail: Rail, store: MemoryStore
) -> None:
    await rail.set_maintenance(True, until=NOW, reason="upgrade", who="ada")
    ((entry,), _) = await list_gates(store)
    assert isinstance(entry, ScopedMaintenance)
    assert entry.scope == Scope(tenant="guild-7")
    assert [(each.until, each.reason, each.who) for each in entry.windows] == [
        (NOW, "upgrade", "ada")
    ]
    await rail.set_maintenance(False)
    assert (await list_gates(store)).entries == ()
    entries = [entry async for entry in read_audit(store, "guild-7")]
    assert {(entry.action, entry.details["isOn"]) for entry in entries} == {
        ("set_maintenance", True),
        ("set_maintenance", False),
    }


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"start": "22:00"}, "end"),
        ({"end": "22:00"}, "start"),
        ({"start": "22:00", "end": "07:00"}, "tz"),
        ({"start": "25:00", "end": "07:00", "tz": "UTC"}, "start"),
    ],
)
async def test_hours_that_cannot_be_are_refused_and_nothing_is_written(
    rail: Rail, store: MemoryStore, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        await rail.set_quiet_hours(**fields)
    assert refusal.value.details["field"] == field
    assert [entry async for entry in read_audit(store, "guild-7")] == []
