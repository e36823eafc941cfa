"""Waits for a condition in virtual time."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from rota.clock import virtual
from rota.errors import BusyLoopError, DeadlockError, StoreClosedError
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


async def test_a_condition_is_noticed_at_the_instant_at_which_it_comes_true() -> None:
    clock = VirtualClock(NOW)
    facts: set[str] = set()
    noticed: list[datetime] = []

    async def act() -> None:
        await clock.sleep(7 * SECOND)
        facts.add("done")

    async def watch() -> None:
        await clock.wait_until(lambda: "done" in facts)
        noticed.append(clock.now())

    tasks = [asyncio.create_task(watch()), asyncio.create_task(act())]
    await clock.advance(DAY)
    assert noticed == [NOW + 7 * SECOND]
    await asyncio.gather(*tasks)


async def test_time_does_not_stop_for_a_condition_that_does_not_hold() -> None:
    clock = VirtualClock(NOW)
    checks: list[datetime] = []

    def holds() -> bool:
        checks.append(clock.now())
        return False

    task = asyncio.create_task(clock.wait_until(holds))
    await clock.advance(DAY)
    assert len(checks) <= 3
    assert (clock.sleeper_count, clock.next_timer_at) == (0, None)
    task.cancel()


async def test_a_condition_that_holds_already_yields_once() -> None:
    await VirtualClock(NOW).wait_until(lambda: True)


async def test_an_error_of_a_condition_is_raised_where_it_is_awaited() -> None:
    clock, is_closed = VirtualClock(NOW), False

    def holds() -> bool:
        if is_closed:
            raise StoreClosedError
        return False

    task = asyncio.create_task(clock.wait_until(holds))
    await clock.advance(SECOND)
    is_closed = True
    await clock.advance(SECOND)
    with pytest.raises(StoreClosedError):
        await task


async def test_a_cancelled_wait_is_never_checked_again() -> None:
    clock, check_count = VirtualClock(NOW), 0

    def holds() -> bool:
        nonlocal check_count
        check_count += 1
        return False

    task = asyncio.create_task(clock.wait_until(holds))
    await clock.advance(SECOND)
    task.cancel()
    before = check_count
    await clock.advance(SECOND)
    assert check_count == before


async def test_one_condition_may_bring_another_about() -> None:
    clock = VirtualClock(NOW)
    steps: list[str] = []

    async def follow(before: str, after: str) -> None:
        await clock.wait_until(lambda: before in steps)
        steps.append(after)

    tasks = [asyncio.create_task(follow(*it)) for it in (("b", "c"), ("a", "b"))]
    await clock.advance(SECOND)
    steps.append("a")
    await clock.advance(timedelta(0))
    assert steps == ["a", "b", "c"]
    await asyncio.gather(*tasks)


async def test_conditions_without_an_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "ROUND_LIMIT", 100)
    clock = VirtualClock(NOW)

    def at_the_second_check() -> Callable[[], bool]:
        checks: list[int] = []

        def holds() -> bool:
            checks.append(1)
            return len(checks) > 1

        return holds

    async def spin() -> None:
        while True:
            await clock.wait_until(at_the_second_check())

    task = asyncio.create_task(spin())
    with pytest.raises(BusyLoopError):
        await clock.advance(SECOND)
    task.cancel()


async def test_nothing_but_conditions_is_a_deadlock() -> None:
    clock = VirtualClock(NOW)
    with pytest.raises(DeadlockError):
        await clock.run(clock.wait_until(lambda: False))


async def test_time_that_flows_by_itself_checks_conditions_too() -> None:
    clock, facts = VirtualClock(NOW, auto_jump=True), set[str]()

    async def act() -> None:
        await clock.sleep(7 * SECOND)
        facts.add("done")
        await clock.sleep(DAY)

    task = asyncio.create_task(act())
    await clock.wait_until(lambda: "done" in facts)
    assert clock.now() == NOW + 7 * SECOND
    task.cancel()
