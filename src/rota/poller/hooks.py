"""Calls the hooks that a poller was given, and tells of errors where they belong."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from rota.poller.protocol import PolledJob
from rota.poller.settings import PollerSettings

logger = logging.getLogger("rota.poller")


class Hooks:
    """A hook that is not there does nothing. One that is no coroutine function is called as it is.

    What a hook raises is raised here, except for ``on_error``: nobody is left to be told of that,
    so it is logged.
    """

    def __init__(self, settings: PollerSettings) -> None:
        self._settings = settings

    @property
    def are_calling(self) -> bool:
        """Whether the caller is one of these hooks, or was started by one that is still at work."""
        call = _current.get()
        while call is not None and (call.is_over or call.hooks is not self):
            call = call.outer
        return call is not None

    async def start(self) -> None:
        await self._call(self._settings.on_start)

    async def stop(self) -> None:
        await self._call(self._settings.on_stop)

    async def idle(self) -> None:
        await self._call(self._settings.on_idle)

    async def document(self, job: PolledJob) -> None:
        await self._call(self._settings.on_document, job)

    async def error(self, error: BaseException) -> None:
        """Tell of an error; without a hook it is logged, so that it is never lost."""
        if self._settings.on_error is None:
            logger.error("%s", error, exc_info=error)
            return
        try:
            await self._call(self._settings.on_error, error)
        except Exception:  # whatever it is, the loop goes on
            logger.exception("on_error failed, and was told of: %r", error)

    async def _call(self, hook: Callable[..., object] | None, *arguments: object) -> None:
        if hook is None:
            return
        call = _Call(self, _current.get())
        _current.set(call)
        try:
            await carry_out(partial(hook, *arguments))
        finally:
            _current.set(call.outer)
            call.is_over = True


class _Call:
    """A hook at work. The tasks that it starts inherit this, and may outlive it."""

    def __init__(self, hooks: Hooks, outer: "_Call | None") -> None:
        self.hooks = hooks
        self.outer = outer
        self.is_over = False


_current: ContextVar[_Call | None] = ContextVar("rota_poller_hook", default=None)


async def carry_out(work: Callable[[], Awaitable[Any] | object]) -> Any:
    """Do what is to be done, and wait for what it has begun; what it raises is an Exception.

    Work that ends in CancelledError although nobody cancels the poller has failed like any other,
    and so has one that raises something of its own that is no Exception. Only what ends the whole
    program passes through.
    """
    try:
        result = work()
        return await result if inspect.isawaitable(result) else result
    except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("It was cancelled, and not because the poller was") from error
    except BaseException as error:
        raise RuntimeError(f"It raised {error!r:.200}, which is no Exception") from error
