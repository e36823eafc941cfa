"""How much real time virtual time costs. Run: ``python bench/clock.py``."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from time import perf_counter

from rota.clock import SystemClock, VirtualClock, in_flight, timeout_after

START = datetime(2026, 1, 1, tzinfo=UTC)
FIRE_COUNT = 10_000
SLEEPER_COUNT = 100_000
CALL_COUNT = 200_000
BLOCK_COUNT = 20_000


async def a_year_of_fires(clock: VirtualClock) -> None:
    pause = timedelta(days=365) / FIRE_COUNT
    for number in range(1, FIRE_COUNT + 1):
        await clock.sleep_until(START + number * pause)


async def many_sleepers(clock: VirtualClock) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(SLEEPER_COUNT):
            group.create_task(clock.sleep(timedelta(seconds=1 + number % 1000)))


async def marks_in_flight(_: VirtualClock) -> None:
    for _number in range(CALL_COUNT):
        with in_flight():
            pass


async def clock_timeouts(_: VirtualClock) -> None:
    clock, hour = SystemClock(), timedelta(hours=1)
    for _number in range(BLOCK_COUNT):
        async with timeout_after(clock, hour):
            await asyncio.sleep(0)


async def asyncio_timeouts(_: VirtualClock) -> None:
    for _number in range(BLOCK_COUNT):
        async with asyncio.timeout(3600):
            await asyncio.sleep(0)


def measure(
    what: str, count: int, work: Callable[[VirtualClock], Awaitable[None]], *, auto_jump: bool
) -> None:
    async def main() -> float:
        clock = VirtualClock(START, auto_jump=auto_jump)
        began = perf_counter()
        await (work(clock) if auto_jump else clock.run(work(clock)))
        return perf_counter() - began

    took = min(asyncio.run(main()) for _ in range(3))
    print(f"{what:<52} {took:8.3f} s {took / count * 1e6:9.2f} µs each")


def main() -> None:
    measure("a year, 10,000 fires, driven by run()", FIRE_COUNT, a_year_of_fires, auto_jump=False)
    measure("a year, 10,000 fires, auto-jump", FIRE_COUNT, a_year_of_fires, auto_jump=True)
    measure("100,000 sleepers at 1,000 instants", SLEEPER_COUNT, many_sleepers, auto_jump=False)
    measure("with in_flight()", CALL_COUNT, marks_in_flight, auto_jump=True)
    measure(
        "timeout_after(SystemClock) around one turn", BLOCK_COUNT, clock_timeouts, auto_jump=True
    )
    measure("asyncio.timeout around one turn", BLOCK_COUNT, asyncio_timeouts, auto_jump=True)


if __name__ == "__main__":
    main()
