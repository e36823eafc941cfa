"""A worker on one store, to which one kind of job is poison.

``python -m tests.process.programs.poisoned STORE`` works until it is killed or told to end. The
handler of ``poison`` kills the process a moment after it began; that of ``innocent`` takes longer.
"""

import asyncio
import logging
import os
import signal
import sys
from datetime import timedelta

from rota import open_store
from rota.clock.system import SystemClock
from rota.worker import Context, Worker, WorkerSettings, run_until_signalled

DEADLY_AFTER = timedelta(milliseconds=150)
INNOCENT_FOR = timedelta(milliseconds=250)
SETTINGS = WorkerSettings(
    concurrency=10,
    lease_for=timedelta(seconds=1),
    poll_for=timedelta(milliseconds=50),
)


async def kill_the_worker(_: Context) -> None:
    await SystemClock().sleep(DEADLY_AFTER)
    os.kill(os.getpid(), signal.SIGKILL)


async def take_a_while(_: Context) -> None:
    await SystemClock().sleep(INNOCENT_FOR)


async def work(url: str) -> None:
    async with await open_store(url) as store:
        handlers = {"poison": kill_the_worker, "innocent": take_a_while}
        await run_until_signalled(Worker(store, handlers, settings=SETTINGS))


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(work(sys.argv[1]))
