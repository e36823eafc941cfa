"""Whether an event loop has anything left to run now."""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Generator
from types import coroutine
from typing import Any

QUIET_TURNS = 32
"""How long every task must have been waiting before a loop that does not tell is called idle."""


@coroutine
def turn() -> Generator[None, None, None]:
    """Let everything that is ready now run once."""
    yield


class IdleProbe:
    """Asks one loop, once a turn, whether it has come to rest.

    The loops of the standard library are asked exactly. Any other loop counts as idle when all its
    tasks have been waiting for ``QUIET_TURNS`` turns: exact for tasks, while a chain of more bare
    callbacks than that, one scheduling the next, may be overtaken by the time.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = ready_queue(loop)
        self._quiet_turns = 0

    def is_idle(self) -> bool:
        """Call from a task or callback of the loop that did nothing else in this turn."""
        if self._ready is not None:
            return not self._ready
        if any(is_runnable(task) for task in self._other_tasks()):
            self._quiet_turns = 0
        else:
            self._quiet_turns += 1
        return self._quiet_turns > QUIET_TURNS

    def _other_tasks(self) -> set["asyncio.Task[Any]"]:
        return asyncio.all_tasks(self._loop) - {asyncio.current_task(self._loop)}


def ready_queue(loop: AbstractEventLoop) -> Any:
    """The callbacks the loop is about to run, or None when it does not show them.

    No public interface tells an idle loop from a busy one, and guessing by yielding "often enough"
    makes tests fail by chance. The attribute has had this name and meaning since Python 3.4.
    """
    return getattr(loop, "_ready", None)


def is_runnable(task: "asyncio.Task[Any]") -> bool:
    """Whether the task will take a step without anything else happening first.

    A task that waits holds the future it waits for; there is no public way to see it.
    """
    waits_for = getattr(task, "_fut_waiter", None)
    return waits_for is None or waits_for.done()
