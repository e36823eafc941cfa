"""Runs or collects the tests that name clauses, and remembers what became of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import reduce

import pytest
from tests.conformance.clauses import ROOT

PROPERTY = "clause"
_PLUGIN = "tests.conformance.marking"


class Outcome(StrEnum):
    """What a test showed, weightiest first: it decides for a test with several cases."""

    FAILED = "failed"
    PASSED = "passed"
    SKIPPED = "skipped"
    COLLECTED = "collected"


class Evidence:
    """Clause to tests, and test to outcome. A test is named without its parameters."""

    def __init__(self) -> None:
        self._tests: defaultdict[str, set[str]] = defaultdict(set)
        self._outcomes: dict[str, Outcome] = {}

    def add(self, test: str, properties: Iterable[tuple[str, object]], outcome: Outcome) -> None:
        clauses = [str(value) for name, value in properties if name == PROPERTY]
        name = test.split("[", 1)[0]
        for clause in clauses:
            self._tests[clause].add(name)
        if clauses:
            self._outcomes[name] = weightier(self._outcomes.get(name, Outcome.COLLECTED), outcome)

    def tests_of(self, clause: str) -> list[str]:
        return sorted(self._tests.get(clause, ()))

    def outcome_of(self, test: str) -> Outcome:
        return self._outcomes[test]

    def verdict(self, clause: str) -> str:
        """failed, passed, skipped or collected, as its tests; ``open`` when it has none."""
        outcomes = [self._outcomes[test] for test in self.tests_of(clause)]
        return reduce(weightier, outcomes).value if outcomes else "open"

    # The two hooks below are called by pytest, in the process that gathers the reports.

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note every selected test, also one that a crash will keep from reporting."""
        for item in session.items or ():
            self.add(item.nodeid, item.user_properties, Outcome.COLLECTED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a phase of a test ended; only the call itself can prove anything."""
        if report.failed:
            outcome = Outcome.FAILED
        elif report.skipped:
            outcome = Outcome.SKIPPED
        else:
            outcome = Outcome.PASSED if report.when == "call" else Outcome.COLLECTED
        self.add(report.nodeid, report.user_properties, outcome)


def weightier(one: Outcome, other: Outcome) -> Outcome:
    """One failure outweighs any success; one success outweighs the cases that were skipped."""
    return min(one, other, key=list(Outcome).index)


def gather(paths: Sequence[str], *options: str) -> tuple[Evidence, int]:
    """Let pytest go through all tests with clauses; give what it found and its exit status."""
    evidence = Evidence()
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", _PLUGIN]
    status = pytest.main([*settings, "-m", PROPERTY, *options, *paths], plugins=[evidence])
    return evidence, int(status)
