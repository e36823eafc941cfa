"""Dependencies: cycles, readiness, and who is concerned when a job ends."""

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import always

from rota.jobs import (
    DependencyStatus,
    Job,
    JobStatus,
    dependency_status,
    detect_cycle,
    find_dependents,
    propagate_completion,
    propagate_failure,
)
from rota.testing import a_job

P, Y, U, C, F, B = JobStatus
CHAIN_LENGTH = 100_000
NODES = [str(number) for number in range(6)]
GRAPHS = st.dictionaries(
    st.sampled_from(NODES), st.lists(st.sampled_from(NODES), unique=True, max_size=4)
)


def reachable(start: str, graph: Mapping[str, list[str]]) -> set[str]:
    """By squaring the relation until nothing is added: slow, and obviously right."""
    found: set[str] = set(graph.get(start, ()))
    while True:
        more = found | {far for near in found for far in graph.get(near, ())}
        if more == found:
            return found
        found = more


@settings(always, max_examples=300)
@given(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), unique=True), GRAPHS)
def test_a_cycle_is_found_if_and_only_if_there_is_one(
    new: str, dependencies: list[str], existing: dict[str, list[str]]
) -> None:
    graph = existing | {new: dependencies}
    around = {new} | reachable(new, graph)
    has_cycle = any(node in reachable(node, graph) for node in around)
    found = detect_cycle(new, dependencies, existing)
    assert found.has_cycle is has_cycle
    assert bool(found.cycle_path) is has_cycle


@always
@given(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), unique=True), GRAPHS)
def test_the_path_is_a_cycle_without_repetition(
    new: str, dependencies: list[str], existing: dict[str, list[str]]
) -> None:
    graph = existing | {new: dependencies}
    path = detect_cycle(new, dependencies, existing).cycle_path
    assert len(path) == len(set(path))
    for here, there in pairwise([*path, *path[:1]]):
        assert there in graph[here]


def timed_chain(length: int) -> dict[str, list[str]]:
    return {str(number): [str(number + 1)] for number in range(length)}


@pytest.mark.parametrize("end", [[], ["new"]], ids=["open", "closed"])
def test_a_long_chain_is_walked_in_no_time(end: list[str]) -> None:
    """Each job once, and without recursion: anything else would not end within the run's limit."""
    existing = timed_chain(CHAIN_LENGTH) | {str(CHAIN_LENGTH): end}
    found = detect_cycle("new", ["0"], existing)
    assert len(found.cycle_path) == (CHAIN_LENGTH + 2 if end else 0)


def test_a_lattice_is_walked_once_not_once_for_each_way() -> None:
    lattice = {
        f"{level}{side}": [f"{level + 1}a", f"{level + 1}b"]
        for level in range(500)
        for side in "ab"
    }
    assert not detect_cycle("new", ["0a", "0b"], lattice).has_cycle


STATUSES = st.dictionaries(st.sampled_from(NODES), st.sampled_from(JobStatus))


@always
@given(st.lists(st.sampled_from(NODES), unique=True), STATUSES)
def test_the_rules_are_applied_in_their_order(
    dependencies: list[str], statuses: dict[str, JobStatus]
) -> None:
    values = {statuses.get(each) for each in dependencies}
    if values & {F, B}:
        expected = DependencyStatus.BLOCKED
    elif values - {C}:
        expected = DependencyStatus.WAITING
    else:
        expected = DependencyStatus.SATISFIED
    assert dependency_status(a_job(dependencies=dependencies), statuses) is expected


@st.composite
def jobs_of_any_shape(draw: st.DrawFn) -> list[Job]:
    """Up to six jobs with any status; their dependencies may even be circular."""
    graph = draw(GRAPHS)
    status = st.sampled_from([P, P, P, *JobStatus])
    return [a_job(id=n, dependencies=graph.get(n, []), status=draw(status)) for n in NODES]


@settings(always, max_examples=300)
@given(st.sampled_from(NODES), jobs_of_any_shape())
def test_failure_reaches_exactly_the_pending_through_the_pending(
    failed: str, jobs: list[Job]
) -> None:
    waiting: dict[str, list[str]] = {node: [] for node in NODES}
    for job in jobs:
        for dependency in job.dependencies:
            if job.status is P:
                waiting[dependency].append(job.id)
    assert propagate_failure(failed, iter(jobs)) == reachable(failed, waiting)


@settings(always, max_examples=300)
@given(st.sampled_from(NODES), jobs_of_any_shape())
def test_completion_readies_those_that_wait_for_nothing_else(
    completed: str, jobs: list[Job]
) -> None:
    done = {job.id for job in jobs if job.status is C} | {completed}
    expected = {
        job.id
        for job in jobs
        if job.status is P and completed in job.dependencies and set(job.dependencies) <= done
    }
    assert propagate_completion(completed, iter(jobs)) == expected


def test_an_unknown_dependency_counts_as_waiting() -> None:
    child = a_job(dependencies=["a", "elsewhere"])
    assert propagate_completion("a", [a_job(id="a", status=C), child]) == set()


def test_a_chain_of_a_hundred_thousand_jobs_is_an_ordinary_input() -> None:
    template = a_job(id="0", status=U)
    jobs = [template]
    jobs += [
        type(template)(
            id=str(number),
            queue="q",
            name="n",
            kind="k",
            due_at=template.due_at,
            status=P,
            dependencies=(str(number - 1),),
            created_at=template.created_at,
            updated_at=template.created_at,
        )
        for number in range(1, CHAIN_LENGTH)
    ]
    assert len(propagate_failure("0", jobs)) == CHAIN_LENGTH - 1
    assert propagate_completion("0", jobs) == {"1"}


def test_dependents_are_found_in_any_state() -> None:
    jobs = [
        a_job(id=name, dependencies=["x"], status=status)
        for name, status in zip("fedcba", JobStatus, strict=True)
    ]
    assert find_dependents("x", [a_job(id="x"), *jobs, a_job(dependencies=["y"])]) == list("abcdef")
