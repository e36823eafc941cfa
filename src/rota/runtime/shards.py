"""Shards as an operator handles them: look at them, add and drain them, and move tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from rota.clock.protocol import Clock
from rota.errors import InvalidInputError
from rota.runtime.wiring import open_clock, open_store
from rota.stores.opened import MoveReport, ShardReport
from rota.stores.shards.mover import Moved, Mover, Report
from rota.stores.shards.rehash import Rehash, find_tenants
from rota.stores.shards.store import ShardedStore


class ShardsStatus(NamedTuple):
    """The shards, the tenants that move, and how many jobs each tenant has on each shard.

    ``tenants`` is None if they were not asked for: to find them, all jobs are read.
    """

    shards: list[ShardReport]
    moves: list[MoveReport]
    tenants: dict[str, dict[str, int]] | None = None


@asynccontextmanager
async def open_sharded(url: str) -> AsyncIterator[tuple[ShardedStore, Clock]]:
    """The sharded store at an address, with its clock, while the context lasts."""
    if not url.startswith("shards:"):
        raise InvalidInputError(
            "This store has no shards: its address does not begin with shards:",
            {"field": "store"},
        )
    async with await open_store(url) as store, open_clock(store) as clock:
        if not isinstance(store, ShardedStore):
            raise TypeError(store)
        yield store, clock


async def read_status(url: str, *, counts_tenants: bool) -> ShardsStatus:
    """The state of all shards."""
    async with open_sharded(url) as (store, clock):
        shards, moves = await store.describe_shards(clock.now())
        if not counts_tenants:
            return ShardsStatus(shards, moves)
        tenants = {
            name: await find_tenants(shard, lambda _: None) for name, shard in store.members.items()
        }
        return ShardsStatus(shards, moves, tenants)


async def move_tenant(url: str, tenant: str, target: str, report: Report) -> Moved | None:
    """Move a tenant while it works, or complete its move; None if it lies there already."""
    async with open_sharded(url) as (store, clock):
        return await Mover(store, clock, report).move(tenant, target)


async def add_shard(url: str, name: str, report: Report) -> None:
    """Let new tenants come to a shard that the address names."""
    async with open_sharded(url) as (store, clock):
        await Rehash(store, clock, report).add(name)


async def drain_shard(url: str, name: str, report: Report) -> list[Moved]:
    """Move all tenants away from a shard, and let no new ones come to it."""
    async with open_sharded(url) as (store, clock):
        return await Rehash(store, clock, report).drain(name)
