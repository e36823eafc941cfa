"""Whole fleets under one clock and one seed; see ``docs/proof.md``. More: ``make sim-fleet``."""

import os
import subprocess
import sys

import pytest
from tests.verification.fleet import FleetPlan, draw_plan, try_fleet, try_plan
from tests.verification.fleet.kept import KEPT, keep_seeds, read_seeds
from tests.verification.fleet_mutants import MUTANTS, find_mutant, hunt_apart
from tests.verification.simulation.campaign import BATCH, run_fleets

SEED_COUNT = int(os.environ.get("FLEET_SEEDS", "3000"))
QUICK_CATCHES = {
    "fence: a lease does not raise the token": 0,
    "once: a caller does not wait for the claim of another": 3,
}
"""The first seed that catches each."""


@pytest.mark.parametrize("first", range(0, SEED_COUNT, BATCH))
def test_every_fleet_keeps_its_promises(first: int) -> None:
    progress = run_fleets(range(first, first + BATCH))
    assert progress.record_count > BATCH
    assert not progress.failures, "\n\n".join(
        f"seed {failure.seed} {failure.axioms}\n{failure.report}\n"
        f"replay: python -m tests.verification.simulation --fleet --seed {failure.seed} --show"
        for failure in progress.failures
    )


@pytest.mark.parametrize("seed", sorted(read_seeds()))
def test_a_fleet_that_once_failed_keeps_its_promises(seed: int) -> None:
    assert not try_fleet(seed).findings, read_seeds()[seed]


def a_seed_of(mode: str) -> int:
    return next(seed for seed in range(5000, 6000) if draw_plan(seed).mode == mode)


@pytest.mark.parametrize("mode", ["network", "host", "sqlite"])
def test_the_same_seed_gives_the_same_trace_in_any_process(mode: str) -> None:
    """Sets are in another order there, and so is whatever depends on it."""
    seed = a_seed_of(mode)
    first = try_fleet(seed)
    assert len(first.record.history) > 5
    assert try_fleet(seed).trace() == first.trace()
    program = (
        f"from tests.verification.fleet import try_fleet; print(try_fleet({seed}).fingerprint())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == first.fingerprint()


def test_every_sort_of_fleet_and_of_fault_is_drawn() -> None:
    plans = [draw_plan(seed) for seed in range(600)]
    assert {plan.mode for plan in plans} == {"network", "host", "sqlite"}
    assert len({deed.what for plan in plans for deed in plan.deeds}) == 7
    assert len({act.what for plan in plans for act in plan.acts}) == 13
    assert {plan.counts.http_worker_count for plan in plans} == {0, 1}


def test_faults_happen_and_calls_are_lost_in_failovers() -> None:
    fault_count = lost_count = 0
    for seed in range(300, 340):
        record = try_fleet(seed).record
        fault_count += record.fault_count
        lost_count += record.lost_count
    assert fault_count > 50
    assert lost_count > 0


def a_plan_with_power_cuts() -> FleetPlan:
    return draw_plan(3, "sqlite")


def test_sqlite_loses_nothing_when_the_power_fails_in_a_write() -> None:
    trial = try_plan(a_plan_with_power_cuts())
    assert not trial.findings
    assert trial.record.restart_count > 0


@pytest.mark.parametrize("name", QUICK_CATCHES)
def test_a_mistake_is_caught(name: str) -> None:
    """Two of them, so that a simulation that cannot fail does; ``make sim-mutants`` tries all."""
    seed = QUICK_CATCHES[name]
    assert not try_fleet(seed).findings
    assert hunt_apart(find_mutant(name), range(seed, seed + 1))


def test_there_are_twenty_mistakes_or_more() -> None:
    assert len({mutant.name for mutant in MUTANTS}) >= 20


def test_seeds_that_fail_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    copy = KEPT.parent / KEPT.name
    kept = copy.read_text()
    target = type(KEPT)(str(tmp_path)) / "kept.txt"
    target.write_text(kept)
    monkeypatch.setattr("tests.verification.fleet.kept.KEPT", target)
    keep_seeds({7_777_777: "I1", 67: "again"})
    assert read_seeds()[7_777_777] == "I1"
    assert target.read_text().count("\n67 ") == kept.count("\n67 ")
