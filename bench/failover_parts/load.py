"""Programs under load while primaries fail: one adds jobs, one works them off.

Each writes what it has seen to a file of its own, line by line, as soon as it knows. The judge
reads these files, and believes no program.
"""

import asyncio
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rota import open_store
from rota.errors import StoreError
from rota.events import Event, JobSettled
from rota.jobs import Job, JobRequest, admit_job, make_job_ids
from rota.stores.protocol import JobStore
from rota.worker import Context, Worker, WorkerSettings

KIND = "effect"
LONG_SHARE = 20
"""One job in this number takes seconds, so that its lease outlives a primary."""


class Journal:
    """A file of lines with the time of each; a line is with the system when ``write`` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words: object) -> None:
        line = " ".join(map(str, (f"{time.time():.6f}", *words)))
        os.write(self._file, f"{line}\n".encode())


def _new_job(chance: random.Random, number: int) -> Job:
    now = datetime.now(UTC)
    (job_id,) = make_job_ids(now, chance.getrandbits(62), 1)
    seconds = 3.0 if number % LONG_SHARE == 0 else 0.02
    request = JobRequest(name="failover", queue="default", kind=KIND, payload={"takes": seconds})
    return admit_job(request, job_id=job_id, now=now)


async def _add(store: JobStore, job: Job, journal: Journal) -> None:
    """Add one job, again and again the same one until the store acknowledges it."""
    while True:
        try:
            (answer,) = await store.insert([job], datetime.now(UTC))
        except StoreError as error:
            journal.write("refused", job.id, error.details.get("outcome", "?").replace(" ", "_"))
            await asyncio.sleep(0.05)
        else:
            journal.write("acknowledged", job.id, "again" if answer.is_existing else "new")
            return


async def add_jobs(url: str, journal: Journal, rate: float, is_over: asyncio.Event) -> None:
    chance = random.Random()
    async with await open_store(url) as store:
        number = 0
        while not is_over.is_set():
            number += 1
            await _add(store, _new_job(chance, number), journal)
            await asyncio.sleep(1 / rate)


async def work(url: str, journal: Journal, lease_seconds: float, is_over: asyncio.Event) -> None:
    async with await open_store(url) as store:
        lease_for = timedelta(seconds=lease_seconds)
        worker = Worker(store, settings=WorkerSettings(lease_for=lease_for))

        async def effect(context: Context) -> None:
            place = (context.job.id, context.token)
            journal.write("begins", *place)
            try:
                await asyncio.sleep(context.payload["takes"])
                journal.write("effect", *place)
            finally:
                journal.write("ends", *place)

        def note(event: Event) -> None:
            if isinstance(event, JobSettled):
                journal.write("settled", event.job_id)

        worker.handler(KIND)(effect)
        worker.events.subscribe(note)
        running = asyncio.create_task(worker.run())
        await is_over.wait()
        worker.stop()
        await running


async def _main(role: str, url: str, path: str, figure: str) -> None:
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    play = {"add": add_jobs, "work": work}[role]
    await play(url, Journal(Path(path)), float(figure), is_over)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:5]))
