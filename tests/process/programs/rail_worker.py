"""A worker that sends what series ask for, and writes down each message outside the store.

``python -m tests.process.programs.rail_worker STORE FILE``. The file is there when the worker is at
work. A message is one line at its end, on the disk before the handler returns. The worker ends when
it is told to by a signal.
"""

import asyncio
import logging
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from rota import open_store
from rota.events import Event, WorkerStarted
from rota.worker import Context, Worker, WorkerSettings, run_until_signalled

KIND = "checkin.ping"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent: for which occurrence of whose series, and how many before it were missed."""

    tenant: str
    series: str
    scheduled_for: datetime
    sent_at: datetime
    missed_count: int
    attempt: int


class Outbox:
    """A file that only grows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, message: Message) -> None:
        os.write(self._file, msgspec.json.encode(message) + b"\n")
        os.fsync(self._file)


def read_outbox(path: Path) -> list[Message]:
    decoder = msgspec.json.Decoder(Message)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]


async def work(address: str, outbox: Outbox) -> None:
    async with await open_store(address) as store:
        settings = WorkerSettings(poll_for=timedelta(milliseconds=500))
        worker = Worker(store, settings=settings)
        worker.events.subscribe(outbox.open)

        @worker.handler(KIND, notifies=True)
        async def send(context: Context) -> None:
            message = Message(
                tenant=context.tenant,
                series=context.payload["series"],
                scheduled_for=context.scheduled_for,
                sent_at=context.now,
                missed_count=context.punctuality.missed_count,
                attempt=context.attempt,
            )
            await context.once(context.effect_key, lambda: outbox.append(message))

        await run_until_signalled(worker)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(work(sys.argv[1], Outbox(Path(sys.argv[2]))))
