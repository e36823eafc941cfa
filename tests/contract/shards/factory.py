"""Sharded stores for the contracts: the same tests, over several ordinary stores."""

from collections.abc import Awaitable, Callable, Mapping

from rota.clock.system import SystemClock
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.shards.store import ShardedStore

NAMES = ("one", "two", "three")


async def open_over_memory() -> OpenStore:
    """An empty store over three in memory."""

    async def make() -> OpenStore:
        return MemoryStore()

    openers: Mapping[str, Callable[[], Awaitable[OpenStore]]] = dict.fromkeys(NAMES, make)
    return await ShardedStore.open(openers, SystemClock())


def shards_of(*addresses: str) -> str:
    """The address of a sharded store over these stores."""
    pairs = zip(NAMES, addresses, strict=False)
    return "shards:" + "|".join(f"{name}={address}" for name, address in pairs)
