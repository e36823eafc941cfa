"""The words for the state of a job."""

from datetime import UTC, datetime

import pytest

from rota.errors import InvalidInputError
from rota.jobs import JobState, JobStatus
from rota.jobs.job_state import LATER, STATE_WORDS, StateFacts, judge_state, parse_states

NOW = datetime(2026, 10, 23, 9, 41, 20, tzinfo=UTC)


def test_every_status_has_a_state() -> None:
    assert {state.status for state in JobState} == set(JobStatus)
    for status in JobStatus:
        assert judge_state(StateFacts(status, NOW), NOW).status is status


def test_a_lease_is_held_up_to_its_last_instant() -> None:
    facts = StateFacts(JobStatus.RUNNING, NOW, lease_until=NOW)
    assert judge_state(facts, NOW) is JobState.RUNNING
    later = NOW.replace(second=21)
    assert judge_state(facts, later) is JobState.STALLED


def test_words_of_filters_name_one_state_or_all_of_a_status() -> None:
    assert parse_states(["Due", "later"]) == LATER | {JobState.DUE} == STATE_WORDS["ready"]
    for status in JobStatus:
        word = STATE_WORDS[status.lower()]
        assert word == {state for state in JobState if state.status is status}
    assert {word for word in STATE_WORDS if word in set(JobState)} == set(JobState)
    assert parse_states([]) == frozenset()


def test_another_word_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidInputError, match=r'one of pending, .*blocked, got "late"'):
        parse_states(["late"])
