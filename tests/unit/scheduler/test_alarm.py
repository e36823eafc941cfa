import asyncio
from datetime import UTC, datetime, timedelta

from rota.scheduler.loop import Alarm
from rota.testing import VirtualClock

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def wait(alarm: Alarm, until: datetime | None, clock: VirtualClock) -> datetime:
    await alarm.wait_until(until)
    return clock.now()


async def test_it_rings_at_the_instant_and_not_before() -> None:
    clock = VirtualClock(TEN)
    alarm = Alarm(clock)
    assert await clock.run(wait(alarm, TEN + MINUTE, clock)) == TEN + MINUTE


async def test_a_ring_wakes_at_once_and_a_new_wait_may_have_another_instant() -> None:
    clock = VirtualClock(TEN)
    alarm = Alarm(clock)
    waiting = asyncio.create_task(wait(alarm, TEN + 5 * MINUTE, clock))
    await clock.advance(MINUTE)
    alarm.ring()
    assert await clock.run(waiting) == TEN + MINUTE
    assert await clock.run(wait(alarm, TEN + 2 * MINUTE, clock)) == TEN + 2 * MINUTE
    alarm.cancel()
    await clock.advance(timedelta(0))
    assert clock.sleeper_count == 0


async def test_a_ring_while_nothing_waits_is_kept() -> None:
    clock = VirtualClock(TEN)
    alarm = Alarm(clock)
    alarm.ring()
    alarm.ring()
    assert await clock.run(wait(alarm, None, clock)) == TEN
    waiting = asyncio.create_task(wait(alarm, None, clock))
    await clock.advance(MINUTE)
    assert not waiting.done()
    alarm.ring()
    assert await waiting == TEN + MINUTE


async def test_the_same_instant_keeps_the_same_timer() -> None:
    clock = VirtualClock(TEN)
    alarm = Alarm(clock)
    for _ in range(5):
        waiting = asyncio.create_task(wait(alarm, TEN + MINUTE, clock))
        await clock.advance(timedelta(seconds=1))
        alarm.ring()
        await waiting
    assert clock.sleeper_count == 1
    alarm.cancel()
    await clock.advance(timedelta(0))


async def test_a_wait_for_a_duration_ignores_a_clock_set_back() -> None:
    clock = VirtualClock(TEN)
    alarm = Alarm(clock)
    waiting = asyncio.create_task(alarm.wait_for(MINUTE))
    await clock.advance(MINUTE / 2)
    await clock.jump_to(TEN - 60 * MINUTE)
    await clock.advance(MINUTE / 2)
    assert waiting.done()
    calling = asyncio.create_task(alarm.wait_for(MINUTE))
    await clock.advance(timedelta(0))
    alarm.ring()
    await calling
    alarm.cancel()
    await clock.advance(timedelta(0))
    assert clock.sleeper_count == 0
