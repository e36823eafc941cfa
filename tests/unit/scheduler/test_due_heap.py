from datetime import UTC, datetime, timedelta

from rota import parse_cron
from rota.scheduler.due_heap import DueHeap, Task
from rota.scheduler.task import TaskState, record_failure

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def nothing() -> None:
    """A callback."""


def a_heap(now: datetime = TEN, **crons: str) -> DueHeap:
    """A heap with these tasks, none of them queued."""
    heap = DueHeap(UTC, "both")
    for name, cron in crons.items():
        add(heap, name, cron, now)
    drain(heap)
    return heap


def add(heap: DueHeap, name: str, cron: str, now: datetime = TEN) -> Task:
    state = TaskState(name=name, cron_expression=cron, retry_delay_ms=1000, running=False)
    task = Task(state, 1, nothing, heap.schedule_for(parse_cron(cron), now))
    heap.add(task)
    return task


def drain(heap: DueHeap) -> list[str]:
    taken = []
    while (task := heap.take()) is not None:
        taken.append(task.state.name)
    return taken


def test_a_new_task_is_queued_once() -> None:
    heap = DueHeap(UTC, "both")
    task = add(heap, "a", "0 * * * *")
    heap.reconsider(task)
    assert drain(heap) == ["a"]
    assert drain(heap) == []


def test_tasks_are_queued_when_their_occurrence_comes() -> None:
    heap = a_heap(a="5 * * * *", b="5 * * * *", c="7 * * * *")
    assert heap.next_due_at == TEN + 5 * MINUTE
    heap.advance(TEN + 5 * MINUTE - timedelta(microseconds=1))
    assert drain(heap) == []
    heap.advance(TEN + 5 * MINUTE)
    assert drain(heap) == ["a", "b"]
    assert heap.next_due_at == TEN + 7 * MINUTE


def test_tasks_of_one_expression_share_its_schedule() -> None:
    heap = a_heap(a="5 * * * *", b="5 * * * *", c="7 * * * *")
    schedules = {id(task.schedule) for task in heap.tasks.values()}
    assert len(schedules) == 2


def test_after_a_long_sleep_each_task_is_queued_once() -> None:
    heap = a_heap(a="* * * * *", b="0 * * * *")
    heap.advance(TEN + timedelta(days=7))
    assert sorted(drain(heap)) == ["a", "b"]
    assert heap.tasks["a"].schedule.last_due_at == TEN + timedelta(days=7)
    assert heap.next_due_at == TEN + timedelta(days=7) + MINUTE


def test_a_retry_is_queued_when_it_is_due() -> None:
    heap = a_heap(a="0 12 * * *")
    task = heap.tasks["a"]
    task.state = record_failure(task.state, TEN)
    heap.reconsider(task)
    drain(heap)
    assert heap.next_due_at == TEN + timedelta(seconds=1)
    heap.advance(TEN + timedelta(seconds=1))
    assert drain(heap) == ["a"]


def test_a_held_or_removed_task_is_skipped() -> None:
    heap = a_heap(a="5 * * * *", b="5 * * * *", c="5 * * * *")
    heap.tasks["a"].is_held = True
    heap.advance(TEN + 5 * MINUTE)
    heap.remove("b")
    heap.remove("unknown")
    assert drain(heap) == ["c"]


def test_an_unused_expression_queues_nothing() -> None:
    heap = a_heap(a="5 * * * *", b="7 * * * *")
    heap.remove("a")
    heap.advance(TEN + 5 * MINUTE)
    assert drain(heap) == []
    assert heap.next_due_at == TEN + 7 * MINUTE


def test_a_task_that_is_removed_and_added_again_is_the_new_one() -> None:
    heap = a_heap(a="5 * * * *")
    old = heap.tasks["a"]
    heap.reconsider(old)
    heap.remove("a")
    new = add(heap, "a", "5 * * * *")
    assert heap.take() is new
    assert heap.take() is None


def test_a_moved_task_follows_its_new_expression_only() -> None:
    heap = a_heap(a="5 * * * *")
    task = heap.tasks["a"]
    heap.move(task, heap.schedule_for(parse_cron("7 * * * *"), TEN))
    heap.advance(TEN + 5 * MINUTE)
    assert drain(heap) == []
    heap.advance(TEN + 7 * MINUTE)
    assert drain(heap) == ["a"]


def test_a_clock_set_back_replans_the_occurrences() -> None:
    heap = a_heap(a="30 * * * *")
    heap.advance(TEN + 31 * MINUTE)
    drain(heap)
    heap.advance(TEN)
    assert heap.next_due_at == TEN + 30 * MINUTE
    assert heap.tasks["a"].schedule.last_due_at == TEN - 30 * MINUTE


def test_an_empty_heap_has_no_next_due_time() -> None:
    heap = DueHeap(UTC, "both")
    heap.advance(TEN)
    assert heap.next_due_at is None
    assert heap.take() is None


def test_a_task_takes_the_place_of_another_but_not_its_run() -> None:
    heap = a_heap(a="5 * * * *", b="7 * * * *")
    old, new = heap.tasks["a"], heap.tasks["b"]
    old.is_held = True
    old.become(new)
    assert (old.state, old.schedule, old.is_held) == (new.state, new.schedule, True)
