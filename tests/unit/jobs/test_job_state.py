"""The words for the state of a job."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInputError
from rota.jobs import Deferral, Ending, JobState, JobStatus, Lease
from rota.jobs.job_state import (
    NOT_DUE,
    STATES_OF,
    StateFacts,
    find_state,
    judge_state,
    parse_states,
)
from rota.testing import a_job

NOW = datetime(2026, 10, 23, 9, 41, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_every_status_has_a_state() -> None:
    assert {state.status for state in JobState} == set(JobStatus)
    for status in JobStatus:
        assert judge_state(StateFacts(status, NOW), NOW).status is status


def test_a_lease_is_held_up_to_its_last_instant() -> None:
    facts = StateFacts(JobStatus.RUNNING, NOW, lease_until=NOW)
    assert judge_state(facts, NOW) is JobState.RUNNING
    later = NOW.replace(second=21)
    assert judge_state(facts, later) is JobState.STALLED


def test_a_ready_job_is_due_from_its_instant_on_unless_it_is_paused() -> None:
    ready = StateFacts(JobStatus.READY, NOW)
    assert judge_state(ready, NOW) is JobState.DUE
    assert judge_state(ready, NOW + SECOND) is JobState.DUE
    assert judge_state(ready, NOW - SECOND) is JobState.SCHEDULED
    assert judge_state(ready._replace(attempt_count=1), NOW - SECOND) is JobState.RETRYING
    assert judge_state(ready._replace(attempt_count=1), NOW) is JobState.DUE
    for now in (NOW, NOW - SECOND):
        assert judge_state(ready._replace(is_paused=True), now) is JobState.PAUSED


def test_a_job_is_held_while_a_gate_is_the_last_to_keep_it_from_starting() -> None:
    held = StateFacts(JobStatus.READY, NOW, attempt_count=1, held_until=NOW)
    assert judge_state(held, NOW - SECOND) is JobState.HELD
    assert judge_state(held._replace(held_until=NOW + SECOND), NOW - SECOND) is JobState.HELD
    assert judge_state(held._replace(held_until=NOW - SECOND), NOW - SECOND) is JobState.RETRYING
    assert judge_state(held, NOW) is JobState.DUE


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (None, JobState.DEAD),
        (Ending.EXHAUSTED, JobState.DEAD),
        (Ending.LOST, JobState.DEAD),
        (Ending.CANCELLED, JobState.CANCELLED),
        (Ending.DISCARDED, JobState.DISCARDED),
    ],
)
def test_a_failed_job_is_dead_unless_a_person_ended_it(
    ending: Ending | None, state: JobState
) -> None:
    assert judge_state(StateFacts(JobStatus.FAILED, NOW, ending=ending), NOW) is state


def test_the_state_of_a_job_follows_from_all_that_it_holds() -> None:
    lease = Lease(token=1, worker="w", taken_at=NOW, until=NOW)
    running = a_job(status=JobStatus.RUNNING, lease=lease)
    assert find_state(running, NOW) is JobState.RUNNING
    assert find_state(running, NOW + SECOND) is JobState.STALLED
    ready = a_job(status=JobStatus.READY, due_at=NOW + SECOND)
    assert find_state(ready, NOW) is JobState.SCHEDULED
    assert find_state(replace(ready, attempt_count=2), NOW) is JobState.RETRYING
    held = replace(ready, deferral=Deferral(until=NOW + SECOND, reason="quiet hours"))
    assert find_state(held, NOW) is JobState.HELD
    assert find_state(replace(held, is_paused=True), NOW) is JobState.PAUSED
    failed = a_job(status=JobStatus.FAILED, ending=Ending.DISCARDED)
    assert find_state(failed, NOW) is JobState.DISCARDED


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
