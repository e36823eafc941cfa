from datetime import UTC, datetime, timedelta

import pytest

from rota import parse_cron
from rota.scheduler.running.agenda import Agenda, Task
from rota.scheduler.tasks.state import TaskState, record_failure

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def nothing() -> None:
    """A callback."""


def an_agenda(now: datetime = TEN, **crons: str) -> Agenda:
    """An agenda with these tasks, none of them waiting to be looked at."""
    agenda = Agenda(UTC, "both")
    for name, cron in crons.items():
        add(agenda, name, cron, now)
    drain(agenda)
    return agenda


def add(agenda: Agenda, name: str, cron: str, now: datetime = TEN) -> Task:
    state = TaskState(name=name, cron_expression=cron, retry_delay_ms=1000, running=False)
    task = Task(state, 1, nothing, agenda.schedule_for(parse_cron(cron), now))
    agenda.add(task)
    return task


def drain(agenda: Agenda) -> list[str]:
    taken = []
    while (task := agenda.take()) is not None:
        taken.append(task.state.name)
    return taken


def test_a_new_task_is_looked_at_soon_and_once() -> None:
    agenda = Agenda(UTC, "both")
    task = add(agenda, "a", "0 * * * *")
    agenda.reconsider(task)
    assert drain(agenda) == ["a"]
    assert drain(agenda) == []


@pytest.mark.clause("D-8", "D-26")
def test_tasks_are_queued_when_their_occurrence_comes() -> None:
    agenda = an_agenda(a="5 * * * *", b="5 * * * *", c="7 * * * *")
    assert agenda.next_look_at == TEN + 5 * MINUTE
    agenda.advance(TEN + 5 * MINUTE - timedelta(microseconds=1))
    assert drain(agenda) == []
    agenda.advance(TEN + 5 * MINUTE)
    assert drain(agenda) == ["a", "b"]
    assert agenda.next_look_at == TEN + 7 * MINUTE


@pytest.mark.clause("D-63")
def test_tasks_of_one_expression_share_its_schedule() -> None:
    agenda = an_agenda(a="5 * * * *", b="5 * * * *", c="7 * * * *")
    schedules = {id(task.schedule) for task in agenda.tasks.values()}
    assert len(schedules) == 2


@pytest.mark.clause("D-15")
def test_after_a_long_sleep_each_task_is_queued_once() -> None:
    agenda = an_agenda(a="* * * * *", b="0 * * * *")
    agenda.advance(TEN + timedelta(days=7))
    assert sorted(drain(agenda)) == ["a", "b"]
    assert agenda.tasks["a"].schedule.last_due_at == TEN + timedelta(days=7)
    assert agenda.next_look_at == TEN + timedelta(days=7) + MINUTE


@pytest.mark.clause("D-29")
def test_a_retry_is_queued_when_it_is_due() -> None:
    agenda = an_agenda(a="0 12 * * *")
    task = agenda.tasks["a"]
    task.state = record_failure(task.state, TEN)
    agenda.reconsider(task)
    drain(agenda)
    assert agenda.next_look_at == TEN + timedelta(seconds=1)
    agenda.advance(TEN + timedelta(seconds=1))
    assert drain(agenda) == ["a"]


def test_a_held_or_removed_task_is_passed_over() -> None:
    agenda = an_agenda(a="5 * * * *", b="5 * * * *", c="5 * * * *")
    agenda.tasks["a"].is_held = True
    agenda.advance(TEN + 5 * MINUTE)
    agenda.remove("b")
    agenda.remove("nobody")
    assert drain(agenda) == ["c"]


def test_an_expression_nobody_uses_any_more_wakes_nobody() -> None:
    agenda = an_agenda(a="5 * * * *", b="7 * * * *")
    agenda.remove("a")
    agenda.advance(TEN + 5 * MINUTE)
    assert drain(agenda) == []
    assert agenda.next_look_at == TEN + 7 * MINUTE


def test_a_task_that_is_removed_and_added_again_is_the_new_one() -> None:
    agenda = an_agenda(a="5 * * * *")
    old = agenda.tasks["a"]
    agenda.reconsider(old)
    agenda.remove("a")
    new = add(agenda, "a", "5 * * * *")
    assert agenda.take() is new
    assert agenda.take() is None


def test_a_moved_task_follows_its_new_expression_only() -> None:
    agenda = an_agenda(a="5 * * * *")
    task = agenda.tasks["a"]
    agenda.move(task, agenda.schedule_for(parse_cron("7 * * * *"), TEN))
    agenda.advance(TEN + 5 * MINUTE)
    assert drain(agenda) == []
    agenda.advance(TEN + 7 * MINUTE)
    assert drain(agenda) == ["a"]


@pytest.mark.clause("D-7")
def test_a_clock_set_back_plans_the_occurrences_anew() -> None:
    agenda = an_agenda(a="30 * * * *")
    agenda.advance(TEN + 31 * MINUTE)
    drain(agenda)
    agenda.advance(TEN)
    assert agenda.next_look_at == TEN + 30 * MINUTE
    assert agenda.tasks["a"].schedule.last_due_at == TEN - 30 * MINUTE


def test_without_tasks_there_is_nothing_to_wait_for() -> None:
    agenda = Agenda(UTC, "both")
    agenda.advance(TEN)
    assert agenda.next_look_at is None
    assert not agenda.has_queued


def test_a_task_takes_the_place_of_another_but_not_its_run() -> None:
    agenda = an_agenda(a="5 * * * *", b="7 * * * *")
    old, new = agenda.tasks["a"], agenda.tasks["b"]
    old.is_held = True
    old.become(new)
    assert (old.state, old.schedule, old.is_held) == (new.state, new.schedule, True)
