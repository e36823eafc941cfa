"""A program of its own: a worker whose handler, in the main module, runs in child processes."""

import asyncio
import os
import sys
from pathlib import Path
from threading import Event

from rota import Context, Worker, open_store
from rota.worker import run_until_signalled


def sleep_and_note(context: Context) -> None:
    """Say that it has begun, sleep, and say that it has ended."""
    path = Path(context.payload["file"])
    path.write_text(f"begun {os.getpid()}\n")
    Event().wait(context.payload["seconds"])
    path.write_text("ended\n")


async def main(url: str) -> None:
    """Run the worker until a signal stops it."""
    async with await open_store(url) as store:
        worker = Worker(store)
        worker.handler("work", run_in="process")(sleep_and_note)
        report = await run_until_signalled(worker)
        print(report.manner, report.child_count, report.killed_count, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
