"""The words for the state of a job."""

from datetime import UTC, datetime

import pytest

from rota.errors import InvalidInputError
from rota.jobs import JobState, JobStatus
from rota.jobs.job_state import NOT_DUE, STATES_OF, StateFacts, judge_state, parse_states

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


def test_every_word_of_a_filter_names_one_state() -> None:
    for state in JobState:
        assert parse_states(state.upper()) == {state}
    assert parse_states("due, running,dead") == {JobState.DUE, JobState.RUNNING, JobState.DEAD}


def test_a_status_of_the_api_that_is_not_a_state_stands_for_all_of_its_states() -> None:
    assert parse_states("ready") == {*NOT_DUE, JobState.DUE} == STATES_OF[JobStatus.READY]
    assert parse_states("failed") == STATES_OF[JobStatus.FAILED]
    assert parse_states("running") != STATES_OF[JobStatus.RUNNING]
    assert frozenset().union(*STATES_OF.values()) == set(JobState)


def test_another_word_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        InvalidInputError,
        match=r'one of pending, .*blocked, or several with commas between, got "late"',
    ):
        parse_states("due,late")
    with pytest.raises(InvalidInputError):
        parse_states("")
