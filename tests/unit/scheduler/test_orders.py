"""Operators' orders: run now, pause and resume, seen by schedulers of any process."""

from collections.abc import AsyncIterator
from datetime import UTC, timedelta

import pytest
from tests.spec.stage import MONDAY, Stage, at, minutes, seconds

from rota import Scheduler, SchedulerSettings
from rota.errors import TaskNotRegisteredError
from rota.scheduler.orders import (
    PAUSES,
    REQUESTS,
    find_pause,
    pause_task,
    request_run,
    resume_task,
    take_requests,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach

OFTEN = SchedulerSettings(peers_checked_every=seconds(10))


class SharedMemoryStore(MemoryStore):
    """In memory, but as if other processes could reach it too."""

    reach = Reach.HOST


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage(SharedMemoryStore(), MONDAY)
    yield made
    await made.close()


async def test_each_request_is_returned_once(stage: Stage) -> None:
    assert await take_requests(stage.store) == []
    await stage.store.write_all([DocumentWrite(REQUESTS, name, None, b"{}") for name in "ab"])
    assert await take_requests(stage.store) == ["a", "b"]
    assert await take_requests(stage.store) == []


async def test_a_paused_task_starts_no_more_and_skips_what_passes(stage: Stage) -> None:
    await stage.scheduler().initialize([stage.task(), stage.task("b")])
    await stage.clock.advance(seconds(90))
    await pause_task(stage.store, stage.clock, "a", "anna", "too loud")
    await stage.clock.advance(minutes(3))
    assert stage.started() == [at(10), at(10, 1)]
    assert len(stage.started("b")) == 5
    assert await resume_task(stage.store, stage.clock, "a")
    await stage.clock.advance(minutes(2))
    assert stage.started()[2:] == [at(10, 5), at(10, 6)]
    assert not await resume_task(stage.store, stage.clock, "a")


async def test_a_task_that_is_resumed_to_catch_up_runs_once_at_once(stage: Stage) -> None:
    await stage.scheduler().initialize([stage.task()])
    await stage.clock.advance(seconds(90))
    await pause_task(stage.store, stage.clock, "a")
    await stage.clock.advance(minutes(3))
    await resume_task(stage.store, stage.clock, "a", catch_up=True)
    await stage.clock.advance(seconds(1))
    assert stage.started()[2:] == [at(10, 4, 30)]
    assert await find_pause(stage.store, "a") is None


async def test_no_run_starts_after_a_pause_from_elsewhere_has_returned(stage: Stage) -> None:
    """The scheduler has not looked for orders: its claim fails, and it reads the task again."""
    await stage.scheduler().initialize([stage.task()])
    await stage.clock.advance(seconds(90))
    elsewhere = stage.store.__class__.__new__(stage.store.__class__)
    elsewhere.__dict__ = stage.store.__dict__  # another connection: local instances are not woken
    await pause_task(elsewhere, stage.clock, "a")
    await stage.clock.advance(minutes(30))
    assert stage.started() == [at(10), at(10, 1)]


async def test_a_pause_outlasts_a_restart_and_holds_retries_back(stage: Stage) -> None:
    fails = [ValueError("x")] * 9
    first = stage.scheduler(settings=OFTEN)
    await first.initialize([stage.task(cron="0 10 * * *", delay=minutes(5), fails=fails)])
    await stage.clock.advance(minutes(1))
    await pause_task(stage.store, stage.clock, "a")
    await stage.clock.run(first.stop())
    second = stage.scheduler(settings=OFTEN)
    await second.initialize([stage.task(cron="0 10 * * *", delay=minutes(5))])
    await stage.clock.advance(minutes(60))
    assert stage.started() == [at(10)]
    await resume_task(stage.store, stage.clock, "a")
    await stage.clock.advance(seconds(1))
    assert stage.started() == [at(10), at(11, 1)]


async def test_a_run_in_progress_finishes_and_counts_and_run_now_works(stage: Stage) -> None:
    await stage.scheduler().initialize([stage.task(cron="0 10 * * *", takes=minutes(2))])
    await stage.clock.advance(minutes(1))
    await pause_task(stage.store, stage.clock, "a")
    await stage.clock.advance(minutes(5))
    assert stage.ended() == [at(10, 2)]
    assert (await stage.record())["lastSuccessAt"].startswith("2027-01-04T10:02")
    await request_run(stage.store, stage.clock, "a")
    await stage.clock.advance(minutes(5))
    assert stage.started() == [at(10), at(10, 6)]


async def test_orders_reach_a_scheduler_of_the_same_process_at_once() -> None:
    stage = Stage(MemoryStore(), MONDAY)
    await stage.scheduler().initialize([stage.task(cron="0 9 * * *")])
    await stage.clock.advance(seconds(30))
    await request_run(stage.store, stage.clock, "a")
    await stage.clock.advance(seconds(1))
    assert stage.started() == [at(10, 0, 30)]
    await stage.close()


async def test_an_ended_pause_is_forgotten_when_the_task_has_started_again(stage: Stage) -> None:
    await stage.scheduler(settings=OFTEN).initialize([stage.task()])
    await pause_task(stage.store, stage.clock, "a")
    await stage.clock.advance(minutes(2))
    await resume_task(stage.store, stage.clock, "a")
    assert await stage.documents(PAUSES)
    await stage.clock.advance(minutes(2))
    assert await stage.documents(PAUSES) == {}


async def test_the_first_pause_counts_and_a_removed_task_takes_it_along(stage: Stage) -> None:
    first = stage.scheduler()
    await first.initialize([stage.task()])
    await pause_task(stage.store, stage.clock, "a", "anna", "first")
    again = await pause_task(stage.store, stage.clock, "a", "ben", "second")
    assert (again.who, again.why) == ("anna", "first")
    await stage.clock.run(first.stop())
    await stage.scheduler().initialize([stage.task("b")])
    assert await stage.documents(PAUSES) == {}


async def test_unknown_tasks_are_refused_and_damaged_pauses_hold() -> None:
    store, stage = MemoryStore(), Stage(MemoryStore(), MONDAY)
    for order in (pause_task, resume_task, request_run):
        with pytest.raises(TaskNotRegisteredError):
            await order(store, stage.clock, "missing")
    await store.write_all([DocumentWrite(PAUSES, "a", None, b"no pause")])
    scheduler = Scheduler(store, clock=stage.clock, zone=UTC)
    await scheduler.initialize([stage.task()])
    await stage.clock.advance(minutes(3))
    assert stage.started() == []
    assert "resume" in (await scheduler.why("a")).reasons[0]
    await resume_task(store, stage.clock, "a")
    await stage.clock.advance(timedelta(minutes=1))
    assert len(stage.started()) == 1
    await stage.clock.run(scheduler.stop())


async def test_why_says_that_a_task_is_paused_and_what_that_skipped(stage: Stage) -> None:
    scheduler = stage.scheduler()
    await scheduler.initialize([stage.task()])
    await stage.clock.advance(seconds(90))
    await pause_task(stage.store, stage.clock, "a", "anna", "too loud")
    await stage.clock.advance(minutes(3))
    now = await scheduler.why("a")
    assert (now.answer, now.reasons[0]) == (
        "will not run",
        (
            "It was paused at Mon 2027-01-04 10:01:30 UTC by anna (too loud)."
            " Nothing of it starts until it is resumed."
        ),
    )
    assert (await scheduler.why("a", at(10, 3))).answer == "did not run"
    assert (await scheduler.why("a", at(11))).answer == "will not run"
    await resume_task(stage.store, stage.clock, "a")
    skipped = await scheduler.why("a", at(10, 3))
    assert (skipped.answer, "without catching up" in skipped.reasons[0]) == ("did not run", True)
    assert (await scheduler.why("a")).answer == "will run"
