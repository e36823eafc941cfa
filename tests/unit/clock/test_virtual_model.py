"""Random programs: what the clock does is what a sorted list of deadlines says, every time."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.clock import VirtualClock
from rota.clock.loop import turn

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

Verb = Literal["sleep", "until", "cancel", "advance", "jump"]
Step = tuple[Verb, tuple[int, ...]]
Trace = list[tuple[int, int]]


def seconds(clock: VirtualClock) -> int:
    return (clock.now() - START) // SECOND


@dataclass
class Model:
    """Sleepers as a list, sorted anew each time: (deadline, set as number, who, what is left)."""

    now: int = 0
    timers: list[tuple[int, int, int, Verb, tuple[int, ...]]] = field(default_factory=list)
    fresh: list[tuple[int, Verb, tuple[int, ...]]] = field(default_factory=list)
    set_count: int = 0
    trace: Trace = field(default_factory=list)

    def add(self, who: int, verb: Verb, waits: tuple[int, ...]) -> None:
        deadline = waits[0] if verb == "until" else self.now + waits[0]
        deadline = max(deadline, self.now)  # what is not in the future has its turn in order
        self.set_count += 1
        self.timers.append((deadline, self.set_count, who, verb, waits[1:]))

    def begin(self) -> None:
        """What was started since the last move takes its first step."""
        for who, verb, waits in self.fresh:
            self.add(who, verb, waits)
        self.fresh.clear()
        self.wake()

    def wake(self) -> None:
        """Wake what is due. What it waits for next and is due too has its turn afterwards."""
        while due := sorted(timer for timer in self.timers if timer[0] <= self.now):
            for timer in due:
                self.timers.remove(timer)
                _, _, who, verb, left = timer
                self.trace.append((who, self.now))
                if left:
                    self.add(who, verb, left)

    def advance(self, target: int) -> None:
        self.begin()
        while due := [timer[0] for timer in self.timers if timer[0] <= target]:
            self.now = min(due)
            self.wake()
        self.now = target

    def jump(self, target: int) -> None:
        self.begin()
        back = max(self.now - target, 0)
        self.timers = [
            (deadline - back if verb == "sleep" else deadline, number, who, verb, left)
            for deadline, number, who, verb, left in self.timers
        ]
        self.now = target
        self.wake()

    def cancel(self, who: int) -> None:
        self.begin()
        self.timers = [timer for timer in self.timers if timer[2] != who]

    def follow(self, program: list[Step]) -> Trace:
        for who, (verb, numbers) in enumerate(program):
            match verb:
                case "sleep" | "until":
                    self.fresh.append((who, verb, numbers))
                case "cancel":
                    self.cancel(numbers[0])
                case "advance":
                    self.advance(self.now + numbers[0])
                case "jump":
                    self.jump(numbers[0])
        self.advance(self.now)
        return self.trace


class Program:
    """The same steps on the real thing."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.trace: Trace = []
        self.tasks: dict[int, asyncio.Task[None]] = {}

    async def sleep(self, who: int, verb: Verb, waits: tuple[int, ...]) -> None:
        for wait in waits:
            if verb == "sleep":
                await self.clock.sleep(wait * SECOND)
            else:
                await self.clock.sleep_until(START + wait * SECOND)
            self.trace.append((who, seconds(self.clock)))

    async def take(self, who: int, verb: Verb, numbers: tuple[int, ...]) -> None:
        match verb:
            case "sleep" | "until":
                self.tasks[who] = asyncio.create_task(self.sleep(who, verb, numbers))
            case "cancel":
                await self.clock.advance(timedelta(0))
                if numbers[0] in self.tasks:
                    self.tasks[numbers[0]].cancel()
            case "advance":
                await self.clock.advance(numbers[0] * SECOND)
            case "jump":
                await self.clock.jump_to(START + numbers[0] * SECOND)

    async def finish(self) -> None:
        await self.clock.advance(timedelta(0))
        left = [task for task in self.tasks.values() if not task.done()]
        assert self.clock.sleeper_count == len(left)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        assert (self.clock.sleeper_count, self.clock.next_timer_at) == (0, None)


async def follow(steps: list[Step]) -> Trace:
    program = Program()
    for who, (verb, numbers) in enumerate(steps):
        await program.take(who, verb, numbers)
    await program.finish()
    return program.trace


WAITS = st.lists(st.integers(1, 8), min_size=1, max_size=4).map(tuple)
STEPS = st.one_of(
    st.tuples(st.just("sleep"), WAITS),
    st.tuples(st.just("until"), st.tuples(st.integers(-5, 25))),
    st.tuples(st.just("cancel"), st.tuples(st.integers(0, 12))),
    st.tuples(st.just("advance"), st.tuples(st.integers(0, 9))),
    st.tuples(st.just("jump"), st.tuples(st.integers(-10, 30))),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_wake_ups_and_their_times_are_those_of_a_sorted_list(program: list[Step]) -> None:
    assert asyncio.run(follow(program)) == Model().follow(program)


class Story:
    """Many tasks that share a queue and a lock, sleep, and start and cancel each other."""

    def __init__(self, seed: int) -> None:
        self.clock, self.chance = VirtualClock(START), random.Random(seed)
        self.queue: asyncio.Queue[int] = asyncio.Queue(3)
        self.lock = asyncio.Lock()
        self.trace: list[tuple[str, int, int]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def sleep(self, at_most: int) -> None:
        await self.clock.sleep(self.chance.randint(0, at_most) * SECOND)

    async def act(self, who: int, depth: int) -> None:
        for _ in range(self.chance.randint(1, 6)):
            await self.sleep(20)
            self.trace.append(("woke", who, seconds(self.clock)))
            deeds = [self.hand_on, self.take, self.hold, self.interfere]
            await self.chance.choice(deeds)(who, depth)

    async def hand_on(self, who: int, _: int) -> None:
        if not self.queue.full():
            await self.queue.put(who)

    async def take(self, who: int, _: int) -> None:
        if not self.queue.empty():
            self.trace.append(("took", await self.queue.get(), who))

    async def hold(self, who: int, _: int) -> None:
        async with self.lock:
            await self.sleep(3)
            self.trace.append(("held", who, seconds(self.clock)))

    async def interfere(self, who: int, depth: int) -> None:
        self.chance.choice(self.tasks).cancel()
        if depth < 3:
            self.tasks.append(asyncio.create_task(self.act(100 * depth + who, depth + 1)))
        await turn()

    async def end(self) -> None:
        while left := [task for task in self.tasks if not task.done()]:
            await asyncio.wait(left)

    async def tell(self) -> list[tuple[str, int, int]]:
        self.tasks.extend(asyncio.create_task(self.act(who, 0)) for who in range(30))
        await self.clock.run(self.end())
        self.trace.append(("end", len(self.tasks), seconds(self.clock)))
        return self.trace


async def tell(seed: int) -> list[tuple[str, int, int]]:
    return await Story(seed).tell()


@pytest.mark.parametrize("seed", range(8))
def test_the_same_program_wakes_in_the_same_order_every_time(seed: int) -> None:
    first, second = asyncio.run(tell(seed)), asyncio.run(tell(seed))
    assert len(first) > 50
    assert first == second
