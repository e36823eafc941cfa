"""Runs exactly the tests that clauses name, and remembers how each ended."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import pytest
from tests.conformance.clauses import Clause


class Outcome(StrEnum):
    """How a test ended, weightiest first: this decides for a test with several cases."""

    FAILED = "failed"
    PASSED = "passed"
    SKIPPED = "skipped"
    MISSING = "missing"


class Evidence:
    """Test to outcome. A test is named without its parameters."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def add(self, test: str, outcome: Outcome) -> None:
        name = test.split("[", 1)[0]
        self._outcomes[name] = min(self.outcome_of(name), outcome, key=list(Outcome).index)

    def outcome_of(self, test: str) -> Outcome:
        """``missing`` for a test that was not run, for instance because its process crashed."""
        return self._outcomes.get(test, Outcome.MISSING)

    def verdict(self, clause: Clause) -> str:
        """One failure or missing run decides; then a departure; then one success."""
        outcomes = {self.outcome_of(test) for test in clause.tests}
        if clause.departure and outcomes.isdisjoint({Outcome.FAILED, Outcome.MISSING}):
            return "departure"
        order = [Outcome.FAILED, Outcome.MISSING, Outcome.PASSED, Outcome.SKIPPED]
        return next(outcome.value for outcome in order if outcome in outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a phase of a test ended; only the call itself can prove anything."""
        if report.failed:
            self.add(report.nodeid, Outcome.FAILED)
        elif report.skipped:
            self.add(report.nodeid, Outcome.SKIPPED)
        elif report.when == "call":
            self.add(report.nodeid, Outcome.PASSED)


def gather(tests: Iterable[str], root: Path, options: Sequence[str]) -> Evidence:
    """Let pytest run these tests, and give what it found."""
    evidence = Evidence()
    settings = ["-c", str(root / "pyproject.toml"), "--rootdir", str(root)]
    chosen = [str(root / test) for test in sorted(tests)]
    if chosen:
        pytest.main([*settings, *options, *chosen], plugins=[evidence])
    return evidence
