"""A short run of each fuzzing target, always the same; ``python -m tests.fuzz`` runs for longer."""

import pytest
from tests.fuzz.fuzzer import fuzz, read_corpus
from tests.fuzz.targets import TARGETS, Unsound, require

INPUTS = {"body": 150, "cursor": 400}


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_input_is_accepted_or_refused(target: str) -> None:
    report = fuzz(target, seed=1, most=INPUTS.get(target, 1_500))
    assert not report.findings, f"{report.findings[0][0]!r}\n{report.findings[0][1]}"
    assert report.count > len(read_corpus(target))


def test_a_result_that_does_not_hold_together_is_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def feed(data: bytes) -> str:
        require(b"\x00" not in data, "a NUL came through")
        return "fine"

    monkeypatch.setitem(TARGETS, "cron", feed)
    report = fuzz("cron", seed=1, most=3_000)
    assert [Unsound.__name__ in told for _, told in report.findings] == [True]
