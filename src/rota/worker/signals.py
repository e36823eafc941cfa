"""A worker that stops when its process is signalled."""

from collections.abc import Iterator
from contextlib import contextmanager

from rota.fleet.signals import call_on_signals
from rota.worker.running.shift import StopReport
from rota.worker.worker import Worker


async def run_until_signalled(worker: Worker) -> StopReport:
    """``worker.run()``, stopped by the first SIGINT or SIGTERM and hurried by the second."""
    with stop_on_signals(worker):
        return await worker.run()


@contextmanager
def stop_on_signals(worker: Worker) -> Iterator[None]:
    """Call ``worker.stop()`` on each SIGINT and SIGTERM while the context lasts.

    Without effect where signal handlers are not available: outside the main thread, and on
    platforms whose event loops have none.
    """
    with call_on_signals(worker.stop):
        yield
