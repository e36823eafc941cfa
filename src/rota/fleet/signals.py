"""The signals that stop a process."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def call_on_signals(act: Callable[[], object]) -> Iterator[None]:
    """Call ``act`` in the event loop on each SIGINT and SIGTERM while the context lasts.

    Without effect where signal handlers are not available: outside the main thread, and on
    platforms whose event loops have none.
    """
    loop = asyncio.get_running_loop()
    taken = []
    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, act)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
