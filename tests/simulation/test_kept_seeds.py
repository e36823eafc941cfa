"""Lives that once failed, through the scheduler or its judge; kept, so that none does again."""

import pytest
from tests.verification.simulation.campaign import run_batch

KEPT = {
    1480: "a run that ended while its claim was being written was not recorded",
    20699: "a clock set back during an outage delayed the next try",
    59198: "initialize() was accepted while a stop still waited for one that had failed",
    120619: "the same",
    141587: "a claim whose reply was lost was forgotten by a re-initialisation",
    151837: "the same",
    155998: "initialize() was accepted while a stop still waited for one that had failed",
    182796: "a refused call during an outage was taken for the end of the list, by the judge",
    182880: "a claim whose reply was lost was forgotten by a re-initialisation",
}


@pytest.mark.parametrize("seed", KEPT)
def test_a_story_that_once_failed_keeps_the_axioms(seed: int) -> None:
    progress = run_batch(range(seed, seed + 1))
    assert progress.story_count == 1
    assert not progress.failures, f"{KEPT[seed]}: {progress.failures[0].report}"
