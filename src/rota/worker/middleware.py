"""Middleware: code of the program around every run of a handler."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias

from rota.errors import invalid
from rota.worker.context import Context

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Runs the next middleware, or the handler. It returns or raises what that returns or raises."""

Middleware: TypeAlias = Callable[[Context, CallNext], Awaitable[Any]]
"""An ``async`` callable around a run: ``return await call_next()`` runs the handler.

An exception of the handler passes through it as it is. What the middleware returns or raises
decides about the attempt. Its context variables are seen by the handler.
"""

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens what handlers share, such as a connection pool; its value is ``Context.state``."""


def compose(middleware: Sequence[Middleware], context: Context, call: CallNext) -> CallNext:
    """The call with all middleware around it, the first one outermost."""
    for each in reversed(middleware):
        call = partial(each, context, call)
    return call


def check_middleware(middleware: object) -> None:
    """Refuse anything but a sequence of callables."""
    if isinstance(middleware, str) or not isinstance(middleware, Sequence):
        raise invalid("middleware", f"must be a sequence of callables, got {middleware!r:.40}")
    for each in middleware:
        if not callable(each):
            raise invalid("middleware", f"must contain only callables, got {each!r:.40}")
