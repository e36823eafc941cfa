"""Section 2, function by function, with the examples of the text."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs import (
    BackoffStrategy,
    DependencyStatus,
    JobStatus,
    RetryPolicy,
    can_transition,
    decide_fail,
    decide_lease,
    dependency_status,
    detect_cycle,
    order_jobs,
    propagate_completion,
    propagate_failure,
    retry_delay,
    select_next,
    should_retry,
)
from rota.testing import a_job

P, Y, U, C, F, B = JobStatus
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("dependencies", "existing", "path"),
    [
        ([], {"b": ["c"]}, []),
        (["a"], {}, ["a"]),
        (["elsewhere"], {}, []),
        (["b"], {"b": ["a"]}, ["a", "b"]),
        (["b"], {"b": ["c"], "c": ["a"]}, ["a", "b", "c"]),
        (["b", "c"], {"b": ["d"], "c": ["d"], "d": []}, []),
        (["b"], {"b": ["c"], "c": ["b"]}, ["b", "c"]),
        (["x", "b"], {"x": [], "b": ["c"], "c": ["d"], "d": ["b"]}, ["b", "c", "d"]),
        (["b"], {"a": ["a"], "b": []}, []),
    ],
    ids=[
        "no dependencies",
        "itself",
        "unknown",
        "each other",
        "three round",
        "diamond",
        "beyond the new job",
        "after a dead end",
        "old edges of the new job are replaced",
    ],
)
def test_cycles_are_found_with_their_path(
    dependencies: list[str], existing: dict[str, list[str]], path: list[str]
) -> None:
    found = detect_cycle("a", dependencies, existing)
    assert found.has_cycle is bool(path)
    assert found.cycle_path == path


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], "SATISFIED"),
        ([C, C], "SATISFIED"),
        ([C, P], "WAITING"),
        ([Y], "WAITING"),
        ([U, C], "WAITING"),
        ([U, F], "BLOCKED"),
        ([B, P], "BLOCKED"),
        ([C, F], "BLOCKED"),
    ],
)
def test_readiness_follows_the_rules_in_order(statuses: list[JobStatus], expected: str) -> None:
    known = {str(number): status for number, status in enumerate(statuses)}
    job = a_job(dependencies=list(known))
    assert dependency_status(job, known) is DependencyStatus(expected)


def test_a_dependency_without_a_status_is_waited_for() -> None:
    job = a_job(dependencies=["a", "b"])
    assert dependency_status(job, {"a": C}) is DependencyStatus.WAITING
    assert dependency_status(job, {"a": F}) is DependencyStatus.BLOCKED


def test_jobs_are_sorted_by_the_first_difference() -> None:
    jobs = {
        "low": a_job(priority=1, created_at=NOW - MINUTE),
        "young": a_job(priority=9, created_at=NOW),
        "old, later id": a_job(priority=9, created_at=NOW - MINUTE, id="b"),
        "old, earlier id": a_job(priority=9, created_at=NOW - MINUTE, id="a"),
        "high": a_job(priority=10, created_at=NOW),
    }
    names = {job.id: name for name, job in jobs.items()}
    ordered = [names[job.id] for job in order_jobs(jobs.values())]
    assert ordered == ["high", "old, earlier id", "old, later id", "young", "low"]


@pytest.mark.parametrize(
    ("running_count", "max_concurrent", "count"),
    [(0, 3, 3), (1, 3, 2), (3, 3, 0), (5, 3, 0), (0, 0, 0), (0, 99, 4)],
)
def test_free_places_are_filled_in_order(
    running_count: int, max_concurrent: int, count: int
) -> None:
    jobs = [a_job(priority=priority) for priority in (2, 9, 5, 7)]
    chosen = select_next(jobs, running_count, max_concurrent)
    assert [job.priority for job in chosen] == [9, 7, 5, 2][:count]


@pytest.mark.parametrize(
    ("strategy", "delays"),
    [
        ("FIXED", [10, 10, 10, 10]),
        ("LINEAR", [10, 20, 30, 40]),
        ("EXPONENTIAL", [10, 20, 40, 80]),
    ],
)
def test_delays_are_those_of_the_table(strategy: str, delays: list[int]) -> None:
    policy = RetryPolicy(backoff_strategy=BackoffStrategy(strategy))
    found = [retry_delay(policy, number) for number in range(1, 5)]
    assert found == delays
    assert all(type(delay) is int for delay in found)


def test_growing_delays_stop_at_the_cap() -> None:
    linear = RetryPolicy(
        backoff_strategy=BackoffStrategy.LINEAR, base_delay_seconds=10, max_delay_seconds=25
    )
    exponential = RetryPolicy(base_delay_seconds=10, max_delay_seconds=25)
    assert [retry_delay(linear, number) for number in (2, 3, 9)] == [20, 25, 25]
    assert [retry_delay(exponential, number) for number in (2, 3, 9)] == [20, 25, 25]


def test_a_job_may_be_retried_below_its_limit() -> None:
    policy = RetryPolicy(max_attempts=3)
    counts = range(5)
    found = [should_retry(a_job(attempt_count=count, retry_policy=policy)) for count in counts]
    assert found == [True, True, True, False, False]


def test_a_job_runs_as_often_as_it_may_and_no_more() -> None:
    job = a_job(retry_policy=RetryPolicy(max_attempts=3), due_at=NOW)
    runs = 0
    while job.status is Y:
        job = decide_lease(job, "w", MINUTE, job.due_at).job
        runs += 1
        job = decide_fail(job, "boom", NOW).job
    assert (runs, job.status, job.attempt_count) == (3, F, 3)


def test_six_moves_are_allowed_and_no_others() -> None:
    allowed = {
        (current, target)
        for current in JobStatus
        for target in JobStatus
        if can_transition(current, target)
    }
    assert allowed == {(P, Y), (P, B), (Y, U), (U, C), (U, Y), (U, F)}


def test_a_failure_blocks_waiting_jobs_downstream_and_stops_at_others() -> None:
    jobs = [
        a_job(id="a", status=F),
        a_job(id="b", dependencies=["a"]),
        a_job(id="c", dependencies=["b"]),
        a_job(id="d", dependencies=["a"], status=U),
        a_job(id="e", dependencies=["d"]),
        a_job(id="f", dependencies=["x"]),
        a_job(id="g", dependencies=["c", "f"]),
    ]
    assert propagate_failure("a", jobs) == {"b", "c", "g"}
    assert propagate_failure("nobody", jobs) == set()


def test_a_completion_readies_jobs_whose_last_dependency_it_was() -> None:
    jobs = [
        a_job(id="a", status=U),
        a_job(id="b", status=C),
        a_job(id="c", dependencies=["a"]),
        a_job(id="d", dependencies=["a", "b"]),
        a_job(id="e", dependencies=["a", "c"]),
        a_job(id="f", dependencies=["a"], status=B),
        a_job(id="g", dependencies=["b"]),
    ]
    assert propagate_completion("a", jobs) == {"c", "d"}
