"""Handlers that take no notice of being cut short: few are borne, and many end the worker."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop

from rota.clock.loop import turn
from rota.clock.system import SystemClock
from rota.events import HandlerLeaked, WorkerStopped
from rota.jobs import Job, JobStatus
from rota.stores.memory import MemoryStore
from rota.testing import a_job
from rota.worker import Context, StopManner, StopReport, Worker, WorkerSettings
from rota.worker.executor import is_worn_out


class Defiant:
    """A handler that goes on until it is released, however often it is cancelled."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def __call__(self, _: Context) -> None:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                continue


@pytest.fixture
async def defiant() -> AsyncIterator[Defiant]:
    made = Defiant()
    yield made
    made.released.set()
    await turn()


def test_a_worker_is_worn_out_when_as_many_go_on_as_there_are_places() -> None:
    assert [is_worn_out(count, 4) for count in range(6)] == [False] * 4 + [True] * 2
    assert [is_worn_out(count, 1) for count in range(5)] == [False] * 3 + [True] * 2


async def test_a_worker_with_a_handler_in_every_place_that_will_not_end_stops_by_itself(
    shop: Workshop, defiant: Defiant
) -> None:
    shop.make_worker({}, WorkerSettings(concurrency=3, batch=1))
    shop.worker.handler("defiant", timeout=SECOND)(defiant)
    stuck = [await shop.add("defiant") for _ in range(3)]
    run = shop.start()
    await shop.pass_time(MINUTE)
    assert run.done()
    report = run.result()
    assert (report.manner, report.leaked_count) == (StopManner.WORN_OUT, 3)
    assert [event.manner for event in shop.told(WorkerStopped)] == ["worn out"]
    assert len(shop.told(HandlerLeaked)) == 3
    assert {(await shop.look(job)).last_error for job in stuck} == {"Timed out after 1 s"}


async def _wear_out_beside_a_slow_one(
    shop: Workshop, defiant: Defiant
) -> tuple[Job, "asyncio.Task[StopReport]"]:
    """A worker whose places are given up, but for one in which a job still runs."""

    async def linger(_: Context) -> None:
        await shop.clock.sleep(20 * SECOND)

    shop.make_worker({"slow": linger}, WorkerSettings(concurrency=4, batch=1))
    shop.worker.handler("defiant", timeout=SECOND)(defiant)
    for _ in range(3):
        await shop.add("defiant")
    slow = await shop.add("slow")
    run = shop.start()
    await shop.pass_time(4 * SECOND)
    await shop.add("defiant")  # it comes to run in a place that was given up
    await shop.pass_time(9 * SECOND)
    assert len(shop.told(HandlerLeaked)) == 4
    return slow, run


async def test_the_others_are_finished_first_and_nothing_more_is_begun(
    shop: Workshop, defiant: Defiant
) -> None:
    slow, run = await _wear_out_beside_a_slow_one(shop, defiant)
    never = await shop.add("slow")
    await shop.pass_time(MINUTE)
    assert run.result().manner is StopManner.WORN_OUT
    assert (await shop.look(slow)).status is JobStatus.COMPLETED
    assert (await shop.look(never)).status is JobStatus.READY


async def test_a_worn_out_worker_is_not_hurried_by_one_stop(
    shop: Workshop, defiant: Defiant
) -> None:
    slow, run = await _wear_out_beside_a_slow_one(shop, defiant)
    shop.worker.stop()
    await shop.pass_time(MINUTE)
    assert (await shop.look(slow)).status is JobStatus.COMPLETED
    assert run.result().manner is StopManner.WORN_OUT


async def test_one_that_ends_after_all_does_not_count(shop: Workshop) -> None:
    made = [Defiant() for _ in range(4)]
    shop.make_worker({}, WorkerSettings(concurrency=1, batch=1))
    run = shop.start()
    for number, defiant in enumerate(made):
        shop.worker.handler(f"defiant {number}", timeout=SECOND)(defiant)
        await shop.add(f"defiant {number}")
        await shop.pass_time(8 * SECOND)
        if number == 1:
            defiant.released.set()
            await turn()
    assert len(shop.told(HandlerLeaked)) == 4
    await shop.pass_time(SECOND)
    assert run.result().manner is StopManner.WORN_OUT
    assert run.result().leaked_count == 4
    for defiant in made:
        defiant.released.set()
    await turn()


async def test_a_stopping_worker_is_not_hurried_by_handlers_that_ignore_cancellation(
    shop: Workshop, defiant: Defiant
) -> None:
    async def linger(_: Context) -> None:
        await shop.clock.sleep(20 * SECOND)

    shop.make_worker({"slow": linger}, WorkerSettings(concurrency=4))
    shop.worker.handler("defiant", timeout=2 * SECOND)(defiant)
    for _ in range(3):
        await shop.add("defiant")
    run = shop.start()
    await shop.pass_time(8 * SECOND)
    slow, _last = await shop.add("slow"), await shop.add("defiant")
    await shop.pass_time(SECOND)
    shop.worker.stop()
    await shop.pass_time(MINUTE)
    assert (run.result().manner, run.result().leaked_count) == (StopManner.FINISHED, 4)
    assert (await shop.look(slow)).status is JobStatus.COMPLETED


def test_the_event_loop_can_be_closed_although_a_handler_will_not_end() -> None:
    """In real time, and in a thread: with the fault, it would never come back."""
    begun = asyncio.Event()

    async def defy(_: Context) -> None:
        begun.set()
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    async def work() -> StopReport:
        store = MemoryStore()
        await store.insert([a_job(kind="defy")], SystemClock().now())
        worker = Worker(store, {"defy": defy})
        run = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop()
        worker.stop()
        return await run

    reports: list[StopReport] = []
    thread = threading.Thread(target=lambda: reports.append(asyncio.run(work())), daemon=True)
    thread.start()
    thread.join(20)
    assert [(it.manner, it.leaked_count) for it in reports] == [(StopManner.AT_ONCE, 1)]
