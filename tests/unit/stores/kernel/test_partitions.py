"""Which partitions have due jobs: found step by step, and the same as by a look at all of them."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.stores.kernel.partitions import (
    DuePartition,
    FirstLater,
    FirstMarked,
    NextPartition,
    find_next_due,
    find_partitions,
)
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition, Reading
from rota.stores.protocol import LeaseRequest

NOW = 50
TENANTS = ("a", "ab", "b", "c")
QUEUES = ("o", "p", "pq", "q")
INSTANTS = st.sampled_from((NOW - 1, NOW, NOW + 1, NOW + 9))
MARKED = st.dictionaries(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(QUEUES)),
    st.lists(INSTANTS, min_size=1, max_size=3),
)
"""The jobs marked as due in each partition; a clock that was set back leaves some for later."""
CHOSEN_TENANTS = st.none() | st.sets(st.sampled_from(TENANTS), min_size=1)
CHOSEN_QUEUES = st.none() | st.sets(st.sampled_from(QUEUES), min_size=1)

Jobs = dict[Partition, list[int]]


class Index:
    """An index of jobs that answers as a store does, and counts how often it is asked."""

    def __init__(self, marked: Jobs, later: Jobs) -> None:
        self._marked = marked
        self._later = later
        self.step_count = 0

    def answer(self, question: Any) -> Any:
        match question:
            case NextPartition(tenant, queue):
                self.step_count += 1
                places = sorted(self._marked)
                ahead = [
                    each
                    for each in places
                    if (each[0] > tenant if queue is None else each >= (tenant, queue))
                ]
                return DuePartition(*ahead[0], self._marked[ahead[0]][0]) if ahead else None
            case FirstMarked(tenant, queue, now):
                marked = self._marked[tenant, queue]
                return next((due_at for due_at in marked if due_at <= now), min(marked))
            case FirstLater(queue, tenants):
                due = [
                    min(instants)
                    for place, instants in self._later.items()
                    if is_chosen(place, None if queue is None else {queue}, tenants)
                ]
                return min(due, default=None)
        raise AssertionError(question)

    def play(self, reading: Reading[Any]) -> Any:
        answer = None
        while True:
            try:
                question = reading.send(answer)
            except StopIteration as end:
                return end.value
            answer = self.answer(question)


def a_request(**given: Any) -> LeaseRequest:
    return LeaseRequest(worker="w", limit=1, lease_for=timedelta(seconds=5), **given)


def is_chosen(
    place: Partition, queues: Collection[str] | None, tenants: Collection[str] | None
) -> bool:
    return (queues is None or place[1] in queues) and (tenants is None or place[0] in tenants)


@given(MARKED, CHOSEN_QUEUES, CHOSEN_TENANTS, st.sampled_from(("", *TENANTS)), st.integers(1, 4))
def test_the_due_partitions_of_the_next_tenants_are_found_in_turn(
    marked: Jobs,
    queues: set[str] | None,
    tenants: set[str] | None,
    after: str,
    limit: int,
) -> None:
    request = a_request(queues=queues, tenants=tenants, after_tenant=after)
    due = [
        place
        for place, instants in marked.items()
        if is_chosen(place, queues, tenants) and min(instants) <= NOW
    ]
    turns = order_turns({tenant for tenant, _ in due}, after)[:limit]
    expected = [place for tenant in turns for place in sorted(due) if place[0] == tenant]
    assert Index(marked, {}).play(find_partitions(request, limit, (), NOW)) == expected


@given(MARKED, MARKED, CHOSEN_QUEUES, CHOSEN_TENANTS)
def test_the_next_job_is_due_when_the_first_of_all_is(
    marked: Jobs, later: Jobs, queues: set[str] | None, tenants: set[str] | None
) -> None:
    chosen = [
        instant
        for jobs in (marked, later)
        for place, instants in jobs.items()
        if is_chosen(place, queues, tenants)
        for instant in instants
    ]
    expected = max(NOW, min(chosen)) if chosen else None
    assert Index(marked, later).play(find_next_due(queues, tenants, NOW)) == expected


def test_a_full_partition_is_left_out_and_takes_no_place() -> None:
    marked = {("a", "p"): [1], ("a", "q"): [1], ("b", "p"): [1], ("c", "p"): [1]}
    full = [("a", None), ("b", "p")]
    found = Index(marked, {}).play(find_partitions(a_request(), 1, full, NOW))
    assert found == [("c", "p")]


def test_queues_that_were_not_chosen_are_skipped_in_one_step() -> None:
    marked = {("a", f"q{number:03}"): [1] for number in range(500)} | {("b", "z"): [1]}
    index = Index(marked, {})
    found = index.play(find_partitions(a_request(queues=["q250", "z"]), 9, (), NOW))
    assert found == [("a", "q250"), ("b", "z")]
    assert index.step_count <= 6


def test_no_more_is_read_than_the_tenants_asked_for() -> None:
    marked = {(f"t{number:03}", "p"): [1] for number in range(500)}
    index = Index(marked, {})
    assert len(index.play(find_partitions(a_request(), 3, (), NOW))) == 3
    assert index.step_count == 4


def test_a_partition_whose_first_job_is_due_now_needs_no_closer_look() -> None:
    marked = {("a", "p"): [NOW, NOW + 1], ("b", "p"): [NOW + 1, NOW]}
    assert Index(marked, {}).play(find_partitions(a_request(), 9, (), NOW)) == list(marked)
    assert Index(marked, {}).play(find_next_due(None, None, NOW)) == NOW
    late = {("a", "p"): [NOW + 9, NOW + 5]}
    assert Index(late, {("b", "p"): [NOW + 7]}).play(find_next_due(None, None, NOW)) == NOW + 5
