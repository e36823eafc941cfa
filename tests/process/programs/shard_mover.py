"""Moves a tenant of a sharded store, with short waits, for a test that kills it.

``python -m tests.process.programs.shard_mover ADDRESS TENANT TARGET``. It says when it begins, and
``moved`` at the end.
"""

import asyncio
import sys
from datetime import timedelta

from rota.clock import SystemClock
from rota.errors import MoveConflictError
from rota.runtime.wiring import open_store
from rota.stores.shards.mover import Mover
from rota.stores.shards.store import ShardedStore
from rota.stores.shards.view import Timing

SHORT = Timing(
    read_every=timedelta(milliseconds=50),
    fresh_for=timedelta(milliseconds=500),
    calls_for=timedelta(seconds=1),
    held_for=timedelta(milliseconds=2500),
)
"""All processes of the test have the same."""


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def move(address: str, tenant: str, target: str) -> None:
    clock = SystemClock()
    async with await open_store(address) as store:
        assert isinstance(store, ShardedStore)
        store.view.timing = SHORT
        say("begun")
        while True:
            try:
                await Mover(store, clock).move(tenant, target)
            except MoveConflictError:  # the one before was killed a moment ago
                await clock.sleep(timedelta(milliseconds=100))
            else:
                break
    say("moved")


if __name__ == "__main__":
    asyncio.run(move(*sys.argv[1:]))
