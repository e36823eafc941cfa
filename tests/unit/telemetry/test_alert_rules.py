"""The alert rules and the board that are shipped, against promtool and real metrics."""

import asyncio
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # comes without types, and is used here alone
from tests.architecture.source_tree import ROOT
from tests.servers.promtool import find_promtool
from tests.unit.telemetry.test_counters import failed, settled, stalled
from tests.unit.telemetry.virtual_day import (
    DEPLOYMENTS,
    SCRAPED_EVERY,
    START,
    Labels,
    Scrape,
    open_stage,
    scrape,
    scrape_day,
)

from rota.telemetry.notices import Notice, Report, write_report
from rota.testing import a_job

RULES = ROOT / "deploy/prometheus/rota-alerts.yml"
BOARD = ROOT / "deploy/grafana/rota.json"
_METRIC = re.compile(r"\brota_\w+")
_LABEL = re.compile(r"\$labels\.(\w+)")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_OF_PROMETHEUS = {"instance", "le"}

Input = dict[str, str]
"""A time series of promtool: its name, and its values minute by minute."""


def read_rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def find_rule(name: str) -> dict[str, Any]:
    return next(rule for rule in read_rules() if rule["alert"] == name)


async def scrape_everything() -> Scrape:
    async with open_stage() as stage:
        for event in (settled(), failed("dlq"), stalled()):
            stage.metrics.observe(event)
        await stage.store.insert([a_job(due_at=START)], START)
        concerns = ("held", "task_late", "task_fails", "overdue")
        notices = tuple(
            Notice(concern=it, source="task", name="backup", since=START, text="")  # type: ignore[arg-type]
            for it in concerns
        )
        await stage.store.write_each([write_report(Report(taken_at=START, notices=notices))])
        return await scrape(stage, has_buckets=True)


@cache
def made_samples() -> dict[str, set[str]]:
    """Every metric that a server shows once everything has happened, with its labels."""
    samples: dict[str, set[str]] = {"rota_jobs": {"status"}}  # of a store that can be inspected
    for name, labels in asyncio.run(scrape_everything()):
        samples.setdefault(name, set()).update(dict(labels))
    return samples


def test_there_are_alerts_for_what_has_to_be_looked_at() -> None:
    names = {rule["alert"] for rule in read_rules()}
    assert {"RotaDeadLetters", "RotaJobsStalled", "RotaJobsLate", "RotaWorkerGone"} <= names
    assert {"RotaSuccessOverdue", "RotaTaskLate", "RotaTaskFails", "RotaJobsHeldBack"} <= names
    assert len(names) == len(read_rules())


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: str(rule["alert"]))
def test_every_rule_names_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    samples = made_samples()
    named = set(_METRIC.findall(rule["expr"]))
    assert named
    assert named <= samples.keys()
    text = f"{rule['expr']} {rule['annotations']}"
    grouped = {name.strip() for names in _GROUPED.findall(text) for name in names.split(",")}
    known = set.union(*(samples[name] for name in named)) | _OF_PROMETHEUS
    assert {*_LABEL.findall(text), *grouped} <= known


@pytest.mark.parametrize("rule", read_rules(), ids=lambda rule: str(rule["alert"]))
def test_every_rule_says_how_bad_it_is_and_what_to_make_of_it(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description"}


def test_every_query_of_the_board_names_metrics_that_are_exported() -> None:
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 10
    for query in queries:
        named = set(_METRIC.findall(query))
        assert named, query
        assert named <= made_samples().keys(), query
        grouped = {name.strip() for names in _GROUPED.findall(query) for name in names.split(",")}
        known = set.union(*(made_samples()[name] for name in named)) | _OF_PROMETHEUS
        assert grouped <= known, query


def test_the_rules_pass_promtool() -> None:
    ended = run_promtool("check", "rules", str(RULES))
    assert "SUCCESS" in ended


def run_promtool(*arguments: str) -> str:
    command = [find_promtool(), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"[-4_000:]
    return ended.stdout


def write_test(folder: Path, series: list[Input], expected: dict[str, dict[int, bool]]) -> str:
    """A file for ``promtool test rules``: whether queries find one thing at which minutes."""
    interval = f"{SCRAPED_EVERY.total_seconds() / 60:.0f}m"
    checks = [
        {
            "expr": f"count({query})",
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": "{}", "value": 1}] if is_found else [],
        }
        for query, at in expected.items()
        for minute, is_found in at.items()
    ]
    test = {"interval": interval, "input_series": series, "promql_expr_test": checks}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    path = folder / "rules_test.yml"
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return str(path)


def in_time(scrapes: list[Scrape]) -> list[Input]:
    """The scrapes as promtool takes them; nothing was scraped at the very beginning."""
    names = dict.fromkeys(key for each in scrapes for key in each)
    return [
        {
            "series": show_series(name, labels),
            "values": " ".join(["_", *(show_value(each.get((name, labels))) for each in scrapes)]),
        }
        for name, labels in names
    ]


def show_series(name: str, labels: Labels) -> str:
    return name + "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in labels) + "}"


def show_value(value: float | None) -> str:
    return "_" if value is None else repr(value)


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
async def test_no_rule_raises_a_false_alarm_in_a_day(deployment: str, tmp_path: Path) -> None:
    scrapes = await scrape_day(deployment)
    succeeded = sum(
        value for (name, _), value in scrapes[-1].items() if name == "rota_jobs_succeeded_total"
    )
    assert succeeded >= 72  # the day was not idle: every 20 minutes
    assert scrapes[-1]["rota_workers", ()] == 1
    fired = 'count_over_time(ALERTS{alertstate="firing"}[24h])'
    run_promtool("test", "rules", write_test(tmp_path, in_time(scrapes), {fired: {1440: False}}))


QUIET = {
    "rota_store_up": "1",
    "rota_workers": "1",
    'rota_queue_depth{queue="mail",state="due"}': "0",
}
TROUBLES: dict[str, tuple[Input, dict[str, str]]] = {
    "RotaDeadLetters": ({'rota_queue_depth{queue="mail",state="dead"}': "2"}, {"queue": "mail"}),
    "RotaJobsStalled": ({'rota_queue_depth{queue="mail",state="stalled"}': "1"}, {"queue": "mail"}),
    "RotaJobsLate": ({'rota_queue_oldest_due_seconds{queue="mail"}': "900"}, {"queue": "mail"}),
    "RotaWorkerGone": (
        {"rota_workers": "0", 'rota_queue_depth{queue="mail",state="due"}': "3"},
        {},
    ),
    "RotaJobsStallOften": (
        {'rota_jobs_stalled_total{kind="mail",queue="mail"}': "0+2x29"},
        {"kind": "mail"},
    ),
    "RotaNotScraped": ({"rota_store_up": "_x30"}, {}),
    "RotaWatchStopped": ({"rota_watch_timestamp_seconds": "2400"}, {}),
    "RotaStoreUnreachable": ({"rota_store_up": "0"}, {}),
    "RotaRecordsSetAside": ({"rota_set_aside_records": "1"}, {}),
    "RotaJobsHeldBack": (
        {'rota_held_jobs{source="maintenance",tenant="a",name="tenant a"}': "5"},
        {"source": "maintenance", "tenant": "a", "name": "tenant a"},
    ),
    "RotaTaskLate": ({'rota_task_late_seconds{task="backup"}': "500"}, {"task": "backup"}),
    "RotaTaskFails": ({'rota_task_failed_runs{task="backup"}': "1"}, {"task": "backup"}),
    "RotaSuccessOverdue": (
        {'rota_success_overdue_seconds{source="series",tenant="a",name="backup"}': "0"},
        {"source": "series", "tenant": "a", "name": "backup"},
    ),
}


def test_every_rule_is_seen_to_fire() -> None:
    assert TROUBLES.keys() == {rule["alert"] for rule in read_rules()}


@pytest.mark.parametrize("alert", TROUBLES)
def test_a_rule_is_true_while_its_condition_lasts_and_no_longer(alert: str, tmp_path: Path) -> None:
    trouble, labels = TROUBLES[alert]
    series = []
    for name, value in {**dict.fromkeys(trouble, "_"), **QUIET}.items():
        before = "_x10" if value == "_" else f"{value}+0x9"
        during = trouble.get(name, value)
        during = during if "x" in during else f"{during}+0x29"
        series.append({"series": name, "values": f"{before} {during} {before}"})
    chosen = {"alertname": alert, "alertstate": "firing", **find_rule(alert)["labels"], **labels}
    query = show_series("ALERTS", tuple(chosen.items()))
    # Ten scrapes without, thirty with and ten without the condition, one every four minutes.
    expected = {query: {30: False, 60: True, 110: True, 155: True, 175: False}}
    run_promtool("test", "rules", write_test(tmp_path, series, expected))
