"""Whatever hooks and stores do to the poller of specification 4, its loop goes on until a stop."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.poller.polling import HOUR, MINUTE, NOW, SECOND, ListedJobs, Stage, a_polled

from rota import Poller, open_store
from rota.errors import ConflictError, LockLostError, StoreError
from rota.poller import JobUpdate, PolledJob, PolledJobs
from rota.testing import VirtualClock


class AbortedError(BaseException):
    """An error that a library may raise although it is not an Exception."""


FAILURES = [asyncio.CancelledError, AbortedError, ValueError]


@pytest.fixture
def store() -> ListedJobs:
    return ListedJobs()


@pytest.fixture
def stage(store: ListedJobs) -> Stage:
    return Stage(store, VirtualClock(NOW))


def raising(failure: type[BaseException], *, is_async: bool) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise failure

    async def fail_later(*_: object) -> None:
        raise failure

    return fail_later if is_async else fail


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_raises_anything_has_failed_and_the_loop_goes_on(
    stage: Stage, store: ListedJobs, failure: type[BaseException], is_async: bool
) -> None:
    fail = raising(failure, is_async=is_async)
    store.waiting += [a_polled(1), a_polled(2)]
    poller = await stage.play(SECOND, on_document=fail, on_idle=fail)
    causes = [error.__cause__ or error for error in stage.errors]
    assert [type(cause) for cause in causes] == [failure] * 3
    assert (poller.is_running, poller.is_processing) == (True, False)
    assert store.updates == []
    await stage.close()
    assert stage.diary == ["start", "stop"]


@pytest.mark.parametrize("failure", FAILURES)
async def test_an_on_error_that_raises_anything_is_logged(
    stage: Stage,
    store: ListedJobs,
    failure: type[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail = raising(failure, is_async=False)
    store.waiting += [a_polled(1), a_polled(2)]
    poller = await stage.play(SECOND, on_document=fail, on_error=fail)
    assert len(caplog.records) == 2
    assert poller.is_running
    await stage.close()


@pytest.mark.parametrize("hook", ["on_start", "on_stop"])
async def test_a_base_exception_reaches_the_caller_of_start_or_stop(
    stage: Stage, hook: str
) -> None:
    options: Any = {hook: raising(AbortedError, is_async=False)}
    poller = stage.poller(**options)

    async def start_and_stop() -> None:
        await poller.start()
        await stage.clock.run(poller.stop())

    with pytest.raises(RuntimeError, match="AbortedError"):
        await asyncio.wait_for(start_and_stop(), 60)
    assert not poller.is_running
    assert stage.errors == []


@pytest.mark.parametrize("failure", [asyncio.CancelledError, AbortedError])
@pytest.mark.parametrize("verb", ["lock_next", "update", "remove"])
async def test_a_store_that_raises_a_base_exception_is_asked_again(
    stage: Stage,
    store: ListedJobs,
    verb: str,
    failure: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works, calls = getattr(store, verb), []

    async def fail_once(*told: Any) -> Any:
        calls.append(told)
        if len(calls) == 1:
            raise failure
        return await works(*told)

    monkeypatch.setattr(store, verb, fail_once)
    store.waiting += [a_polled(number, auto_remove=verb == "remove") for number in (1, 2)]
    await stage.play(SECOND)
    assert [type(error.__cause__) for error in stage.errors] == [failure]
    assert stage.diary == ["start", "document", "document", "idle"]
    await stage.close()


@pytest.mark.parametrize("place", ["lock_next", "update", "remove", "on_document", "on_idle"])
async def test_a_cancelled_poller_releases_its_lock_and_reports_its_stop(
    stage: Stage, store: ListedJobs, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_long(*_: object) -> None:
        await stage.clock.sleep(HOUR)

    options: Any = {place: take_long} if place.startswith("on_") else {}
    if not options:
        monkeypatch.setattr(store, place, take_long)
    if place != "on_idle":
        store.waiting.append(a_polled(auto_remove=place == "remove"))
    poller = await stage.play(SECOND, **options)
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "rota poller")
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert (poller.is_running, poller.is_processing, poller.is_idle) == (False, False, False)
    assert stage.diary[-1] == "stop"
    assert (stage.errors, stage.clock.sleeper_count) == ([], 0)


@pytest.mark.parametrize("hook", ["on_document", "on_start"])
async def test_a_hook_cannot_keep_a_cancelled_poller_alive(
    stage: Stage, store: ListedJobs, hook: str
) -> None:
    async def hold_on(*_: object) -> None:
        try:
            await stage.clock.sleep(HOUR)
        except asyncio.CancelledError:
            stage.diary.append("held on")

    store.waiting += [a_polled(1), a_polled(2)]
    options: Any = {hook: hold_on}
    poller = stage.poller(**options)
    start = asyncio.create_task(poller.start())
    await stage.clock.advance(SECOND)
    if hook == "on_start":
        start.cancel()
    else:
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "rota poller")
        task.cancel()
    await stage.clock.advance(SECOND)
    assert start.done()
    assert not poller.is_running
    assert stage.diary[-2:] == ["held on", "stop"]


async def test_a_waiter_for_a_start_that_ended_with_its_poller_gets_an_error(stage: Stage) -> None:
    poller = stage.poller(on_start=raising(GeneratorExit, is_async=False))
    with pytest.raises(ConflictError):
        await asyncio.wait_for(poller.start(), timeout=60)
    assert not poller.is_running


async def test_a_failing_on_stop_without_a_waiter_is_logged(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    poller = await stage.play(SECOND, on_stop=raising(ValueError, is_async=False))
    stop = asyncio.create_task(poller.stop())
    await stage.clock.advance(SECOND)
    stop.cancel()
    await stage.clock.advance(MINUTE)
    assert [type(error) for error in stage.errors] == [ValueError]
    assert not poller.is_running


async def test_a_task_left_behind_by_a_hook_waits_for_the_stop(
    stage: Stage, store: ListedJobs
) -> None:
    is_over = asyncio.Event()

    async def serve() -> None:
        await is_over.wait()
        await stage.pollers[0].stop()
        stage.diary.append("served")

    served: list[asyncio.Task[None]] = []
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    await stage.play(SECOND, on_start=lambda: served.append(asyncio.create_task(serve())))
    is_over.set()
    await stage.clock.advance(SECOND)
    assert not served[0].done()
    await stage.clock.advance(MINUTE)
    assert stage.diary == ["document", "stop", "served"]


async def test_a_hook_that_waits_for_its_own_stop_does_not_deadlock(
    stage: Stage, store: ListedJobs
) -> None:
    other = Stage(ListedJobs(a_polled()), stage.clock)
    other.work = lambda _: stage.pollers[0].stop()

    async def have_it_stopped(_: PolledJob) -> None:
        await asyncio.gather(stage.pollers[0].stop())
        await other.poller().start()
        await stage.clock.sleep(SECOND)

    store.waiting.append(a_polled())
    stage.work = have_it_stopped
    await stage.play(MINUTE)
    assert (stage.diary, stage.errors) == (["start", "document", "stop"], [])
    assert other.diary == ["start", "document", "idle"]
    await other.close()


async def test_a_lock_may_be_lost_at_the_very_instant_it_ends(
    stage: Stage, store: ListedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_lost(*_: object) -> bool:
        return False

    monkeypatch.setattr(store, "update", is_lost)
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    await stage.play(MINUTE, lock_duration=MINUTE)
    assert [type(error) for error in stage.errors] == [LockLostError]
    await stage.close()


@pytest.mark.parametrize("delay", ["next_delay", "idle_delay", "reprocess_delay", "lock_duration"])
async def test_the_longest_delay_there_is_does_no_harm(
    stage: Stage, store: ListedJobs, delay: str
) -> None:
    store.waiting.append(a_polled(interval="@daily"))
    options: Any = {delay: timedelta.max}
    poller = await stage.play(SECOND, **options)
    assert ("document" in stage.diary) == (delay != "next_delay")
    await poller.stop()
    assert (stage.errors, stage.clock.now()) == ([], NOW + SECOND)


async def test_a_hook_that_changes_its_document_changes_nothing_that_is_kept(stage: Stage) -> None:
    async with await open_store("memory://") as opened:
        jobs = PolledJobs(opened, clock=stage.clock)
        job_id = await jobs.add({"of": ["a"]}, interval="0 * * * *")

        def spoil(job: PolledJob) -> None:
            payload: Any = job.payload
            payload["of"].append("b")
            payload["interval"] = payload["sleepUntil"] = None

        async with Poller(opened, on_document=spoil, clock=stage.clock):
            await stage.clock.advance(SECOND)
        job = await jobs.get(job_id)
    assert job is not None
    assert (job.payload, job.due_at) == ({"of": ["a"]}, NOW + HOUR)


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_a_store_that_is_closed_is_an_error_and_the_poller_can_be_stopped(
    stage: Stage, tmp_path: Path, scheme: str
) -> None:
    url = "memory://" if scheme == "memory" else f"sqlite:///{tmp_path / 'rota.db'}"
    opened = await open_store(url)
    poller = Poller(opened, on_error=stage.errors.append, clock=stage.clock)
    await poller.start()
    await stage.clock.advance(SECOND)
    await opened.close()
    await stage.clock.advance(MINUTE)
    assert poller.is_running
    assert 0 < len(stage.errors) < 20
    assert all(isinstance(error, StoreError) for error in stage.errors)
    await poller.stop()
    assert not poller.is_running


@pytest.mark.process
def test_an_exception_that_ends_the_program_ends_the_poller() -> None:
    program = (
        "import asyncio, sys\n"
        "from rota import Poller, open_store\n"
        "from rota.poller import PolledJobs\n"
        "async def run():\n"
        "    async with await open_store('memory://') as store:\n"
        "        await PolledJobs(store).add({})\n"
        "        hooks = {'on_stop': lambda: print('stop'), 'on_error': print}\n"
        "        await Poller(store, on_document=lambda _: sys.exit(3), **hooks).start()\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(run())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (3, "stop\n"), ended.stderr


async def test_a_job_is_locked_from_the_instant_by_which_it_is_due(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting.append(a_polled())
    await stage.play(SECOND, lock_duration=MINUTE, next_delay=SECOND)
    assert {until - now for until, now in store.locks} == {MINUTE}
    assert store.updates == [(1, JobUpdate(sleep_until=None))]
    await stage.close()
