"""Prometheus metrics of the pollers that report to a store."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rota.errors import MissingExtraError
from rota.fleet.pollers import PollerPresence

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise MissingExtraError("Prometheus metrics", "prometheus-client", "metrics") from error


class PollerMetrics(Collector):
    """Present pollers, and what each has done since it started."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pollers: Sequence[PollerPresence] = ()
        registry.register(self)

    def show(self, pollers: Sequence[PollerPresence]) -> None:
        self._pollers = pollers

    def collect(self) -> Iterator[Metric]:
        present = GaugeMetricFamily(
            "rota_pollers", "Pollers that report to the store.", labels=["source"]
        )
        for source, count in Counter(it.source for it in self._pollers).items():
            present.add_metric([source], count)
        yield present
        documents = CounterMetricFamily(
            "rota_poller_documents",
            "Documents that each present poller has processed, or failed to.",
            labels=["poller", "source", "outcome"],
        )
        for it in self._pollers:
            documents.add_metric([it.id, it.source, "processed"], it.processed_count)
            documents.add_metric([it.id, it.source, "failed"], it.failed_count)
        yield documents
