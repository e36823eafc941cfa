"""Takes turns at pruning: ``python -m tests.process.programs.pruning NAME STORE CLOCK``.

Begins when there is a file ``go``. Prints each turn that it did not get, and each batch that it
removed with the time and the end of its claim. While there is a file ``hold``, it stops there.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from tests.process.programs.scaled_clock import ScaledClock

from rota import open_store
from rota.events import EventEmitter
from rota.fleet.outage import Outage
from rota.jobs.retention import Keep
from rota.policy.retention import read_progress
from rota.policy.watch import GateWatch, LimitWatch
from rota.stores.opened import OpenStore
from rota.stores.protocol import Pruned
from rota.worker import WorkerSettings
from rota.worker.pruner import Pruner
from rota.worker.registry import Registry
from rota.worker.settings import Resources


class Said(msgspec.Struct, frozen=True):
    """A line of the output; ``removed`` is None for a turn that another process had."""

    by: str
    at: datetime
    removed: int | None = None
    claimed_until: datetime | None = None


def say(said: Said) -> None:
    write(msgspec.json.encode(said).decode())


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def wait_while(clock: ScaledClock, condition: Callable[[], bool]) -> None:
    while condition():
        await clock.sleep(timedelta(seconds=0.1))


class SaidPrunes:
    """The store; it prints what it removes."""

    def __init__(self, store: OpenStore, name: str, clock: ScaledClock) -> None:
        self._store = store
        self._name = name
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def prune(self, *asked: Any) -> Pruned:
        pruned = await self._store.prune(*asked)
        if pruned.removed:
            until = (await read_progress(self._store)).progress.until
            say(Said(self._name, self._clock.now(), pruned.removed, until))
            await wait_while(self._clock, Path("hold").exists)
        return pruned


async def take_turns(name: str, address: str, clock: ScaledClock) -> None:
    events = EventEmitter("rota.worker")
    async with await open_store(address) as store:
        watched: Any = SaidPrunes(store, name, clock)
        settings, registry = WorkerSettings(), Registry(None, ())
        outage, random = Outage(events), Random(name)
        resources = Resources(
            *(watched, clock, settings, registry, events, random, name, outage),
            *(GateWatch(store), LimitWatch(store)),
        )
        pruner = Pruner(resources, Keep(ended=timedelta(days=1)))
        write("ready")
        await wait_while(clock, lambda: not Path("go").exists())
        while True:
            if not await pruner.run_once():
                say(Said(name, clock.now()))
            await clock.sleep(timedelta(seconds=1))


if __name__ == "__main__":
    given_name, given_store, given_clock = sys.argv[1:]
    asyncio.run(
        take_turns(given_name, given_store, msgspec.json.decode(given_clock, type=ScaledClock))
    )
