"""The states of a job and the table of allowed moves."""

from itertools import product

import pytest

from rota.jobs import Ending, JobStatus, can_transition, rail_word

P, Y, U, C, F, B = JobStatus
TABLE = {(P, Y), (P, B), (Y, U), (U, C), (U, Y), (U, F)}


def test_there_are_six_statuses() -> None:
    names = ["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED"]
    assert [status.value for status in JobStatus] == names
    assert [str(status) for status in JobStatus] == names


@pytest.mark.parametrize(("current", "target"), list(product(JobStatus, JobStatus)))
def test_a_move_is_allowed_if_the_table_has_it(current: JobStatus, target: JobStatus) -> None:
    assert can_transition(current, target) is ((current, target) in TABLE)


def test_the_last_three_are_final() -> None:
    assert [status.is_terminal for status in JobStatus] == [False] * 3 + [True] * 3
    assert not any(can_transition(end, target) for end in (C, F, B) for target in JobStatus)


@pytest.mark.parametrize(
    ("status", "ending", "word"),
    [
        (P, None, "queued"),
        (Y, None, "queued"),
        (U, None, "processing"),
        (C, None, "done"),
        (F, Ending.EXHAUSTED, "dlq"),
        (F, Ending.LOST, "dlq"),
        (F, Ending.DISCARDED, "failed"),
        (F, Ending.CANCELLED, "failed"),
        (B, None, "failed"),
        (B, Ending.CANCELLED, "failed"),
    ],
)
def test_each_state_has_a_word_on_the_rail(
    status: JobStatus, ending: Ending | None, word: str
) -> None:
    assert rail_word(status, ending) == word
