"""Awaiting a coroutine in a context of its own, without a task of its own.

Runners live long and run many jobs. What a handler sets in a context variable must not be found by
the next one.
"""

from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any


class Isolated:
    """``await`` this, and the coroutine runs in a copy of the present context."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = copy_context().run, self._coroutine
        try:
            waits_for = run(coroutine.send, None)
            while True:
                try:
                    answer = yield waits_for
                except GeneratorExit:
                    run(coroutine.close)
                    raise
                except BaseException as error:  # noqa: BLE001 - the coroutine's to deal with
                    waits_for = run(coroutine.throw, error)
                else:
                    waits_for = run(coroutine.send, answer)
        except StopIteration as end:
            return end.value
