"""Several schedulers on one store: each occurrence starts once, whichever of them dies.

A minute of their clock lasts a second. What happened is read from files outside the store, and
judged twice: by the axioms, and by a plain count of the starts.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from tests.process.fleet import Fleet, gathered_fleet, wait_for
from tests.process.occurrences import (
    MINUTE,
    find_miscounts,
    is_survived,
    list_lives,
    list_runs,
    merge_traces,
)
from tests.process.programs.replica import TaskOrder
from tests.verification.trace import Entry, RunStarted, Tolerance, check_replicas

from rota import parse_cron
from rota.triggers.cron import Cron

pytestmark = pytest.mark.process

SEED = 20_240_304
TASK_COUNT = 200
EVERY = 5
"""Minutes between two occurrences of a task: on a slow machine a start may be late by as much."""
SLACK = timedelta(minutes=EVERY - 1)
UNSTORED = timedelta(seconds=45)
"""For how long the end of a run may be on its way to the disk."""
TOLERANCE = Tolerance(after_crash=timedelta(seconds=30), settle_lag=UNSTORED)


def make_tasks(seed: int, count: int = TASK_COUNT) -> list[TaskOrder]:
    """Tasks on every minute of the hour; most run for seconds, some for longer than a minute."""
    random = Random(seed)
    return [
        TaskOrder(
            f"task-{number:03}",
            ",".join(map(str, range(number % EVERY, 60, EVERY))) + " * * * *",
            timedelta(seconds=90 if number % 20 == 0 else random.randint(3, 40)),
        )
        for number in range(count)
    ]


def wait_for_a_moment(fleet: Fleet, random: Random) -> None:
    """Until some time within the next minute, or just when the next claims are being written."""
    now = fleet.clock.now()
    if random.random() < 0.5:
        fleet.wait_until(now + random.uniform(0.3, 1.0) * MINUTE)
    else:
        boundary = now.replace(second=0, microsecond=0) + MINUTE
        fleet.wait_until(boundary + timedelta(seconds=random.uniform(0, 3)))


def kill_some(fleet: Fleet, random: Random) -> int:
    """Kill the busiest and up to two more, never the last one, and start others in their place."""
    at_work = fleet.at_work
    random.shuffle(at_work)
    at_work.sort(key=lambda replica: len(replica.running), reverse=True)
    victims = at_work[:1] + random.sample(at_work[1:], len(at_work) - 1)
    victims = victims[: min(random.randint(1, 3), len(at_work) - 1)]
    for victim in victims:
        victim.kill()
        fleet.start()
    return len(victims)


def list_minutes(first: datetime, last: datetime) -> Iterator[datetime]:
    minute = first.replace(second=0, microsecond=0) + MINUTE
    while minute + MINUTE <= last:
        yield minute
        minute += MINUTE


def assert_in_order(traces: list[list[Entry]]) -> None:
    check_replicas(traces, zone=UTC, allowance=SLACK, tolerance=TOLERANCE).assert_ok()


def test_replicas_start_each_occurrence_once_when_any_is_killed(tmp_path: Path) -> None:
    random, tasks = Random(SEED), make_tasks(SEED)
    with gathered_fleet(tmp_path, tasks) as fleet:
        begun_at = fleet.start_and_await(1)[0].orders.clock.now()
        fleet.start_and_await(3)
        kill_count = 0
        while fleet.clock.now() < begun_at + 11 * MINUTE or kill_count < 12:
            wait_for_a_moment(fleet, random)
            kill_count += kill_some(fleet, random)
        killed_until = fleet.clock.now()
        fleet.wait_until(killed_until + 2 * MINUTE)
        for replica in fleet.at_work:
            replica.stop()
        traces = fleet.traces()

    trace = merge_traces(traces)
    lives, runs = list_lives(trace), list_runs(trace, timedelta())
    minutes = list(list_minutes(begun_at, killed_until))
    assert len(minutes) >= 10
    assert all(is_survived(minute, lives) for minute in minutes)
    assert sum(run.cut_at is not None for of_task in runs.values() for run in of_task) >= 50
    window = (begun_at, killed_until)
    expressions = {task.name: task.expression for task in tasks}
    assert list(find_miscounts(trace, expressions, window, UNSTORED)) == []
    assert_in_order(traces)
    assert_the_judges_would_have_noticed(traces, expressions, window)


def assert_the_judges_would_have_noticed(
    traces: list[list[Entry]], expressions: dict[str, str], window: tuple[datetime, datetime]
) -> None:
    """The same history, with one start more, is refused by both."""
    runs = list_runs(merge_traces(traces), UNSTORED)
    name, run = next(
        (name, run)
        for name, of_task in runs.items()
        for run in of_task
        if run.cut_at is None and is_within(parse_cron(expressions[name]), run.started_at, window)
    )
    twice = RunStarted(name, at=run.started_at + timedelta(seconds=1), instance="replica-99")
    assert list(find_miscounts(merge_traces([*traces, [twice]]), expressions, window, UNSTORED))
    assert {"T2", "S1"} & check_replicas([*traces, [twice]], zone=UTC, allowance=SLACK).axioms


def is_within(cron: Cron, started_at: datetime, window: tuple[datetime, datetime]) -> bool:
    """Whether the occurrence that was answered then, and the next one, lie in the window."""
    begins_at, ends_at = window
    is_counted = begins_at < cron.previous_at(started_at, UTC, fold="both")
    return is_counted and cron.next_after(started_at, UTC, fold="both") <= ends_at


@pytest.fixture(params=["sqlite", "postgres", "mysql", "redis", "mongo"])
def address(request: pytest.FixtureRequest) -> str | None:
    """Where the store is, unless it is a file in the test's folder."""
    return None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")


def test_another_replica_restarts_the_runs_of_a_killed_one(
    tmp_path: Path, address: str | None
) -> None:
    tasks = [TaskOrder(f"task-{number}", "* * * * *", 3 * MINUTE) for number in range(8)]
    with gathered_fleet(tmp_path, tasks, address) as fleet:
        victim, survivor = fleet.start_and_await(2)
        wait_for(lambda: len(started_by(fleet)) == len(tasks), "the start of every task")
        if not any(isinstance(entry, RunStarted) for entry in victim.history):
            victim, survivor = survivor, victim  # the first one may claim them all
        cut_off = {entry.name for entry in victim.history if isinstance(entry, RunStarted)}
        kept = started_by(fleet) - cut_off
        before = len(survivor.history)
        victim.kill()
        wait_for(
            lambda: (
                {it.name for it in survivor.history[before:] if isinstance(it, RunStarted)}
                >= cut_off
            ),
            "the restart of what was cut off",
        )
        traces = fleet.traces()
        assert victim.killed_at is not None
        restarted = [it for it in survivor.history[before:] if isinstance(it, RunStarted)]
    assert kept.isdisjoint(
        entry.name for entry in restarted if entry.at < victim.killed_at + MINUTE
    )
    assert max(entry.at for entry in restarted) - victim.killed_at < SLACK
    assert_in_order(traces)


def started_by(fleet: Fleet) -> set[str]:
    return {
        entry.name
        for replica in fleet.replicas
        for entry in replica.history
        if isinstance(entry, RunStarted)
    }
