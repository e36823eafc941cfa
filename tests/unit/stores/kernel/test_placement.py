"""How jobs that are submitted together are stored."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import DependencyCycleError
from rota.jobs import Job, JobStatus, dependency_status, detect_cycle
from rota.jobs.graph import DependencyStatus
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.testing import a_job

NOTHING = Kept(by_id={}, by_identity={}, statuses={})
EXPECTED = {
    DependencyStatus.SATISFIED: JobStatus.READY,
    DependencyStatus.WAITING: JobStatus.PENDING,
    DependencyStatus.BLOCKED: JobStatus.BLOCKED,
}


@given(st.integers(0, 10_000), st.integers(1, 12))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_statuses_agree_with_the_rules_in_any_order(seed: int, size: int) -> None:
    random = Random(seed)
    outside = {a_job().id: random.choice(list(JobStatus)) for _ in range(3)}
    jobs: list[Job] = []
    for _ in range(size):
        near = [job.id for job in jobs] + list(outside)
        jobs.append(a_job(dependencies=random.sample(near, random.randint(0, min(3, len(near))))))
    random.shuffle(jobs)
    statuses = {("default", job_id): status for job_id, status in outside.items()}
    answers = plan_insertion(jobs, Kept(by_id={}, by_identity={}, statuses=statuses))
    known = outside | {answer.job.id: answer.job.status for answer in answers}
    assert [answer.job.id for answer in answers] == [job.id for job in jobs]
    for answer in answers:
        assert answer.job.status is EXPECTED[dependency_status(answer.job, known)]


@given(st.integers(0, 10_000))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_exactly_the_graphs_with_a_cycle_are_refused(seed: int) -> None:
    random = Random(seed)
    ids = [a_job().id for _ in range(5)]
    jobs = [a_job(id=each, dependencies=random.sample(ids, random.randint(0, 2))) for each in ids]
    edges = {job.id: job.dependencies for job in jobs}
    has_cycle = any(detect_cycle(each, edges[each], edges).has_cycle for each in ids)
    if not has_cycle:
        assert len(plan_insertion(jobs, NOTHING)) == 5
        return
    with pytest.raises(DependencyCycleError) as refusal:
        plan_insertion(jobs, NOTHING)
    path = refusal.value.cycle_path
    assert all(
        after in edges[before] for before, after in zip(path, [*path[1:], path[0]], strict=True)
    )


def test_twenty_thousand_in_a_row_are_placed() -> None:
    chain = [a_job()]
    for _ in range(19_999):
        chain.append(a_job(dependencies=[chain[-1].id]))
    answers = plan_insertion(chain[::-1], NOTHING)
    assert answers[-1].job.status is JobStatus.READY
    assert {answer.job.status for answer in answers[:-1]} == {JobStatus.PENDING}
