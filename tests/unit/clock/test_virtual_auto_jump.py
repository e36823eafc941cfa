import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from rota.clock import VirtualClock, in_flight
from rota.clock.loop import turn
from rota.errors import DeadlockError

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START, auto_jump=True)


async def test_time_flows_by_itself_when_every_task_waits(clock: VirtualClock) -> None:
    await clock.sleep(HOUR)
    await clock.sleep_until(START + 5 * HOUR)
    assert clock.now() == START + 5 * HOUR


async def test_timers_fire_one_instant_after_the_other(clock: VirtualClock) -> None:
    log: list[tuple[int, datetime]] = []

    async def sleep(hours: int) -> None:
        await clock.sleep(hours * HOUR)
        for _ in range(20):
            await turn()
        log.append((hours, clock.now()))

    await asyncio.gather(*(sleep(hours) for hours in (3, 1, 2)))
    assert log == [(hours, START + hours * HOUR) for hours in (1, 2, 3)]


async def test_time_does_not_flow_while_a_task_can_run(clock: VirtualClock) -> None:
    sleeping = asyncio.create_task(clock.sleep(HOUR))
    for _ in range(200):
        await turn()
    assert clock.now() == START
    await sleeping
    assert clock.now() == START + HOUR


async def test_time_does_not_flow_while_work_is_in_flight(clock: VirtualClock) -> None:
    landing = threading.Event()

    async def work() -> datetime:
        with in_flight():
            asyncio.get_running_loop().call_soon(landing.set)
            await asyncio.to_thread(landing.wait, 10)
        return clock.now()

    seen, _ = await asyncio.gather(work(), clock.sleep(HOUR))
    assert seen == START
    assert clock.now() == START + HOUR


async def test_the_flow_leaves_no_task_behind(clock: VirtualClock) -> None:
    await clock.sleep(HOUR)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_cancelled_sleeper_is_not_flown_to(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(HOUR))
    await turn()
    task.cancel()
    for _ in range(20):
        await turn()
    assert task.cancelled()
    await clock.sleep(timedelta(minutes=1))
    assert clock.now() == START + timedelta(minutes=1)


async def test_it_can_be_driven_and_flows_on_afterwards(clock: VirtualClock) -> None:
    seen: list[datetime] = []

    async def tick() -> None:
        for _ in range(4):
            await clock.sleep(HOUR)
            seen.append(clock.now())

    ticking = asyncio.create_task(tick())
    await turn()
    await clock.advance(2 * HOUR)
    assert seen == [START + HOUR, START + 2 * HOUR]
    await ticking
    assert seen[2:] == [START + 3 * HOUR, START + 4 * HOUR]


async def test_run_reports_a_deadlock_here_too(clock: VirtualClock) -> None:
    async def work() -> None:
        await clock.sleep(HOUR)
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        await clock.run(work())
    assert clock.now() == START + HOUR


def test_a_loop_that_hides_what_is_ready_flows_too(hiding_loop: asyncio.AbstractEventLoop) -> None:
    clock = VirtualClock(START, auto_jump=True)
    hiding_loop.run_until_complete(clock.sleep(HOUR))
    assert clock.now() == START + HOUR
