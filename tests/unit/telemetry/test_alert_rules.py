"""The rules that are shipped for Prometheus name only metrics and labels that there are."""

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # comes without types, and is used here alone
from prometheus_client import CollectorRegistry
from tests.architecture.source_tree import ROOT
from tests.unit.telemetry.test_counters import failed, settled, stalled

from rota.stores.protocol import QueueDepth
from rota.telemetry.health import StoreStatus
from rota.telemetry.metrics import Metrics

RULES = ROOT / "deploy/prometheus/rota-alerts.yml"
_METRIC = re.compile(r"\brota_\w+")
_LABEL = re.compile(r"\$labels\.(\w+)")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")


def read_rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def made_samples() -> dict[str, set[str]]:
    """Every metric that is exported once everything has happened, with its labels."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for event in (settled(), failed("dlq"), stalled()):
        metrics.observe(event)
    queues = [QueueDepth(queue="mail", due_count=1)]
    metrics.show(StoreStatus(taken_at=failed().due_at, job_counts={"READY": 1}, queues=queues))
    return {
        sample.name: set(sample.labels)
        for family in registry.collect()
        for sample in family.samples
    }


def test_there_are_alerts_for_what_has_to_be_looked_at() -> None:
    names = {rule["alert"] for rule in read_rules()}
    assert {"RotaDeadLetters", "RotaJobsStalled", "RotaJobsLate", "RotaWorkerGone"} <= names
    assert len(names) == len(read_rules())


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: str(rule["alert"]))
def test_every_rule_names_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    samples = made_samples()
    named = set(_METRIC.findall(rule["expr"]))
    assert named
    assert named <= samples.keys()
    text = f"{rule['expr']} {rule['annotations']}"
    grouped = {name.strip() for names in _GROUPED.findall(text) for name in names.split(",")}
    assert {*_LABEL.findall(text), *grouped} <= set.union(*(samples[name] for name in named))


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: str(rule["alert"]))
def test_every_rule_says_how_bad_it_is_and_what_to_make_of_it(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["expr"].count("(") == rule["expr"].count(")")
