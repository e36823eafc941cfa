"""A process with one poller, which writes down every document it is given.

It polls until SIGTERM, and then stops properly.
"""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import msgspec
from pymongo import AsyncMongoClient

from rota import Poller, open_store
from rota.clock import SystemClock
from rota.poller import PollableStore, PolledJob, PolledJobs
from rota.poller.mongo import MongoCollectionStore
from rota.poller.sql import SqlTableStore

COLLECTION = "jobs"
SLEEP_UNTIL = "cron.sleepUntil"
TABLE_OF = "table of "
"""Before the address of a database: its table with the name of the collection is polled."""


class Orders(msgspec.Struct, frozen=True):
    """Which store is polled, where it is written down, and how long things take."""

    url: str
    journal: str
    lock_ms: int
    work_ms: int = 0


class Entry(msgspec.Struct, frozen=True):
    """A poller was started, was given a document, or reported an error."""

    at: datetime
    process_id: int
    job: str = ""
    due_at: datetime | None = None
    error: str = ""


class Journal:
    """Lines that are in the file as soon as they are written, whatever becomes of the process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._clock = SystemClock()

    def write(self, **fields: Any) -> None:
        entry = Entry(at=self._clock.now(), process_id=os.getpid(), **fields)
        os.write(self._file, msgspec.json.encode(entry) + b"\n")


async def open_pollable(url: str, stack: AsyncExitStack) -> PollableStore:
    if url.startswith(TABLE_OF):
        address = url.removeprefix(TABLE_OF)
        pool = asyncpg.create_pool(address, min_size=1, max_size=2, timeout=2, command_timeout=20)
        return SqlTableStore(await stack.enter_async_context(pool), COLLECTION)
    if not url.startswith("mongodb://"):
        return PolledJobs(await stack.enter_async_context(await open_store(url)))
    client: AsyncMongoClient[Any] = AsyncMongoClient(
        url, serverSelectionTimeoutMS=2_000, socketTimeoutMS=20_000
    )
    collection = (await stack.enter_async_context(client)).get_default_database()[COLLECTION]
    return MongoCollectionStore(collection, sleep_until_field=SLEEP_UNTIL)


async def run(orders: Orders) -> None:
    journal, clock = Journal(orders.journal), SystemClock()
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)

    async def process(job: PolledJob) -> None:
        journal.write(job=str(job.id), due_at=job.sleep_until)
        await clock.sleep(timedelta(milliseconds=orders.work_ms))

    async with AsyncExitStack() as stack:
        poller = Poller(
            await open_pollable(orders.url, stack),
            on_document=process,
            on_start=journal.write,
            on_error=lambda error: journal.write(error=repr(error)[:500]),
            lock_duration=timedelta(milliseconds=orders.lock_ms),
            idle_delay=timedelta(milliseconds=200),
        )
        async with poller:
            await is_over.wait()


def take_part(orders: Orders, complaints: str) -> None:
    """The whole life of the process; what it prints as errors goes to a file."""
    os.dup2(os.open(complaints, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    asyncio.run(run(orders))
