"""The metrics of one server: of its process, of its store, and of all workers on that store."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from rota.clock.protocol import Clock
from rota.errors import RotaError, StoreError
from rota.events import Event, EventEmitter
from rota.fleet.presence import list_pollers, list_workers
from rota.stores.inspection import StoreInspection
from rota.stores.opened import OpenStore
from rota.telemetry.fleet_metrics import FleetMetrics, NoticeMetrics, PollerMetrics
from rota.telemetry.health import Inspect, StoreStatus, complete_store_status, read_store_status
from rota.telemetry.metrics import ProcessMetrics, StoreMetrics, make_process_registry
from rota.telemetry.stats_recorder import StatsRecorder
from rota.telemetry.totals import FleetTotals, read_totals

SURVEYED_EVERY = timedelta(seconds=10)
"""The store is surveyed at most this often, however often metrics are scraped."""

TOTALS_READ_EVERY = timedelta(seconds=1)
"""The totals of the workers are read at most this often: two small reads."""

_NOT_INSPECTED = StoreInspection(address="", kind="")


class ServerMetrics:
    """The metrics of one server in their own registry, and the events of the server itself.

    They show the whole installation: the store, and the totals of all workers on it. The workers of
    this process count with ``follow(worker.events)``.
    """

    def __init__(
        self,
        store: OpenStore,
        clock: Clock,
        inspect: Inspect | None = None,
        stats: StatsRecorder | None = None,
    ) -> None:
        self._registry = make_process_registry()
        self._parts = _make_parts(self._registry)
        self._stats = stats or StatsRecorder(store, clock)
        self.events = EventEmitter("rota.server")
        self.follow(self.events)
        self._store = store
        self._inspect = inspect
        self._surveyed_at: datetime | None = None
        self._totals_read_at: datetime | None = None

    def follow(self, events: EventEmitter) -> Callable[[], None]:
        """Count events from now on. The returned function stops counting."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Count one event."""
        self._stats.observe(event)
        self._parts.process.observe(event)

    async def show(self, now: datetime) -> bytes:
        """All metrics in the Prometheus text format."""
        if not _is_recent(self._surveyed_at, now, SURVEYED_EVERY):
            status = await self._read_status(now)
            self._parts.store.show(status)
            if status is not None and status.report is not None:
                self._parts.notices.show(status.report, now)
            with suppress(StoreError):  # the status says so
                self._parts.pollers.show(await list_pollers(self._store, now))
            self._surveyed_at = now
        if not _is_recent(self._totals_read_at, now, TOTALS_READ_EVERY):
            with suppress(RotaError):  # the status says so
                workers = await list_workers(self._store, now)
                self._parts.fleet.show(await self.read_totals(), len(workers))
                self._totals_read_at = now
        return generate_latest(self._registry)

    async def read_totals(self) -> FleetTotals:
        """The totals of all workers, with what this process has counted until now."""
        await self._stats.flush()
        return await read_totals(self._store)

    async def _read_status(self, now: datetime) -> StoreStatus | None:
        try:
            if self._inspect is not None:
                return await read_store_status(self._store, self._inspect, now)
            status = await complete_store_status(self._store, _NOT_INSPECTED, now)
        except StoreError:
            return None  # reported as a metric
        return msgspec.structs.replace(status, job_counts={})


class _Parts(NamedTuple):
    process: ProcessMetrics
    store: StoreMetrics
    fleet: FleetMetrics
    pollers: PollerMetrics
    notices: NoticeMetrics


def _make_parts(registry: CollectorRegistry) -> _Parts:
    process = ProcessMetrics(registry)
    store = StoreMetrics(registry, process)
    others = FleetMetrics(registry), PollerMetrics(registry), NoticeMetrics(registry)
    return _Parts(process, store, *others)


def _is_recent(at: datetime | None, now: datetime, within: timedelta) -> bool:
    """Whether ``at`` is not long before ``now``; a clock that was set back does not count."""
    return at is not None and now - within < at <= now
