"""A worker that ends when its process is told to."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rota.worker.running.shift import StopReport
from rota.worker.worker import Worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def run_until_signalled(worker: Worker) -> StopReport:
    """``worker.run()``, stopped by the first SIGINT or SIGTERM and hurried by the second."""
    with stop_on_signals(worker):
        return await worker.run()


@contextmanager
def stop_on_signals(worker: Worker) -> Iterator[None]:
    """Have each SIGINT and SIGTERM call ``worker.stop()`` while the context lasts.

    Without effect where a program cannot have signal handlers: in another thread than the main one,
    and on platforms whose event loops have none.
    """
    loop = asyncio.get_running_loop()
    taken = []
    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, worker.stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
