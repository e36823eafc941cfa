"""What Prometheus is told: what workers of this process tell, and how the store stands."""

from datetime import datetime, timedelta

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest

from rota.errors import StoreError
from rota.stores.inspection import StoreInspection
from rota.stores.protocol import JobStore
from rota.telemetry.health import Inspect, StoreStatus, complete_store_status, read_store_status
from rota.telemetry.metrics import Metrics

LOOKED_AT_EVERY = timedelta(seconds=10)
"""However often it is scraped, the store is not asked more often."""

_NOT_INSPECTED = StoreInspection(address="", kind="")


class MetricsBoard:
    """The metrics of one server, in a registry of their own.

    Workers of the same process are measured by ``board.metrics.follow(worker.events)``.
    """

    def __init__(self, store: JobStore, inspect: Inspect | None = None) -> None:
        self._registry = CollectorRegistry()
        self.metrics = Metrics(self._registry)
        self._store = store
        self._inspect = inspect
        self._looked_at: datetime | None = None
        ProcessCollector(registry=self._registry)

    async def show(self, now: datetime) -> bytes:
        """Everything there is, as Prometheus reads it."""
        if self._looked_at is None or not now - LOOKED_AT_EVERY < self._looked_at <= now:
            self.metrics.show(await self._take_standing(now))
            self._looked_at = now
        return generate_latest(self._registry)

    async def _take_standing(self, now: datetime) -> StoreStatus | None:
        try:
            if self._inspect is not None:
                return await read_store_status(self._store, self._inspect, now)
            standing = await complete_store_status(self._store, _NOT_INSPECTED, now)
        except StoreError:
            return None  # which is a metric, too
        return msgspec.structs.replace(standing, job_counts={})
