"""A mover that is killed with kill -9 again and again, while workers and producers go on."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.shards.factory import shards_of
from tests.process.programs.shard_mover import SHORT
from tests.servers.schemas import Schemas
from tests.servers.shared import with_option
from tests.unit.stores.shards.moving import MOVING, NAMES, TARGET, World

from rota.clock import SystemClock
from rota.runtime.wiring import open_store

pytestmark = pytest.mark.process

DELAYS = (0.0, 0.1, 1.5, 1.6, 3.1)
"""Seconds after which a mover is killed: in each of its phases, and around its writes."""


@pytest.fixture(params=["sqlite", "postgres"])
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    if request.param == "sqlite":
        yield [f"sqlite:///{tmp_path}/{name}.db" for name in NAMES]
        return
    database: str = request.getfixturevalue("postgres_database")
    schemas: Schemas = request.getfixturevalue("postgres_schemas")
    taken = [schemas.take() for _ in NAMES]
    yield [with_option(database, "schema", name) for name in taken]
    for name in taken:
        schemas.leave(name)


async def start_mover(address: str) -> Process:
    program = ("-m", "tests.process.programs.shard_mover", address, MOVING, TARGET)
    mover = await asyncio.create_subprocess_exec(sys.executable, *program, stdout=PIPE)
    assert mover.stdout is not None
    assert await mover.stdout.readline() == b"begun\n"
    return mover


async def move_under_fire(address: str) -> int:
    """Kill movers until one is quicker; how many were killed."""
    clock = SystemClock()
    for number, delay in enumerate(DELAYS):
        mover = await start_mover(address)
        waiting = asyncio.create_task(mover.wait())
        await asyncio.wait([waiting], timeout=delay)
        if waiting.done():
            return number
        mover.kill()
        await waiting
        await clock.sleep(timedelta(milliseconds=100))
    mover = await start_mover(address)
    assert mover.stdout is not None
    assert await mover.stdout.readline() == b"moved\n"
    assert await mover.wait() == 0
    return len(DELAYS)


@pytest.mark.timeout(180)
async def test_nothing_is_lost_or_doubled_however_often_the_mover_is_killed(
    addresses: list[str],
) -> None:
    async with AsyncExitStack() as stack:
        stores = {}
        for name, address in zip(NAMES, addresses, strict=True):
            stores[name] = await stack.enter_async_context(await open_store(address))
        world = World(stores, SystemClock(), SHORT, second=timedelta(milliseconds=200))
        await world.start_series(count=5)
        workers = [asyncio.create_task(world.work(name)) for name in ("w1", "w2")]
        producer = asyncio.create_task(world.produce(rounds=40))
        killed_count = await move_under_fire(shards_of(*addresses))
        await producer
        await world.rest()
        await asyncio.gather(*workers)
        await world.judge(TARGET)
        assert killed_count > len(DELAYS) // 2
        assert len(world.executions) > 240
