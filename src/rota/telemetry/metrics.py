"""Prometheus metrics from events and store samples."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from rota.errors import MissingExtraError
from rota.events import (
    ChildEnded,
    ChildStarted,
    Event,
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
from rota.telemetry.counters import (
    COUNTERS,
    BoundedLabel,
    Counter,
    EventSource,
    counted_by,
    timed_by,
)
from rota.telemetry.health import StoreStatus
from rota.telemetry.notices import Notice, NoticeConcern, Report

DEPTHS: Mapping[str, Callable[[QueueDepth], int]] = {
    "due": attrgetter("due_count"),
    "later": attrgetter("later_count"),
    "running": attrgetter("running_count"),
    "stalled": attrgetter("stalled_count"),
    "dead": attrgetter("dead_count"),
}
"""The gauges of each queue. Stalled jobs are part of the running ones."""

IDLE = QueueDepth(queue="")
"""A queue without jobs."""


def combine_depths(
    queues: Iterable[QueueDepth], label: Callable[[str], str]
) -> dict[str, QueueDepth]:
    """The queues by label. Queues that share a label are added up."""
    combined: dict[str, QueueDepth] = {}
    for depth in queues:
        name = label(depth.queue)
        combined[name] = _add(combined.get(name, IDLE), depth, name)
    return combined


def _add(one: QueueDepth, other: QueueDepth, name: str) -> QueueDepth:
    due_since = [it.oldest_due_at for it in (one, other) if it.oldest_due_at is not None]
    return QueueDepth(
        queue=name,
        due_count=one.due_count + other.due_count,
        later_count=one.later_count + other.later_count,
        running_count=one.running_count + other.running_count,
        stalled_count=one.stalled_count + other.stalled_count,
        dead_count=one.dead_count + other.dead_count,
        oldest_due_at=min(due_since, default=None),
    )


try:
    import prometheus_client as prometheus
except ModuleNotFoundError as error:
    raise MissingExtraError("Prometheus metrics", "prometheus-client", "metrics") from error

Labels: TypeAlias = tuple[str, ...]

LABEL_LIMIT = 100
"""The number of distinct values of a label before further ones become ``other``."""

DURATION_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400)

_SECOND = timedelta(seconds=1)
_MILLISECONDS = 1000


class Metrics:
    """All metrics of Rota in one registry: worker events and the state of the store.

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
        registry = prometheus.REGISTRY if registry is None else registry
        self._by_tenant = by_tenant
        self._kinds, self._queues, self._tenants = (BoundedLabel(label_limit) for _ in range(3))
        self._events = _EventMetrics(registry, _label_names(by_tenant=by_tenant))
        self._store = _StoreMetrics(registry)
        self._depths = _QueueMetrics(registry, self._queues)
        self._notices = _NoticeMetrics(registry, label_limit)

    def follow(self, events: EventSource) -> Callable[[], None]:
        """Measure events from now on. The returned function stops measuring."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Measure one event."""
        if isinstance(event, JobEvent):
            counted = counted_by(event)
            if counted or isinstance(event, JobSettled):
                self._events.add(event, counted, self._labels_of(event))
        elif isinstance(event, JobsLeased):
            self._events.picked.inc(event.count)
        elif isinstance(event, WorkerStarted):
            self._events.workers.inc()
        elif isinstance(event, WorkerStopped):
            self._events.workers.dec()
        elif isinstance(event, ChildStarted | ChildEnded | RequestRefused):
            self._events.note(event)
        elif isinstance(event, StoreFailed | StoreRecovered):
            self._store.is_up.set(isinstance(event, StoreRecovered))

    def show(self, status: StoreStatus | None) -> None:
        """Set the gauges from a store sample; None when the store failed."""
        self._store.show(status)
        if status is not None:
            self._depths.show(status.queues, status.taken_at)
            if status.report is not None:
                self._notices.show(status.report, status.taken_at)

    def _labels_of(self, event: JobEvent) -> Labels:
        kind, queue = self._kinds(event.kind), self._queues(event.queue)
        return (kind, queue, self._tenants(event.tenant)) if self._by_tenant else (kind, queue)


class _EventMetrics:
    """Metrics updated by events."""

    def __init__(self, registry: prometheus.CollectorRegistry, labels: Labels) -> None:
        self.picked = prometheus.Counter(
            "rota_jobs_picked", "Jobs leased by workers.", registry=registry
        )
        self.workers = prometheus.Gauge(
            "rota_workers", "Workers that run in this process.", registry=registry
        )
        self._refused = prometheus.Counter(
            "rota_requests_refused",
            "Requests that the server refused, by reason.",
            ["reason"],
            registry=registry,
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
        self._counters = {
            name: prometheus.Counter(prometheus_name(name), text, labels, registry=registry)
            for name, text in _TEXTS.items()
        }
        self._series: dict[Labels, _Series] = {}
        self._durations = prometheus.Histogram(
            "rota_handler_duration_seconds",
            "How long handlers took.",
            labels,
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._waits = prometheus.Histogram(
            "rota_lease_wait_seconds",
            "From when jobs were due until they were leased.",
            labels,
            buckets=WAIT_BUCKETS,
            registry=registry,
        )

    def add(self, event: JobEvent, counted: tuple[Counter, ...], labels: Labels) -> None:
        series = self._series.get(labels)
        if series is None:  # looking it up in each metric costs more than everything else
            series = self._series[labels] = self._make_series(labels)
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

    def note(self, event: ChildStarted | ChildEnded | RequestRefused) -> None:
        if isinstance(event, RequestRefused):
            self._refused.labels(event.reason).inc()
        elif isinstance(event, ChildStarted):
            self._children.inc()
        else:
            self._children.dec()
            self._ended_children.labels(event.reason).inc()

    def _make_series(self, labels: Labels) -> "_Series":
        return _Series({}, self._durations.labels(*labels), self._waits.labels(*labels))


class _Series(NamedTuple):
    """The metrics of one label set. A counter is created by its first event."""

    counters: dict[Counter, prometheus.Counter]
    duration: prometheus.Histogram
    wait: prometheus.Histogram


class _StoreMetrics:
    """Metrics sampled from the store."""

    def __init__(self, registry: prometheus.CollectorRegistry) -> None:
        self.is_up = prometheus.Gauge(
            "rota_store_up", "Whether the store answered when last asked.", registry=registry
        )
        self._jobs = prometheus.Gauge(
            "rota_jobs", "Jobs on the store, by status.", ["status"], registry=registry
        )
        self._oldest_due = prometheus.Gauge(
            "rota_oldest_due_seconds",
            "How long the oldest due job has been due.",
            registry=registry,
        )
        self._stalled = prometheus.Gauge(
            "rota_stalled_jobs", "Jobs whose leases have run out.", registry=registry
        )
        self._set_aside = prometheus.Gauge(
            "rota_set_aside_records", "Records that cannot be read.", registry=registry
        )
        self.is_up.set(1)

    def show(self, status: StoreStatus | None) -> None:
        self.is_up.set(status is not None)
        if status is None:
            return
        for name, count in status.job_counts.items():
            self._jobs.labels(name).set(count)
        self._oldest_due.set(status.oldest_due_for / _SECOND)
        self._stalled.set(status.stalled_count)
        self._set_aside.set(status.set_aside_count)


class _QueueMetrics:
    """The depth of each queue. A queue that became empty is shown as empty."""

    def __init__(self, registry: prometheus.CollectorRegistry, label: BoundedLabel) -> None:
        self._label = label
        self._shown: set[str] = set()
        self._depth = prometheus.Gauge(
            "rota_queue_depth",
            "Jobs in each queue: due, later, running, those of them stalled, and dead letters.",
            ["queue", "state"],
            registry=registry,
        )
        self._oldest_due = prometheus.Gauge(
            "rota_queue_oldest_due_seconds",
            "How long the job has been due that waits in the queue for the longest time.",
            ["queue"],
            registry=registry,
        )

    def show(self, queues: Iterable[QueueDepth], now: datetime) -> None:
        depths = combine_depths(queues, self._label)
        self._shown |= depths.keys()
        for label in self._shown:
            depth = depths.get(label, IDLE)
            for state, read in DEPTHS.items():
                self._depth.labels(label, state).set(read(depth))
            due_at = now if depth.oldest_due_at is None else depth.oldest_due_at
            self._oldest_due.labels(label).set((now - due_at) / _SECOND)


class _NoticeMetrics:
    """What the processes watch for. A condition has a series only while it lasts."""

    def __init__(self, registry: prometheus.CollectorRegistry, limit: int) -> None:
        self._limit = limit
        self._gauges = {
            concern: prometheus.Gauge(name, text, labels, registry=registry)
            for concern, (name, text, labels) in _NOTICE_GAUGES.items()
        }
        self._watched_at = prometheus.Gauge(
            "rota_watch_timestamp_seconds",
            "When a process last looked for held jobs, troubled tasks and missed successes.",
            registry=registry,
        )

    def show(self, report: Report, now: datetime) -> None:
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


_TEXTS: dict[Counter, str] = {
    "jobs.succeeded": "Attempts that succeeded.",
    "jobs.failed": "Attempts that failed.",
    "jobs.deferred": "Jobs that a gate held back.",
    "jobs.dlq": "Jobs that had their last attempt: dead letters.",
    "jobs.stalled": "Jobs whose leases ran out, and that were taken from their workers.",
}


def prometheus_name(name: Counter) -> str:
    """The Prometheus name of a specification 3 counter, without ``_total``."""
    if name not in COUNTERS:
        raise KeyError(name)
    return f"rota_{name.replace('.', '_')}"


def _label_names(*, by_tenant: bool) -> Labels:
    return ("kind", "queue", "tenant") if by_tenant else ("kind", "queue")
