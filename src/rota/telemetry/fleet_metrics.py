"""Prometheus metrics of the whole installation: all workers, all pollers, and what is watched."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate, islice

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from rota.fleet.presence import PollerPresence
from rota.telemetry.metrics import (
    BUCKETS,
    LABEL_LIMIT,
    LABELLED,
    LABELS,
    TEXTS,
    TIMINGS,
    WORKERS,
    Labels,
    prometheus_name,
)
from rota.telemetry.notices import Notice, NoticeConcern, Report
from rota.telemetry.stats import FIELDS, DurationStats
from rota.telemetry.totals import FleetTotals

_MILLISECONDS = 1000


class FleetMetrics(Collector):
    """The totals of all workers on the store, under the names that a process has for its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._totals = FleetTotals()
        self._worker_count = 0
        registry.register(self)

    def show(self, totals: FleetTotals, worker_count: int) -> None:
        self._totals, self._worker_count = totals, worker_count

    def collect(self) -> Iterator[Metric]:
        kinds = self._totals.kinds
        yield CounterMetricFamily(
            prometheus_name("jobs.picked"), TEXTS["jobs.picked"], self._totals.picked
        )
        for name in LABELLED:
            counter = CounterMetricFamily(prometheus_name(name), TEXTS[name], labels=LABELS)
            for each in kinds:
                counter.add_metric((each.kind, each.queue), getattr(each, FIELDS[name]))
            yield counter
        for field, (title, text) in TIMINGS.items():
            timing = HistogramMetricFamily(title, text, labels=LABELS)
            for each in kinds:
                _add_durations(timing, (each.kind, each.queue), getattr(each, field))
            yield timing
        yield GaugeMetricFamily(WORKERS, "Workers that are present.", self._worker_count)


def _add_durations(family: HistogramMetricFamily, labels: Labels, stats: DurationStats) -> None:
    bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
    buckets = [*zip(bounds, accumulate(stats.buckets), strict=True)]
    family.add_metric(labels, buckets, stats.sum_ms / _MILLISECONDS)


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


class NoticeMetrics:
    """What the processes watch for. A condition has a series only while it lasts."""

    def __init__(self, registry: CollectorRegistry, limit: int = LABEL_LIMIT) -> None:
        self._limit = limit
        self._gauges = {
            concern: Gauge(name, text, labels, registry=registry)
            for concern, (name, text, labels) in _NOTICE_GAUGES.items()
        }
        self._watched_at = Gauge(
            "rota_watch_timestamp_seconds",
            "When a process last looked for held jobs, troubled tasks and missed successes.",
            registry=registry,
        )

    def show(self, report: Report, now: datetime) -> None:
        """Show the latest report, as of now."""
        self._watched_at.set(report.taken_at.timestamp())
        for concern, gauge in self._gauges.items():
            gauge.clear()
            found = (it for it in report.notices if it.concern == concern)
            for notice in islice(found, self._limit):
                value = notice.count if concern in _COUNTED else notice.seconds_at(now)
                gauge.labels(**_label_notice(notice, _NOTICE_GAUGES[concern][2])).set(value)


_NOTICE_GAUGES: dict[NoticeConcern, tuple[str, str, tuple[str, ...]]] = {
    "held": (
        "rota_held_jobs",
        "Jobs that maintenance or a paused series holds back.",
        ("source", "tenant", "name"),
    ),
    "task_late": (
        "rota_task_late_seconds",
        "How long a declarative task has been due without a start.",
        ("task",),
    ),
    "task_fails": (
        "rota_task_failed_runs",
        "How often a declarative task has failed since its last success.",
        ("task",),
    ),
    "overdue": (
        "rota_success_overdue_seconds",
        "How long ago a series or task should have succeeded: its dead-man switch has fired.",
        ("source", "tenant", "name"),
    ),
}
_COUNTED = frozenset({"held", "task_fails"})


def _label_notice(notice: Notice, names: tuple[str, ...]) -> dict[str, str]:
    values = {"source": notice.source, "tenant": notice.tenant, "name": notice.name}
    return {name: values.get(name, notice.name) for name in names}
