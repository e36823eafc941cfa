"""Handlers by kind of job."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from rota.errors import invalid
from rota.stores.protocol import JobStore
from rota.worker.context import Context
from rota.worker.processes import ProcessCall

Work: TypeAlias = Callable[[Context], Any]
"""A function of one argument, or a coroutine function. A plain function runs in a thread."""


RunIn: TypeAlias = Literal["thread", "process"]
"""Where a plain function runs: in a thread of the worker, or in a child process."""


Encode: TypeAlias = Callable[[Any], bytes | None]
"""Turns what a handler returned into JSON; None if there is nothing to keep."""


Prepare: TypeAlias = Callable[[Context, JobStore], Awaitable[None]]
"""Completes the context of a job with dependencies before its handler is called."""


class Handler(NamedTuple):
    """What is done for one kind of job, and how.

    ``encode`` makes the result that is kept with the job. Without it, what the handler returns is
    not kept. ``prepare`` is called in the event loop before ``work``, for jobs with dependencies.
    """

    work: Work
    is_async: bool
    notifies: bool
    timeout: timedelta | None
    encode: Encode | None = None
    prepare: Prepare | None = None


class Registry(dict[str, Handler]):
    """Handlers by kind. A kind has one handler, and keeps it."""

    def __init__(self, works: Mapping[str, Work] | None, notifies: Collection[str]) -> None:
        super().__init__()
        if isinstance(notifies, str):
            raise invalid("notifies", "must be a collection of kinds, got a text")
        self._notifying = frozenset(notifies)
        for kind, work in (works or {}).items():
            self.add(kind, work)

    def add(
        self,
        kind: str,
        work: Work,
        *,
        notifies: bool = False,
        timeout: timedelta | None = None,
        encode: Encode | None = None,
        run_in: RunIn | None = None,
    ) -> None:
        """Call ``work`` for jobs of this kind. It may say itself, as an attribute, ``notifies``."""
        _check_work(kind, work)
        notifies = notifies or bool(getattr(work, "notifies", False))
        if run_in not in (None, "thread", "process"):
            raise invalid("run_in", f'must be "thread" or "process", got {run_in!r:.40}')
        if run_in == "process":
            work = ProcessCall(work)
        if encode is not None and not callable(encode):
            raise invalid("encode", f"of {kind!r} must be callable, got {encode!r:.40}")
        self.register(kind, Handler(work, _is_async(work), notifies, timeout, encode))

    def register(self, kind: str, handler: Handler) -> None:
        """Use this handler for jobs of this kind."""
        _check_kind(kind)
        if kind in self:
            raise invalid("kind", f"{kind!r} has a handler already")
        _check_timeout(handler.timeout)
        if kind in self._notifying:
            handler = handler._replace(notifies=True)
        self[kind] = handler

    def notifies(self, kind: str) -> bool:
        """Whether jobs of this kind notify people, also if there is no handler."""
        handler = self.get(kind)
        return kind in self._notifying if handler is None else handler.notifies


def _check_kind(kind: object) -> None:
    if not isinstance(kind, str) or not kind:
        raise invalid("kind", f"must be a text, and not empty, got {kind!r:.40}")


def _check_work(kind: str, work: object) -> None:
    if not callable(work):
        raise invalid("handler", f"of {kind!r} must be callable, got {work!r:.40}")
    if inspect.isgeneratorfunction(work) or inspect.isasyncgenfunction(work):
        raise invalid("handler", f"of {kind!r} is a generator function: nothing of it would run")


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        raise invalid("timeout", f"must be a positive timedelta, got {timeout!r:.40}")


def _is_async(work: Work) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(
        getattr(work, "__call__", None)  # noqa: B004 - not whether, but what it is
    )
