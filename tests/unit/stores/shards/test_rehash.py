"""Adding and draining shards while new tenants come and old ones work."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.stores.shards.moving import NAMES, START, Death, Killed, World

from rota.errors import InvalidInputError, MoveConflictError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import KeptJob
from rota.stores.shards.mover import Moved
from rota.stores.shards.placement import choose_shard
from rota.stores.shards.rehash import Rehash
from rota.stores.shards.store import ShardedStore
from rota.stores.shards.view import join
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import take

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


async def two_and_a_spare() -> World:
    """A store of two shards, and a third that is in the address and not in use yet."""
    stores = {name: MemoryStore() for name in NAMES}
    await join({name: stores[name] for name in NAMES[:2]})
    return World(stores, VirtualClock(START))


async def admit(world: World, prefix: str, count: int, pause: timedelta = SECOND / 2) -> None:
    """New tenants, each with a job, one after another."""
    store = await world.open()
    for number in range(count):
        job = a_job(tenant=f"{prefix}-{number}")
        await world.insist(lambda: store.insert([job], world.clock.now()))  # noqa: B023 - awaited at once
        world.acknowledged[job.id] = job.tenant
        await world.clock.sleep(pause)


async def expect_all_found(world: World, store: ShardedStore) -> None:
    for job_id, tenant in world.acknowledged.items():
        assert await store.get(tenant, [job_id]), f"{tenant} is not where it is looked for"
    counts = [
        await each.count(tenant)
        for each in world.stores.values()
        for tenant in {*world.acknowledged.values()}
    ]
    assert sum(counts) == len(world.acknowledged)


async def test_a_spare_shard_is_not_used() -> None:
    world = await two_and_a_spare()
    await world.run(admit(world, "old", 40))
    assert [len(await take(it)) for it in world.stores.values()][2] == 0


@pytest.mark.parametrize("at", [None, *range(1, 13)])
async def test_an_added_shard_gets_new_tenants_and_old_ones_stay(at: int | None) -> None:
    world = await two_and_a_spare()

    async def live() -> None:
        await admit(world, "old", 40, timedelta(0))
        coming = asyncio.create_task(admit(world, "meanwhile", 60))
        await world.clock.sleep(SECOND)
        try:
            await Rehash(await world.open(Death(at)), world.clock).add("three")
        except Killed:
            await Rehash(await world.open(), world.clock).add("three")
        await coming
        await admit(world, "new", 40, timedelta(0))

    await world.run(live())
    store = await world.open()
    await expect_all_found(world, store)
    assert store.view.placement.hashed == NAMES
    third = world.stores["three"]
    counts = {
        prefix: sum([await third.count(f"{prefix}-{number}") for number in range(40)])
        for prefix in ("old", "new")
    }
    assert counts["old"] == 0
    assert 5 < counts["new"] < 25


@pytest.mark.parametrize("at", [None, *range(1, 80, 11)])
async def test_a_drained_shard_is_empty_and_can_be_left_out(at: int | None) -> None:
    world = World({name: MemoryStore() for name in NAMES}, VirtualClock(START))

    async def live() -> None:
        await admit(world, "old", 6, timedelta(0))
        coming = asyncio.create_task(admit(world, "meanwhile", 30))
        await world.clock.sleep(SECOND)
        try:
            await Rehash(await world.open(Death(at)), world.clock).drain("two")
        except Killed:
            await world.clock.sleep(MINUTE)
            await Rehash(await world.open(), world.clock).drain("two")
        await coming

    await world.run(live())
    await expect_all_found(world, await world.open())
    assert [each async for each in world.stores["two"].scan("nothing")] == []
    left = {name: world.stores[name] for name in ("one", "three")}
    placement = await join(left)
    assert placement.hashed == ("one", "three")
    assert placement.exceptions == {}


async def test_drained_tenants_go_where_hashing_puts_them() -> None:
    world = World({name: MemoryStore() for name in NAMES}, VirtualClock(START))
    await world.run(admit(world, "old", 15, timedelta(0)))
    before = (await world.open()).view.placement
    theirs = [f"old-{it}" for it in range(15) if before.locate(f"old-{it}") == "three"]
    moved = await world.run(Rehash(await world.open(), world.clock).drain("three"))
    expected = [
        Moved(tenant, "three", choose_shard(tenant, ("one", "two")), 1) for tenant in theirs
    ]
    assert sorted(moved) == sorted(expected)
    assert theirs


async def test_the_home_shard_and_strangers_are_refused() -> None:
    world = await two_and_a_spare()
    rehash = Rehash(await world.open(), world.clock)
    with pytest.raises(InvalidInputError, match="home shard"):
        await rehash.drain("one")
    with pytest.raises(InvalidInputError, match='"four" is not a shard'):
        await rehash.add("four")


async def test_only_one_change_of_the_shards_at_a_time() -> None:
    world = await two_and_a_spare()

    async def check() -> None:
        store = await world.open()
        adding = asyncio.create_task(Rehash(store, world.clock).add("three"))
        await world.clock.sleep(SECOND)
        with pytest.raises(MoveConflictError, match="one, two, three"):
            await Rehash(await world.open(), world.clock).drain("two")
        await adding

    await world.run(check())


async def test_a_tenant_that_gets_its_first_job_during_a_change_is_noted() -> None:
    """It came after its shard was looked through, and before the change was made."""
    world = await two_and_a_spare()
    store = await world.open()
    await store.view.change(lambda known: replace(known, next_hashed=NAMES))
    moving = next(f"t{it}" for it in range(99) if choose_shard(f"t{it}", NAMES) == "three")
    staying = next(f"t{it}" for it in range(99) if choose_shard(f"t{it}", NAMES) == "two")
    await store.insert([a_job(tenant=moving)], START)
    await store.load([KeptJob(a_job(tenant=staying))], START)
    where = choose_shard(moving, NAMES[:2])
    assert store.view.placement.exceptions == {moving: where}
    assert await world.stores[where].count(moving) == 1
