"""Prometheus metrics: their names, values and labels."""

import builtins
import importlib
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.unit.telemetry.test_counters import JOB, failed, settled, stalled

from rota.errors import MissingExtraError
from rota.events import (
    ChildEnded,
    ChildStarted,
    JobsLeased,
    StoreFailed,
    StoreRecovered,
    WorkerStarted,
    WorkerStopped,
)
from rota.stores.protocol import QueueDepth
from rota.telemetry.counters import OTHER, BoundedLabel
from rota.telemetry.health import StoreStatus
from rota.telemetry.metrics import Metrics

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LABELS = {"kind": "reminder.send", "queue": "mail"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_counters_are_counted_by_kind_and_queue(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry)
    for event in (settled(), settled(), failed("dlq"), stalled()):
        metrics.observe(event)
    metrics.observe(JobsLeased(worker="w", count=5))
    assert registry.get_sample_value("rota_jobs_succeeded_total", LABELS) == 2
    assert registry.get_sample_value("rota_jobs_failed_total", LABELS) == 1
    assert registry.get_sample_value("rota_jobs_dlq_total", LABELS) == 1
    assert registry.get_sample_value("rota_jobs_stalled_total", LABELS) == 1
    assert registry.get_sample_value("rota_jobs_picked_total") == 5


def test_durations_are_in_seconds(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry)
    metrics.observe(settled())
    metrics.observe(failed(err_code="NoHandler"))
    value = registry.get_sample_value
    assert value("rota_handler_duration_seconds_sum", LABELS) == pytest.approx(0.005)
    assert value("rota_handler_duration_seconds_count", LABELS) == 1
    assert value("rota_lease_wait_seconds_sum", LABELS) == pytest.approx(0.060)
    assert value("rota_lease_wait_seconds_bucket", LABELS | {"le": "0.05"}) == 2
    assert value("rota_lease_wait_seconds_bucket", LABELS | {"le": "0.01"}) == 0


def test_child_processes_are_counted_and_why_they_ended(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry)
    for pid in (1, 2, 3):
        metrics.observe(ChildStarted(pid=pid))
    metrics.observe(ChildEnded(pid=1, reason="crashed", job_count=1))
    metrics.observe(ChildEnded(pid=2, reason="recycled", job_count=100))
    value = registry.get_sample_value
    assert value("rota_child_processes") == 1
    assert value("rota_child_processes_ended_total", {"reason": "crashed"}) == 1
    assert value("rota_child_processes_ended_total", {"reason": "recycled"}) == 1


def test_neither_ids_nor_tenants_are_labels_unless_asked_for(registry: CollectorRegistry) -> None:
    Metrics(registry).observe(settled())
    assert "guild-7" not in generate_latest(registry).decode()
    other = CollectorRegistry()
    Metrics(other, by_tenant=True).observe(settled())
    labels = LABELS | {"tenant": "guild-7"}
    assert other.get_sample_value("rota_jobs_succeeded_total", labels) == 1
    assert f'"{JOB["job_id"]}"' not in generate_latest(other).decode()


def test_kinds_beyond_the_limit_share_a_label(registry: CollectorRegistry) -> None:
    metrics = Metrics(registry, label_limit=2)
    for number in range(50):
        event = settled()
        metrics.observe(type(event)(**_fields(event) | {"kind": f"kind-{number}"}))
    value = registry.get_sample_value
    assert value("rota_jobs_succeeded_total", LABELS | {"kind": "kind-1"}) == 1
    assert value("rota_jobs_succeeded_total", LABELS | {"kind": OTHER}) == 48
    assert value("rota_jobs_succeeded_total", LABELS | {"kind": "kind-2"}) is None


def test_a_known_label_stays_known_when_the_limit_is_reached() -> None:
    label = BoundedLabel(1)
    assert [label("a"), label("b"), label("a")] == ["a", OTHER, "a"]


def test_workers_and_the_stores_answers_are_gauges(registry: CollectorRegistry) -> None:
    metrics, value = Metrics(registry), registry.get_sample_value
    assert (value("rota_workers"), value("rota_store_up")) == (0, 1)
    metrics.observe(WorkerStarted(worker="w", kinds=["a"], concurrency=1))
    metrics.observe(StoreFailed(error="away"))
    assert (value("rota_workers"), value("rota_store_up")) == (1, 0)
    metrics.observe(
        WorkerStopped(worker="w", manner="drained", handed_back_count=0, unwritten_count=0)
    )
    metrics.observe(StoreRecovered())
    assert (value("rota_workers"), value("rota_store_up")) == (0, 1)


def test_how_a_store_stands_is_shown(registry: CollectorRegistry) -> None:
    metrics, value = Metrics(registry), registry.get_sample_value
    metrics.show(
        StoreStatus(
            taken_at=NOW,
            job_counts={"READY": 4, "FAILED": 1},
            set_aside_count=2,
            oldest_due_at=NOW - timedelta(seconds=90),
            stalled_count=3,
        )
    )
    assert value("rota_jobs", {"status": "READY"}) == 4
    assert value("rota_oldest_due_seconds") == 90
    assert value("rota_stalled_jobs") == 3
    assert value("rota_set_aside_records") == 2
    metrics.show(None)
    assert value("rota_store_up") == 0
    assert value("rota_stalled_jobs") == 3


def depths_of(registry: CollectorRegistry, queue: str) -> dict[str, float | None]:
    states = ("due", "later", "running", "stalled", "dead")
    return {
        state: registry.get_sample_value("rota_queue_depth", {"queue": queue, "state": state})
        for state in states
    }


def test_each_queue_is_shown_by_itself(registry: CollectorRegistry) -> None:
    metrics, value = Metrics(registry), registry.get_sample_value
    since = NOW - timedelta(seconds=90)
    mail = QueueDepth(
        queue="mail",
        due_count=5,
        later_count=4,
        running_count=3,
        stalled_count=2,
        dead_count=1,
        oldest_due_at=since,
    )
    metrics.show(StoreStatus(taken_at=NOW, job_counts={}, queues=[mail, QueueDepth(queue="call")]))
    shown = {"due": 5, "later": 4, "running": 3, "stalled": 2, "dead": 1}
    assert depths_of(registry, "mail") == shown
    assert value("rota_queue_oldest_due_seconds", {"queue": "mail"}) == 90
    assert value("rota_queue_oldest_due_seconds", {"queue": "call"}) == 0


def test_a_queue_that_has_become_empty_is_shown_as_empty(registry: CollectorRegistry) -> None:
    metrics, value = Metrics(registry), registry.get_sample_value
    mail = QueueDepth(queue="mail", due_count=5, oldest_due_at=NOW - timedelta(seconds=90))
    metrics.show(StoreStatus(taken_at=NOW, job_counts={}, queues=[mail]))
    metrics.show(None)
    assert depths_of(registry, "mail")["due"] == 5
    metrics.show(StoreStatus(taken_at=NOW, job_counts={}))
    assert set(depths_of(registry, "mail").values()) == {0}
    assert value("rota_queue_oldest_due_seconds", {"queue": "mail"}) == 0


def test_queues_beyond_the_limit_are_added_up(registry: CollectorRegistry) -> None:
    metrics, value = Metrics(registry, label_limit=2), registry.get_sample_value
    queues = [
        QueueDepth(
            queue=f"queue-{number}",
            due_count=1,
            dead_count=number,
            oldest_due_at=NOW - timedelta(seconds=number),
        )
        for number in range(6)
    ]
    metrics.show(StoreStatus(taken_at=NOW, job_counts={}, queues=queues))
    assert depths_of(registry, "queue-1")["dead"] == 1
    other = depths_of(registry, OTHER)
    assert (other["due"], other["dead"]) == (4, 2 + 3 + 4 + 5)
    assert value("rota_queue_oldest_due_seconds", {"queue": OTHER}) == 5
    assert "queue-2" not in generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("metrics", "prometheus_client", "metrics"), ("tracing", "opentelemetry", "otel")],
)
def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str
) -> None:
    usual = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == package:
            raise ModuleNotFoundError(name=name)
        return usual(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, f"rota.telemetry.{module}", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(f"rota.telemetry.{module}")
    assert f"pip install 'rota[{extra}]'" in caught.value.message
    assert caught.value.details["extra"] == f"rota[{extra}]"


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}
