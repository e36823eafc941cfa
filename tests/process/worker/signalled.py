"""A worker on a SQLite file that ends when it is told to, and says how.

``python -m tests.process.worker.signalled STORE GRACE_SECONDS``. Its handlers: ``wait`` goes on
until the file named in the payload exists, ``block`` does the same in a thread, and looks at
nothing else. Lines on standard output: ``began KIND``, ``stopping``, and at the end the report as
JSON.
"""

import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path
from threading import Event

import msgspec

from rota import events, open_store
from rota.clock import SystemClock
from rota.worker import Context, Worker, WorkerSettings, run_until_signalled

LOOKED_EVERY = timedelta(milliseconds=10)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def is_released(context: Context) -> bool:
    return Path(context.payload).exists()


async def wait(context: Context) -> None:
    say("began wait")
    while not is_released(context):
        await SystemClock().sleep(LOOKED_EVERY)


def block(context: Context) -> None:
    say("began block")
    pause = Event()
    while not is_released(context):
        pause.wait(LOOKED_EVERY.total_seconds())


def tell(event: events.Event) -> None:
    if isinstance(event, events.WorkerStopping):
        say("stopping")


async def work(url: str, grace_for: timedelta) -> None:
    settings = WorkerSettings(grace_for=grace_for, poll_for=timedelta(milliseconds=50))
    async with await open_store(url) as store:
        worker = Worker(store, {"wait": wait, "block": block}, settings=settings)
        worker.events.subscribe(tell)
        report = await run_until_signalled(worker)
    say(msgspec.json.encode(report).decode())


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(work(sys.argv[1], timedelta(seconds=float(sys.argv[2]))))
