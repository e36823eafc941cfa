"""How a lease goes through its rounds, and what it asks a store."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.jobs import Job, JobId
from rota.stores.kernel.limits import (
    MOST_CONTENDED,
    CountRunning,
    FindFirst,
    FindPartitions,
    Standing,
    TakeJobs,
    lease_chosen,
    lease_limited,
    preview_lease,
)
from rota.stores.kernel.unit import Partition, run
from rota.stores.protocol import LOOK_AHEAD, Cap, LeasePreview, LeaseRequest
from rota.testing import a_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CAP = (Cap("a", running=3),)


class Line:
    """Due jobs, of which other callers take some before this one can."""

    def __init__(self, *jobs: Job, running: dict[Partition, int] | None = None) -> None:
        self.jobs = list(jobs)
        self.running = running or {}
        self.lost: set[JobId] = set()
        self.outpaced_count = 0
        """How many times the answer is that another caller's lease may exceed a cap."""
        self.asked: list[Any] = []

    def answer(self, query: Any) -> Any:
        self.asked.append(query)
        match query:
            case CountRunning():
                return self.running
            case FindPartitions(_, limit, full):
                places = [(job.tenant, job.queue) for job in self.jobs]
                tenants = list(dict.fromkeys(tenant for tenant, _ in places))[:limit]
                return [
                    (tenant, queue)
                    for tenant, queue in dict.fromkeys(places)
                    if tenant in tenants
                    and not {(tenant, None), (None, queue), (tenant, queue)} & set(full)
                ]
            case FindFirst(request, partitions, count, passed_over):
                return list(self._find_first(request, partitions, count, passed_over))
            case TakeJobs(_, chosen):
                assert chosen, "a store is not asked to lease nothing"
                if self.outpaced_count:
                    self.outpaced_count -= 1
                    return None
                wanted = {each.job_id for each in chosen} - self.lost
                taken = [job for job in self.jobs if job.id in wanted]
                self.jobs = [job for job in self.jobs if job.id not in wanted]
                return taken[::-1]
        raise AssertionError(query)

    def _find_first(
        self,
        request: LeaseRequest,
        partitions: Sequence[Partition],
        count: int,
        passed_over: Sequence[JobId],
    ) -> Any:
        for place in partitions:
            there = [
                job
                for job in self.jobs
                if (job.tenant, job.queue) == place
                and job.id not in passed_over
                and request.accepts(job.kind, job.label)
            ]
            for job in there[:count]:
                yield Standing(job.id, job.tenant, job.queue, job.priority, job.created_at)

    def count(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self.asked)


def a_request(limit: int, **given: Any) -> LeaseRequest:
    return LeaseRequest(worker="w", limit=limit, lease_for=timedelta(seconds=5), **given)


def some(tenant: str, count: int, **fields: Any) -> list[Job]:
    return [a_job(tenant=tenant, created_at=NOW, **fields) for _ in range(count)]


def ids(jobs: Sequence[Job]) -> list[JobId]:
    return [job.id for job in jobs]


def test_rounds_follow_until_there_are_enough_jobs() -> None:
    first, second = some("a", 4), some("b", 1)
    line = Line(*first, *second)
    taken = run(lease_limited(a_request(4, caps=CAP), NOW), line.answer)
    assert ids(taken) == ids([first[0], second[0], first[1], first[2]])
    assert line.jobs == [first[3]]
    assert line.count(FindPartitions) == 2


def test_a_lease_ends_when_no_job_is_left() -> None:
    jobs = some("a", 2)
    line = Line(*jobs)
    assert run(lease_limited(a_request(9, caps=(Cap(running=5),)), NOW), line.answer) == jobs
    assert (line.count(TakeJobs), line.count(FindPartitions)) == (1, 2)


def test_a_lease_takes_no_more_than_is_free() -> None:
    jobs = some("a", 5)
    line = Line(*jobs, running={("a", "default"): 1})
    assert run(lease_limited(a_request(5, caps=CAP), NOW), line.answer) == jobs[:2]
    full = Line(*jobs, running={("a", "default"): 3})
    assert run(lease_limited(a_request(5, caps=CAP), NOW), full.answer) == []
    everything = Line(*jobs, running={("b", "x"): 3})
    assert run(lease_limited(a_request(5, caps=(Cap(running=3),)), NOW), everything.answer) == []
    assert not everything.count(FindPartitions)


def test_a_job_that_another_caller_took_gives_its_place_to_the_next() -> None:
    jobs = some("a", 5)
    line = Line(*jobs)
    line.lost = {jobs[1].id}
    taken = run(lease_limited(a_request(3, caps=CAP), NOW), line.answer)
    assert taken == [jobs[0], jobs[2], jobs[3]]


def test_a_lease_that_loses_every_job_to_others_gives_up() -> None:
    jobs = some("a", 40)
    for reading in (
        lease_limited(a_request(2, caps=CAP), NOW),
        lease_chosen(a_request(2, kinds=["a job"]), NOW),
    ):
        line = Line(*jobs)
        line.lost = set(ids(jobs))
        assert run(reading, line.answer) == []
        assert line.count(TakeJobs) == MOST_CONTENDED


def test_rounds_that_bring_a_job_do_not_count_as_lost() -> None:
    jobs = some("a", 40)
    line = Line(*jobs)
    line.lost = set(ids(jobs[1::2]))
    taken = run(lease_chosen(a_request(9, kinds=["a job"]), NOW), line.answer)
    assert taken == jobs[0:18:2]


def test_a_lease_that_another_outpaced_counts_again_what_runs() -> None:
    jobs = some("a", 2)
    line = Line(*jobs)
    line.outpaced_count = 1
    assert run(lease_limited(a_request(2, caps=CAP), NOW), line.answer) == jobs
    assert line.count(CountRunning) == 2
    line = Line(*jobs)
    line.outpaced_count = 99
    assert run(lease_limited(a_request(2, caps=CAP), NOW), line.answer) == []
    assert line.count(TakeJobs) == MOST_CONTENDED


def test_what_was_leased_stays_when_a_later_round_is_outpaced() -> None:
    first, second = some("a", 3), some("b", 1)
    line = Line(*first, *second)

    def answer(query: Any) -> Any:
        line.outpaced_count = int(line.count(TakeJobs) > 0)
        return line.answer(query)

    taken = run(lease_limited(a_request(4, caps=CAP), NOW), answer)
    assert taken == [first[0], second[0], first[1]][: len(taken)]
    assert taken
    assert line.count(TakeJobs) == 2


def test_a_lease_by_kind_looks_past_jobs_that_the_caller_cannot_run() -> None:
    others, mine = some("a", 3, kind="other"), some("b", 3, kind="mine")
    line = Line(*others, *mine)
    assert run(lease_chosen(a_request(2, kinds=["mine"]), NOW), line.answer) == mine[:2]
    assert line.asked[0].limit == LOOK_AHEAD
    assert line.asked[1].job_count == 2
    assert line.count(TakeJobs) == 1
    assert run(lease_chosen(a_request(2, kinds=["none"]), NOW), line.answer) == []
    assert run(lease_chosen(a_request(2, kinds=["none"]), NOW), Line().answer) == []


def test_a_lease_by_kind_that_got_all_there_is_asks_no_more() -> None:
    jobs = some("a", 2)
    line = Line(*jobs)
    assert run(lease_chosen(a_request(5, kinds=["a job"]), NOW), line.answer) == jobs
    assert line.count(FindPartitions) == 1


def test_a_lease_by_kind_takes_turns_and_orders_each_tenants_jobs() -> None:
    low, high = some("a", 2, priority=1), some("a", 1, priority=9)
    line = Line(*low, *high, *some("b", 1))
    taken = run(lease_chosen(a_request(3, kinds=["a job"]), NOW), line.answer)
    assert [(job.tenant, job.priority) for job in taken] == [("a", 9), ("b", 5), ("a", 1)]


def test_a_lease_by_kind_serves_no_more_tenants_than_it_wants_jobs() -> None:
    jobs = [*some("a", 1), *some("b", 1), *some("c", 1)]
    line = Line(*jobs)
    assert run(lease_chosen(a_request(2, kinds=["a job"]), NOW), line.answer) == jobs[:2]


def test_a_preview_names_the_partitions_with_room_and_what_runs() -> None:
    running = {("a", "default"): 3}
    line = Line(*some("a", 1), *some("b", 1), *some("c", 1), running=running)
    assert run(preview_lease(a_request(2, caps=CAP)), line.answer) == LeasePreview(
        [("b", "default")], running
    )
    uncounted = run(preview_lease(a_request(2, caps=(Cap("b", count=0),))), line.answer)
    assert uncounted == LeasePreview([("a", "default")], {})
    wide = run(preview_lease(a_request(1, kinds=["a job"])), line.answer)
    assert wide.partitions == [(tenant, "default") for tenant in "abc"]


def test_a_preview_of_a_full_store_names_no_partition() -> None:
    running = {("a", "default"): 3}
    line = Line(*some("a", 1), running=running)
    preview = run(preview_lease(a_request(2, caps=(Cap(running=3),))), line.answer)
    assert preview == LeasePreview([], running)
