"""The poller of specification 4 starts once, stops gracefully, and can be cancelled anywhere."""

import asyncio
import sys

import pytest
from tests.unit.poller.polling import HOUR, MINUTE, NOW, SECOND, ListedJobs, Stage, a_polled

from rota.errors import ConflictError
from rota.poller import JobUpdate, PolledJob
from rota.testing import VirtualClock


@pytest.fixture
def store() -> ListedJobs:
    return ListedJobs()


@pytest.fixture
def stage(store: ListedJobs) -> Stage:
    return Stage(store, VirtualClock(NOW))


async def test_started_twice_it_runs_once(stage: Stage) -> None:
    poller = stage.poller()
    await asyncio.gather(poller.start(), poller.start())
    await poller.start()
    await stage.clock.run(poller.stop())
    assert stage.diary == ["start", "idle", "stop"]


async def test_stop_waits_for_the_current_job_and_is_reported_once(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting += [a_polled(1), a_polled(2)]
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    poller = await stage.play(SECOND)
    stops = [asyncio.create_task(poller.stop()) for _ in range(3)]
    await stage.clock.advance(50 * SECOND)
    assert not any(stop.done() for stop in stops)
    assert not poller.is_running
    await stage.clock.advance(10 * SECOND)
    assert all(stop.done() for stop in stops)
    await poller.stop()
    assert stage.diary == ["start", "document", "stop"]
    assert store.updates == [(1, JobUpdate(sleep_until=None))]


async def test_stop_does_not_wait_for_a_delay(stage: Stage) -> None:
    poller = await stage.play(SECOND, idle_delay=HOUR)
    await poller.stop()
    assert stage.clock.now() == NOW + SECOND
    assert stage.diary == ["start", "idle", "stop"]


async def test_it_can_be_started_again(stage: Stage, store: ListedJobs) -> None:
    poller = await stage.play(SECOND)
    await poller.stop()
    store.waiting.append(a_polled())
    await poller.start()
    await stage.clock.advance(SECOND)
    await poller.stop()
    assert stage.diary == ["start", "idle", "stop", "start", "document", "idle", "stop"]


async def test_a_start_during_a_stop_waits_for_it(stage: Stage, store: ListedJobs) -> None:
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    poller = await stage.play(SECOND)
    stop = asyncio.create_task(poller.stop())
    await stage.clock.advance(SECOND)
    start = asyncio.create_task(poller.start())
    await stage.clock.advance(MINUTE)
    await asyncio.gather(stop, start)
    assert poller.is_running
    assert stage.diary == ["start", "document", "stop", "start", "idle"]
    await stage.close()


async def test_a_hook_may_stop_the_poller(stage: Stage, store: ListedJobs) -> None:
    store.waiting += [a_polled(1), a_polled(2)]
    stage.work = lambda _: stage.pollers[0].stop()
    await stage.play(SECOND)
    assert stage.diary == ["start", "document", "stop"]
    assert store.updates == [(1, JobUpdate(sleep_until=None))]


async def test_a_hook_may_start_what_runs_but_not_what_it_has_stopped(
    stage: Stage, store: ListedJobs
) -> None:
    async def stop_and_start(_: PolledJob) -> None:
        (poller,) = stage.pollers
        await poller.start()
        await poller.stop()
        await poller.start()

    store.waiting.append(a_polled())
    stage.work = stop_and_start
    await stage.play(SECOND)
    assert [type(error) for error in stage.errors] == [ConflictError]
    assert stage.diary == ["start", "document", "stop"]


async def test_an_error_of_on_start_is_raised_and_nothing_runs(stage: Stage) -> None:
    def fail() -> None:
        raise ValueError("no")

    poller = stage.poller(on_start=fail)
    with pytest.raises(ValueError, match="no"):
        await poller.start()
    await stage.clock.advance(SECOND)
    assert not poller.is_running
    assert stage.diary == []


async def test_an_error_of_on_stop_is_raised_by_stop(stage: Stage) -> None:
    def fail() -> None:
        raise ValueError("no")

    poller = await stage.play(SECOND, on_stop=fail)
    with pytest.raises(ValueError, match="no"):
        await poller.stop()
    assert not poller.is_running
    assert stage.errors == []


async def test_a_failing_on_stop_after_a_hook_stopped_the_poller_is_logged_too(
    stage: Stage, store: ListedJobs
) -> None:
    failure = ValueError("no")

    def fail() -> None:
        raise failure

    store.waiting.append(a_polled())
    stage.work = lambda _: stage.pollers[0].stop()
    await stage.play(SECOND, on_stop=fail)
    assert stage.errors == [failure]


async def test_a_start_that_is_cancelled_leaves_nothing_running(stage: Stage) -> None:
    poller = stage.poller(on_start=lambda: stage.clock.sleep(HOUR))
    start = asyncio.create_task(poller.start())
    other = asyncio.create_task(poller.start())
    await stage.clock.advance(SECOND)
    start.cancel()
    await asyncio.wait([start, other])
    assert start.cancelled()
    assert isinstance(other.exception(), ConflictError)
    assert not poller.is_running
    assert stage.clock.sleeper_count == 0
    assert stage.diary == []


async def test_a_start_that_is_cancelled_as_it_comes_about_leaves_nothing_running(
    stage: Stage,
) -> None:
    starts: list[asyncio.Task[None]] = []

    def cancel() -> None:
        starts[0].cancel()

    poller = stage.poller(on_start=cancel)
    starts.append(asyncio.create_task(poller.start()))
    await asyncio.wait(starts)
    assert starts[0].cancelled()
    assert not poller.is_running
    assert stage.diary == ["stop"]


async def test_a_caller_cancelled_with_the_poller_gets_no_other_error(
    stage: Stage,
) -> None:
    poller = stage.poller(on_start=lambda: stage.clock.sleep(HOUR))
    start = asyncio.create_task(poller.start())
    await stage.clock.advance(SECOND)
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "rota poller")
    task.cancel()
    start.cancel()
    await asyncio.wait([task, start])
    assert start.cancelled()
    assert not poller.is_running


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks can be eager from Python 3.12 on")
async def test_where_tasks_are_eager_a_hook_may_stop_the_poller_as_it_starts(stage: Stage) -> None:
    async def stop() -> None:
        stage.diary.append("running" if stage.pollers[0].is_running else "nothing")
        await stage.pollers[0].stop()

    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - newer than 3.11
    try:
        poller = await stage.play(SECOND, on_start=stop)
    finally:
        loop.set_task_factory(None)
    assert not poller.is_running
    assert stage.diary == ["running", "stop"]


async def test_a_stop_that_is_cancelled_still_stops(stage: Stage, store: ListedJobs) -> None:
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    poller = await stage.play(SECOND)
    stop = asyncio.create_task(poller.stop())
    await stage.clock.advance(SECOND)
    stop.cancel()
    await asyncio.wait([stop])
    await stage.clock.advance(MINUTE)
    assert stage.diary == ["start", "document", "stop"]


async def test_a_poller_whose_loop_ends_lets_go_of_everything(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(HOUR)
    poller = await stage.play(SECOND)
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "rota poller")
    task.cancel()
    await asyncio.wait([task])
    assert not poller.is_running
    assert not poller.is_processing
    assert stage.diary == ["start", "document", "stop"]
    assert store.updates == []
    await poller.stop()


async def test_a_hook_that_cancels_itself_has_failed_like_any_other(
    stage: Stage, store: ListedJobs
) -> None:
    async def give_up(_: PolledJob) -> None:
        raise asyncio.CancelledError

    store.waiting += [a_polled(1), a_polled(2)]
    await stage.play(SECOND, on_document=give_up)
    assert len(stage.errors) == 2
    await stage.close()


async def test_it_can_be_a_context(stage: Stage) -> None:
    async with stage.poller() as poller:
        assert poller.is_running
    assert not poller.is_running
    assert (stage.diary[0], stage.diary[-1]) == ("start", "stop")
