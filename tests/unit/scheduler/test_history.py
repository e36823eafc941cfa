"""The history of a task: its last runs, with lateness and outcome."""

from tests.spec.stage import MONDAY, SpyStore, Stage, at, minutes, seconds

from rota import SchedulerSettings
from rota.errors import StoreUnavailableError
from rota.scheduler.history import HISTORY, MOST_PENDING, RunHistory, TaskRun, read_history
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Reach


def a_run(minute: int) -> TaskRun:
    due = at(10, minute)
    return TaskRun(
        scheduled_at=due, started_at=due, ended_at=due, outcome="succeeded", reason="occurrence"
    )


async def test_runs_are_kept_with_due_time_start_end_outcome_and_reason() -> None:
    stage = Stage(MemoryStore(), MONDAY)
    scheduler = stage.scheduler()
    task = stage.task(
        cron="0 * * * *", delay=minutes(5), takes=seconds(3), fails=[OSError("disk full")]
    )
    await scheduler.initialize([task])
    await stage.clock.advance(minutes(61))
    newest, retry, first = await read_history(stage.store, "a")
    assert (first.scheduled_at, first.started_at, first.ended_at) == (at(10), at(10), at(10, 0, 3))
    assert (first.outcome, first.reason, first.error) == (
        "failed",
        "occurrence",
        "OSError: disk full",
    )
    assert (retry.outcome, retry.reason, retry.scheduled_at) == (
        "succeeded",
        "retry",
        at(10, 5, 3),
    )
    assert (newest.scheduled_at, newest.outcome) == (at(11), "succeeded")
    found = await scheduler.why("a", at(10))
    assert (found.answer, "failed at" in found.reasons[0]) == ("ran", True)
    await stage.close()


async def test_only_the_last_runs_are_kept_and_none_if_so_set() -> None:
    for kept, expected in ((3, 3), (0, 0)):
        stage = Stage(MemoryStore(), MONDAY)
        await stage.scheduler(settings=SchedulerSettings(kept_runs=kept)).initialize([stage.task()])
        await stage.clock.advance(minutes(10))
        assert len(await read_history(stage.store, "a")) == expected
        await stage.close()


async def test_a_run_that_a_dead_instance_left_is_noted_as_interrupted() -> None:
    class Shared(MemoryStore):
        reach = Reach.HOST

    stage = Stage(Shared(), MONDAY)
    first = stage.scheduler()
    await first.initialize([stage.task(cron="0 10 * * *", takes=minutes(30))])
    await stage.clock.advance(minutes(1))
    await stage.crash(first)
    await stage.scheduler().initialize([stage.task(cron="0 10 * * *", takes=minutes(1))])
    await stage.clock.advance(minutes(5))
    newest, earlier = await read_history(stage.store, "a")
    assert (earlier.outcome, earlier.ended_at, earlier.started_at) == ("interrupted", None, at(10))
    assert (newest.outcome, newest.reason) == ("succeeded", "interrupted")
    await stage.close()


async def test_a_failing_store_delays_history_and_nothing_else() -> None:
    stage = Stage(MemoryStore(), MONDAY)
    spy = SpyStore(stage.store, stage.clock)
    spy.errors[f"read {HISTORY}"] = StoreUnavailableError("gone")
    await stage.scheduler(store=spy).initialize([stage.task()])
    await stage.clock.advance(minutes(2))
    assert len(stage.started()) == 3
    assert await read_history(stage.store, "a") == ()
    del spy.errors[f"read {HISTORY}"]
    await stage.clock.advance(minutes(1))
    assert len(await read_history(stage.store, "a")) == 4
    await stage.close()


async def test_two_writers_lose_no_run() -> None:
    store = MemoryStore()
    ours, theirs = RunHistory(store, 10), RunHistory(store, 10)
    ours.note("a", a_run(1))
    theirs.note("a", a_run(2))
    await ours.save()
    await theirs.save()
    assert [run.started_at for run in await read_history(store, "a")] == [at(10, 2), at(10, 1)]


async def test_the_runs_that_wait_to_be_written_are_bounded() -> None:
    store = MemoryStore()
    history = RunHistory(store, 10)
    for number in range(MOST_PENDING + 5):
        history.note(f"task {number}", a_run(1))
    await history.save_all()
    pages = [page async for page in store.scan(HISTORY)]
    assert sum(len(page) for page in pages) == MOST_PENDING
