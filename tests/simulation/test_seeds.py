"""Random lives of the scheduler, each judged by every axiom; ``make sim`` tries many more."""

import pytest
from tests.verification.simulation.campaign import BATCH, run_batch

SEED_COUNT = 250


@pytest.mark.parametrize("first", range(0, SEED_COUNT, BATCH))
def test_every_story_keeps_the_axioms(first: int) -> None:
    progress = run_batch(range(first, first + BATCH))
    assert progress.story_count == BATCH
    assert progress.record_count > BATCH
    assert not progress.failures, "\n\n".join(
        f"seed {failure.seed} {failure.axioms}\n{failure.report}\n"
        f"replay: python -m tests.verification.simulation --seed {failure.seed} --show"
        for failure in progress.failures
    )
