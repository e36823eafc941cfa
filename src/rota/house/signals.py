"""The signals of a process that are all handled in one place."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def calling_on_signals(act: Callable[[], object]) -> Iterator[None]:
    """Have each SIGINT and SIGTERM call ``act`` in the event loop while the context lasts.

    Without effect where a program cannot have signal handlers: in another thread than the main one,
    and on platforms whose event loops have none.
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
