"""A thread of one's own."""

import asyncio
import threading
from functools import partial

import pytest

from rota.clock.loop import in_flight
from rota.stores.sqlite.threads import WorkThread


async def test_work_is_done_in_order_in_one_thread_that_is_not_the_loops() -> None:
    thread = WorkThread("test")
    done: list[tuple[int, str]] = []

    def note(number: int) -> int:
        done.append((number, threading.current_thread().name))
        return number

    calls = (thread.run(partial(note, number)) for number in range(20))
    assert await asyncio.gather(*calls) == list(range(20))
    assert done == [(number, "test") for number in range(20)]
    thread.end()


async def test_an_error_in_the_thread_is_raised_in_the_awaiting_task() -> None:
    thread = WorkThread("test")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: 1) == 1
    assert in_flight().count == 0
    thread.end()


async def test_a_thread_whose_first_work_fails_is_ended() -> None:
    with pytest.raises(ZeroDivisionError):
        await WorkThread.open("failing thread", lambda: 1 // 0)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("failing thread")]
    for thread in left:
        thread.join(5)
    assert not [thread for thread in left if thread.is_alive()]
