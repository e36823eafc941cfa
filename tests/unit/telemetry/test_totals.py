"""The totals of all workers on a store."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.telemetry.test_counters import failed, settled, stalled

from rota.events import Event, JobsLeased
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.telemetry import totals
from rota.telemetry.counters import OTHER
from rota.telemetry.fleet_metrics import FleetMetrics
from rota.telemetry.metrics import Metrics
from rota.telemetry.stats import STATS
from rota.telemetry.stats_recorder import StatsRecorder
from rota.telemetry.totals import TOTALS, FleetTotals, read_totals
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
EVENTS = (
    JobsLeased(worker="w", count=4),
    settled(),
    settled(),
    failed("dlq"),
    failed(err_code="NoHandler"),
    stalled(),
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def record(store: MemoryStore, events: Iterable[Event]) -> None:
    """A process that lives for these events."""
    recorder = StatsRecorder(store, VirtualClock(NOW))
    for event in events:
        recorder.observe(event)
    await recorder.flush()


def as_kind(event: Event, kind: str) -> Event:
    given = {name: getattr(event, name) for name in event.__struct_fields__}
    return type(event)(**given | {"kind": kind})


async def test_the_totals_of_processes_that_are_gone_are_kept(store: MemoryStore) -> None:
    await record(store, EVENTS)
    before = (await read_totals(store)).counts()
    await record(store, [settled()])
    assert before == {
        "jobs.picked": 4,
        "jobs.succeeded": 2,
        "jobs.failed": 2,
        "jobs.deferred": 0,
        "jobs.dlq": 1,
        "jobs.stalled": 1,
    }
    after = await read_totals(store)
    assert after.counts() == before | {"jobs.succeeded": 3}
    assert (after.outcomes().handler.count, after.outcomes().wait.count) == (4, 5)


async def test_a_server_shows_what_the_processes_show_of_themselves(store: MemoryStore) -> None:
    own, fleet = CollectorRegistry(), CollectorRegistry()
    metrics, collector = Metrics(own), FleetMetrics(fleet)
    for event in EVENTS:
        metrics.observe(event)
    await record(store, EVENTS)
    collector.show(await read_totals(store), 1)
    shown = set(generate_latest(fleet).decode().splitlines())
    wanted = [
        line
        for line in generate_latest(own).decode().splitlines()
        if line.startswith(("rota_jobs", "rota_handler", "rota_lease")) and "_created" not in line
    ]
    assert wanted
    assert [line for line in wanted if line not in shown] == []
    assert "rota_workers 1.0" in shown


async def test_kinds_beyond_the_limit_are_added_up(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "MOST_SERIES", 2)
    for number in range(5):
        await record(store, [as_kind(settled(), f"kind-{number}")])
    found = {it.kind: it.succeeded for it in (await read_totals(store)).kinds}
    assert found == {"kind-0": 1, "kind-1": 1, OTHER: 3}


async def test_an_unreadable_document_is_begun_anew(store: MemoryStore) -> None:
    await store.write_each([DocumentWrite(STATS, TOTALS, None, b"not totals")])
    assert await read_totals(store) == FleetTotals()
    await record(store, [settled()])
    assert (await read_totals(store)).counts()["jobs.succeeded"] == 1
