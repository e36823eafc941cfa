"""A thread of one's own."""

import asyncio
import threading
from functools import partial

import pytest

from rota.clock.idle import in_flight
from rota.stores.sqlite.lane import Lane, open_lane


async def test_work_is_done_in_order_in_one_thread_that_is_not_the_loops() -> None:
    lane = Lane("test")
    done: list[tuple[int, str]] = []

    def note(number: int) -> int:
        done.append((number, threading.current_thread().name))
        return number

    calls = (lane.run(partial(note, number)) for number in range(20))
    assert await asyncio.gather(*calls) == list(range(20))
    assert done == [(number, "test_0") for number in range(20)]
    lane.end()


async def test_what_the_work_raises_is_raised_where_it_is_waited_for() -> None:
    lane = Lane("test")
    with pytest.raises(ZeroDivisionError):
        await lane.run(lambda: 1 // 0)
    assert await lane.run(lambda: 1) == 1
    assert in_flight().count == 0
    lane.end()


async def test_a_lane_whose_first_work_fails_is_ended() -> None:
    with pytest.raises(ZeroDivisionError):
        await open_lane("failing lane", lambda: 1 // 0)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("failing lane")]
    for thread in left:
        thread.join(5)
    assert not [thread for thread in left if thread.is_alive()]
