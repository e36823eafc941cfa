import asyncio
import threading
from timeit import repeat

import pytest

from rota.clock import in_flight as exported
from rota.clock.loop import _flights, flights_of, in_flight, turn


async def test_work_is_counted_while_it_lasts() -> None:
    loop = asyncio.get_running_loop()
    with in_flight():
        with in_flight():
            assert flights_of(loop).count == 2
        assert flights_of(loop).count == 1
    assert flights_of(loop).count == 0


async def test_work_that_fails_is_over_too() -> None:
    with pytest.raises(ZeroDivisionError), exported():
        raise ZeroDivisionError
    assert flights_of(asyncio.get_running_loop()).count == 0


async def test_waiting_returns_at_once_when_nothing_is_in_flight() -> None:
    flights = flights_of(asyncio.get_running_loop())
    await flights.landed()
    assert flights._waiters == []


async def test_a_waiter_is_woken_when_the_last_call_has_ended() -> None:
    loop, landings = asyncio.get_running_loop(), (asyncio.Event(), asyncio.Event())

    async def work(landing: asyncio.Event) -> None:
        with in_flight():
            await landing.wait()

    works = [asyncio.create_task(work(landing)) for landing in landings]
    await turn()
    waits = [asyncio.create_task(flights_of(loop).landed()) for _ in range(2)]
    await turn()
    landings[0].set()
    for _ in range(10):
        await turn()
    assert not any(wait.done() for wait in waits)
    landings[1].set()
    await asyncio.gather(*works, *waits)
    assert (flights_of(loop).count, flights_of(loop)._waiters) == (0, [])


async def test_loops_in_other_threads_are_counted_apart() -> None:
    inside, done = threading.Event(), threading.Event()

    async def elsewhere() -> int:
        with in_flight():
            inside.set()
            done.wait(10)
            return flights_of(asyncio.get_running_loop()).count

    thread = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(elsewhere())))
    await asyncio.to_thread(inside.wait, 10)
    assert flights_of(asyncio.get_running_loop()).count == 0
    with in_flight():
        done.set()
        assert await thread == 1
        assert flights_of(asyncio.get_running_loop()).count == 1


def test_a_coroutine_closed_after_its_loop_leaves_nothing_behind() -> None:
    async def unfinished() -> None:
        with in_flight():
            await asyncio.get_running_loop().create_future()

    async def waiting() -> None:
        await flights_of(asyncio.get_running_loop()).landed()

    loop = asyncio.new_event_loop()
    coroutine = unfinished()
    tasks = [loop.create_task(coroutine), loop.create_task(waiting())]
    loop.call_soon(loop.stop)
    loop.run_forever()
    flights = flights_of(loop)
    assert flights.count == 1
    loop.close()
    coroutine.close()
    assert (flights.count, flights._waiters) == (0, [])
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # left on purpose


def test_a_loop_that_is_done_is_not_kept() -> None:
    async def work() -> asyncio.AbstractEventLoop:
        with in_flight():
            return asyncio.get_running_loop()

    first = asyncio.run(work())
    assert first in _flights
    second = asyncio.run(work())
    assert first not in _flights
    assert second in _flights


def test_it_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        in_flight()


async def test_marking_costs_next_to_nothing() -> None:
    def mark() -> None:
        with in_flight():
            pass

    assert min(repeat(mark, number=2_000, repeat=5)) / 2_000 < 10e-6  # 0.4 µs, with much room
