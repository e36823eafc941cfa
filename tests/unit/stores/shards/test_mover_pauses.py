"""A mover whose process is paused for longer than others wait for it does no harm when it wakes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.unit.stores.shards.moving import (
    MOVING,
    NAMES,
    SOURCE,
    START,
    TARGET,
    Answer,
    Death,
    World,
)

from rota.clock.protocol import Clock
from rota.errors import MoveConflictError
from rota.jobs import JobStatus
from rota.stores.memory import MemoryStore
from rota.stores.shards.mover import Mover
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import end, take

MINUTE = timedelta(minutes=1)
MOST_CALLS = 60


class Pause(Death):
    """Pauses a process after one of its calls has been answered."""

    def __init__(self, clock: Clock, at: int) -> None:
        super().__init__()
        self.is_over = False
        self._clock = clock
        self._paused_at = at

    async def around(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        self.call_count += 1
        number = self.call_count
        answer = await call()
        if number == self._paused_at:
            await self._clock.sleep(5 * MINUTE)
            self.is_over = True
        return answer


async def pause_and_take_over(world: World, at: int, *, returns: bool) -> bool:
    """Another mover takes over, and perhaps moves the tenant back; whether the first was paused."""
    store, pause = await world.open(), Pause(world.clock, at)
    jobs = [a_job(tenant=MOVING, created_at=START) for _ in range(3)]
    await store.insert(jobs, START)
    (first,) = await take(store, START, limit=1)
    await end(store, first, now=START)
    slow = asyncio.create_task(Mover(await world.open(pause), world.clock).move(MOVING, TARGET))
    await world.clock.sleep(2 * MINUTE)
    second = Mover(await world.open(), world.clock)
    await second.move(MOVING, TARGET)
    if returns:
        await second.move(MOVING, SOURCE)
    await store.view.change(lambda known: known)
    (job,) = await take(store, world.clock.now(), limit=1)
    await end(store, job, now=world.clock.now())
    late = a_job(tenant=MOVING, created_at=START)
    await store.insert([late], world.clock.now())
    with suppress(MoveConflictError):
        await slow
    await store.view.change(lambda known: known)
    found = await store.get(MOVING, [*(each.id for each in jobs), late.id])
    ended = {each for each, it in found.items() if it.status is JobStatus.COMPLETED}
    assert (len(found), ended) == (4, {first.id, job.id}), f"paused after call {at}"
    return pause.is_over


@pytest.mark.parametrize("returns", [False, True])
async def test_a_mover_that_wakes_after_another_took_over_does_no_harm(returns: bool) -> None:
    paused_count = 0
    for at in range(1, MOST_CALLS):
        world = World({name: MemoryStore() for name in NAMES}, VirtualClock(START))
        paused_count += await world.run(pause_and_take_over(world, at, returns=returns))
    assert 20 < paused_count < MOST_CALLS - 1
