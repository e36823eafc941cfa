"""Which job comes first."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import always

from rota.jobs import (
    Job,
    JobStatus,
    age_priority,
    aged_key,
    is_due,
    is_stalled,
    order_jobs,
    order_key,
    select_next,
)
from rota.testing import a_job

START = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def _job(priority: int, age: int, number: int, due: int = 0) -> Job:
    return a_job(
        priority=priority,
        created_at=START + age * TICK,
        id=f"00000000-0000-4000-8000-{number:012x}",
        due_at=START + due * TICK,
    )


JOBS = st.lists(
    st.builds(_job, st.integers(1, 3), st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 3)),
    unique_by=lambda job: job.id,
    max_size=12,
)


@always
@given(JOBS, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_where_the_jobs_came_from(
    jobs: list[Job], random: Random
) -> None:
    shuffled = list(jobs)
    random.shuffle(shuffled)
    assert order_jobs(shuffled) == order_jobs(jobs)


@always
@given(JOBS)
def test_it_is_a_total_order_by_priority_then_age_then_id(jobs: list[Job]) -> None:
    ordered = order_jobs(jobs)
    assert sorted(job.id for job in ordered) == sorted(job.id for job in jobs)
    for before, after in pairwise(ordered):
        assert order_key(before) < order_key(after)
        assert before.priority >= after.priority
        if before.priority == after.priority:
            assert before.created_at <= after.created_at
            if before.created_at == after.created_at:
                assert before.id < after.id


@always
@given(JOBS, st.integers(0, 8), st.integers(0, 8))
def test_as_many_are_selected_as_there_are_places(
    jobs: list[Job], running_count: int, max_concurrent: int
) -> None:
    chosen = select_next(jobs, running_count, max_concurrent)
    assert chosen == order_jobs(jobs)[: max(0, max_concurrent - running_count)]


@always
@given(JOBS, st.integers(0, 3))
def test_jobs_due_later_are_passed_over(jobs: list[Job], elapsed: int) -> None:
    now = START + elapsed * TICK
    due = [job for job in jobs if job.due_at <= now]
    assert select_next(iter(jobs), 0, 5, now) == order_jobs(due)[:5]


def test_submitted_values_are_not_modified() -> None:
    jobs = [_job(1, 0, 1), _job(2, 0, 2)]
    order_jobs(jobs)
    select_next(jobs, 0, 1)
    assert [job.priority for job in jobs] == [1, 2]


def test_a_job_is_due_when_it_is_ready_and_its_time_has_come() -> None:
    assert is_due(a_job(due_at=START), START)
    assert not is_due(a_job(due_at=START + TICK), START)
    others = [status for status in JobStatus if status is not JobStatus.READY]
    assert not any(is_due(a_job(status=status, due_at=START), START) for status in others)


def test_a_lease_is_over_only_after_its_last_instant() -> None:
    job = a_job(status=JobStatus.RUNNING, created_at=START)
    until = START + timedelta(minutes=1)
    assert not is_stalled(job, until)
    assert is_stalled(job, until + TICK)
    assert not is_stalled(a_job(), until + TICK)


@pytest.mark.parametrize(
    ("priority", "waited", "expected"),
    [(3, 0, 3), (3, 59, 3), (3, 60, 4), (3, 179, 5), (3, 10**6, 10), (10, 10**6, 10), (3, -999, 3)],
)
def test_each_full_step_of_waiting_counts_as_one_priority(
    priority: int, waited: int, expected: int
) -> None:
    made = START - timedelta(seconds=waited)
    assert age_priority(priority, made, timedelta(seconds=60), START) == expected
    assert age_priority(priority, made, None, START) == priority


@always
@given(JOBS, st.integers(1, 3))
def test_ageing_never_turns_round_two_of_the_same_priority(jobs: list[Job], step: int) -> None:
    now = START + 3 * TICK
    aged = sorted(jobs, key=lambda job: aged_key(job, step * TICK, now))
    for priority in (1, 2, 3):
        mine = [job for job in aged if job.priority == priority]
        assert mine == order_jobs(mine)
