import asyncio
from asyncio import Future
from datetime import UTC, datetime, timedelta

from rota.clock.virtual import Timers

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def add(timers: Timers, seconds: int, *, elapsed: bool = False) -> "Future[None]":
    loop = asyncio.get_running_loop()
    return timers.add(loop, START + seconds * SECOND, elapsed=elapsed)


async def test_only_what_is_due_is_woken() -> None:
    timers = Timers()
    early, late = add(timers, 1), add(timers, 3)
    timers.wake(START + 2 * SECOND)
    assert (early.done(), late.done(), len(timers)) == (True, False, 1)
    assert timers.next_at() == START + 3 * SECOND


async def test_an_empty_heap_has_no_waiter() -> None:
    timers = Timers()
    assert timers.next_at() is None
    assert not timers


async def test_a_cancelled_timer_is_not_seen_again() -> None:
    timers = Timers()
    cancelled, kept = add(timers, 1), add(timers, 2)
    cancelled.cancel()
    timers.forget()
    assert len(timers) == 1
    assert timers.next_at() == START + 2 * SECOND
    timers.wake(START + 5 * SECOND)
    assert kept.done()


async def test_waking_passes_over_the_cancelled() -> None:
    timers = Timers()
    cancelled, kept = add(timers, 1), add(timers, 2)
    cancelled.cancel()
    timers.forget()
    timers.wake(START + 5 * SECOND)
    assert (cancelled.cancelled(), kept.done(), len(timers)) == (True, True, 0)


async def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    kept = add(timers, 10_000)
    for seconds in range(1, 5_000):
        add(timers, seconds).cancel()
        timers.forget()
    assert len(timers._heap) < 100
    assert not kept.done()
    assert timers.next_at() == START + 10_000 * SECOND


async def test_setting_back_moves_elapsed_waits_only() -> None:
    timers = Timers()
    until, lasting = add(timers, 10), add(timers, 20, elapsed=True)
    timers.set_back(15 * SECOND)
    assert timers.next_at() == START + 5 * SECOND
    timers.wake(START + 5 * SECOND)
    assert (until.done(), lasting.done()) == (False, True)
