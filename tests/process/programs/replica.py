"""One scheduler among several on a store; every call and every run goes into its history.

``python -m tests.process.programs.replica ORDERS``. SIGTERM makes it stop properly; SIGINT is left
to asyncio, as in a program that has no handler of its own.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from pathlib import Path

import msgspec
from tests.process.programs.history import History
from tests.process.programs.scaled_clock import ScaledClock
from tests.verification.trace import TraceRecorder

from rota import Scheduler, SchedulerSettings, open_store

SETTINGS = SchedulerSettings(claim_batch=6)
"""Small claims, so that the replicas get in each other's way as often as they can."""

Registration = tuple[str, str, Callable[[], Awaitable[None]], timedelta]


class TaskOrder(msgspec.Struct, frozen=True):
    """A task and how long each of its runs takes, by the scaled clock."""

    name: str
    expression: str
    runs_for: timedelta


class Orders(msgspec.Struct, frozen=True):
    """What one replica is told."""

    store: str
    history: str
    instance: str
    clock: ScaledClock
    tasks: tuple[TaskOrder, ...]


def register(task: TaskOrder, clock: ScaledClock) -> Registration:
    async def run() -> None:
        await clock.sleep(task.runs_for)

    return task.name, task.expression, run, timedelta(minutes=1)


async def take_part(orders: Orders) -> None:
    told_to_stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_stop.set)
    history = History(Path(orders.history))
    recorder = TraceRecorder(orders.clock, instance=orders.instance, sink=history.append)
    async with await open_store(orders.store) as store:
        scheduler = Scheduler(store, clock=orders.clock, zone=UTC, settings=SETTINGS)
        await recorder.initialize(
            scheduler, [register(task, orders.clock) for task in orders.tasks]
        )
        await told_to_stop.wait()
        await recorder.stop(scheduler)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(take_part(msgspec.json.decode(sys.argv[1], type=Orders)))
