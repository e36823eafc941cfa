"""Prometheus metrics of one process: from its events, and from samples of its store."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias
from wsgiref.simple_server import WSGIServer

from rota.errors import MissingExtraError
from rota.events import (
    ChildEnded,
    ChildStarted,
    Event,
    EventEmitter,
    JobEvent,
    JobSettled,
    JobsLeased,
    RequestRefused,
    StoreFailed,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
)
from rota.stores.protocol import QueueDepth
from rota.stores.survey import add_depths
from rota.telemetry.counters import COUNTERS, BoundedLabel, Counter, counted_by, timed_by
from rota.telemetry.health import StoreStatus
from rota.telemetry.stats import BOUNDS_MS, FIELDS

STATES = ("due", "later", "running", "stalled", "dead")
"""The gauges of each queue. Stalled jobs are part of the running ones."""

IDLE = QueueDepth(queue="")
"""A queue without jobs."""

try:
    import prometheus_client as prometheus
except ModuleNotFoundError as error:
    raise MissingExtraError("Prometheus metrics", "prometheus-client", "metrics") from error

Labels: TypeAlias = tuple[str, ...]


def make_process_registry() -> prometheus.CollectorRegistry:
    """A registry with the memory, the CPU time and the open files of this process."""
    registry = prometheus.CollectorRegistry()
    prometheus.ProcessCollector(registry=registry)
    return registry


def serve_registry(registry: prometheus.CollectorRegistry, host: str, port: int) -> WSGIServer:
    """Answer Prometheus in a thread of its own. Port 0 takes any free port."""
    server, _ = prometheus.start_http_server(port, host, registry)
    return server


LABEL_LIMIT = 100
"""The number of distinct values of a label before further ones become ``other``."""

_SECOND = timedelta(seconds=1)
_MILLISECONDS = 1000

BUCKETS = tuple(bound / _MILLISECONDS for bound in BOUNDS_MS)
"""The upper bounds of the histograms in seconds: those of the stored statistics."""


class Metrics:
    """All metrics of one process in one registry: worker events and samples of the store.

    Call ``metrics.follow(worker.events)`` for each worker of the process, and
    ``metrics.show(status)`` after each sample of the store, or let a ``Sampler`` do it.
    ``by_tenant`` adds a tenant label to counters; use it only with few tenants.
    """

    def __init__(
        self,
        registry: prometheus.CollectorRegistry | None = None,
        *,
        label_limit: int = LABEL_LIMIT,
        by_tenant: bool = False,
    ) -> None:
        self._registry = prometheus.REGISTRY if registry is None else registry
        self._by_tenant = by_tenant
        self._kinds, self._queues, self._tenants = (BoundedLabel(label_limit) for _ in range(3))
        self._jobs = _JobMetrics(self._registry, (*LABELS, "tenant") if by_tenant else LABELS)
        self._process = ProcessMetrics(self._registry)
        self._store: StoreMetrics | None = None

    def follow(self, events: EventEmitter) -> Callable[[], None]:
        """Measure events from now on. The returned function stops measuring."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Measure one event."""
        if isinstance(event, JobEvent):
            counted = counted_by(event)
            if counted or isinstance(event, JobSettled):
                self._jobs.add(event, counted, self._labels_of(event))
        elif isinstance(event, JobsLeased):
            self._jobs.picked.inc(event.count)
        elif isinstance(event, WorkerStarted):
            self._jobs.workers.inc()
        elif isinstance(event, WorkerStopped):
            self._jobs.workers.dec()
        else:
            self._process.observe(event)

    def show(self, status: StoreStatus | None) -> None:
        """Set the gauges from a store sample; None when the store failed."""
        if self._store is None:  # a process that never samples has no gauges that say 0
            self._store = StoreMetrics(self._registry, self._process, self._queues)
        self._store.show(status)

    def _labels_of(self, event: JobEvent) -> Labels:
        kind, queue = self._kinds(event.kind), self._queues(event.queue)
        return (kind, queue, self._tenants(event.tenant)) if self._by_tenant else (kind, queue)


class ProcessMetrics:
    """Child processes, refused requests, and whether the store answers this process."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self.store_up = prometheus.Gauge(
            "rota_store_up", "Whether the store answered when last asked.", registry=registry
        )
        refused = "Requests that the server refused, by reason."
        self._refused = prometheus.Counter(
            "rota_requests_refused", refused, ["reason"], registry=registry
        )
        self._children = prometheus.Gauge(
            "rota_child_processes", "Child processes of the workers here.", registry=registry
        )
        self._ended_children = prometheus.Counter(
            "rota_child_processes_ended",
            "Child processes that ended: recycled, stopped, killed or crashed.",
            ["reason"],
            registry=registry,
        )
        self.store_up.set(1)

    def observe(self, event: Event) -> None:
        if isinstance(event, RequestRefused):
            self._refused.labels(event.reason).inc()
        elif isinstance(event, ChildStarted):
            self._children.inc()
        elif isinstance(event, ChildEnded):
            self._children.dec()
            self._ended_children.labels(event.reason).inc()
        elif isinstance(event, StoreFailed | StoreRecovered):
            self.store_up.set(isinstance(event, StoreRecovered))


class _JobMetrics:
    """The jobs and workers of one process, by its events."""

    def __init__(self, registry: prometheus.CollectorRegistry, labels: Labels) -> None:
        self.picked = prometheus.Counter(
            prometheus_name("jobs.picked"), TEXTS["jobs.picked"], registry=registry
        )
        self.workers = prometheus.Gauge(
            WORKERS, "Workers that run in this process.", registry=registry
        )
        self._counters = {
            name: prometheus.Counter(prometheus_name(name), TEXTS[name], labels, registry=registry)
            for name in LABELLED
        }
        self._series: dict[Labels, _Series] = {}
        self._durations, self._waits = (
            prometheus.Histogram(name, text, labels, buckets=BUCKETS, registry=registry)
            for name, text in TIMINGS.values()
        )

    def add(self, event: JobEvent, counted: tuple[Counter, ...], labels: Labels) -> None:
        series = self._series.get(labels)
        if series is None:  # looking it up in each metric costs more than everything else
            duration, wait = self._durations.labels(*labels), self._waits.labels(*labels)
            series = self._series[labels] = _Series({}, duration, wait)
        for name in counted:
            counter = series.counters.get(name)
            if counter is None:
                counter = series.counters[name] = self._counters[name].labels(*labels)
            counter.inc()
        timed = timed_by(event)
        if timed is None:
            return
        series.wait.observe(timed.wait_ms / _MILLISECONDS)
        if timed.handler_ms is not None:
            series.duration.observe(timed.handler_ms / _MILLISECONDS)


class _Series(NamedTuple):
    """The metrics of one label set. A counter is created by its first event."""

    counters: dict[Counter, prometheus.Counter]
    duration: prometheus.Histogram
    wait: prometheus.Histogram


class StoreMetrics:
    """The state of the store, by samples. A queue that became empty is shown as empty."""

    def __init__(
        self,
        registry: prometheus.CollectorRegistry,
        process: ProcessMetrics,
        label: BoundedLabel | None = None,
    ) -> None:
        self._label = label or BoundedLabel(LABEL_LIMIT)
        self._shown: set[str] = set()
        self._store_up = process.store_up
        gauge = partial(prometheus.Gauge, registry=registry)
        self._jobs = gauge("rota_jobs", "Jobs on the store, by status.", ["status"])
        self._oldest_due = gauge(
            "rota_oldest_due_seconds", "How long the oldest due job has been due."
        )
        self._stalled = gauge("rota_stalled_jobs", "Jobs whose leases have run out.")
        self._set_aside = gauge("rota_set_aside_records", "Records that cannot be read.")
        self._depth = gauge(
            "rota_queue_depth",
            "Jobs in each queue: due, later, running, those of them stalled, and dead letters.",
            ["queue", "state"],
        )
        self._queue_oldest_due = gauge(
            "rota_queue_oldest_due_seconds",
            "How long the job has been due that waits in the queue for the longest time.",
            ["queue"],
        )

    def show(self, status: StoreStatus | None) -> None:
        """Set the gauges; None when the store failed."""
        self._store_up.set(status is not None)
        if status is None:
            return
        for name, count in status.job_counts.items():
            self._jobs.labels(name).set(count)
        self._oldest_due.set(status.oldest_due_for / _SECOND)
        self._stalled.set(status.stalled_count)
        self._set_aside.set(status.set_aside_count)
        self._show_queues(status.queues, status.taken_at)

    def _show_queues(self, queues: Iterable[QueueDepth], now: datetime) -> None:
        depths = add_depths(queues, self._label)
        self._shown |= depths.keys()
        for label in self._shown:
            depth = depths.get(label, IDLE)
            for state in STATES:
                self._depth.labels(label, state).set(getattr(depth, f"{state}_count"))
            due_at = now if depth.oldest_due_at is None else depth.oldest_due_at
            self._queue_oldest_due.labels(label).set((now - due_at) / _SECOND)


TEXTS: dict[Counter, str] = {
    "jobs.picked": "Jobs leased by workers.",
    "jobs.succeeded": "Attempts that succeeded.",
    "jobs.failed": "Attempts that failed.",
    "jobs.deferred": "Jobs that a gate held back.",
    "jobs.dlq": "Jobs that had their last attempt: dead letters.",
    "jobs.stalled": "Jobs whose leases ran out, and that were taken from their workers.",
}


LABELLED = tuple(FIELDS)
"""The counters that have labels: jobs are leased in batches, so the picked ones have none."""

TIMINGS = {
    "handler": ("rota_handler_duration_seconds", "How long handlers took."),
    "wait": ("rota_lease_wait_seconds", "From when jobs were due until they were leased."),
}
WORKERS = "rota_workers"
LABELS: Labels = ("kind", "queue")


def prometheus_name(name: Counter) -> str:
    """The Prometheus name of a specification 3 counter, without ``_total``."""
    if name not in COUNTERS:
        raise KeyError(name)
    return f"rota_{name.replace('.', '_')}"
