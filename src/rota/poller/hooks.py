"""Calls the hooks that a poller was given, and tells of errors where they belong."""

import asyncio
import inspect
import logging

from rota.poller.protocol import PolledJob
from rota.poller.settings import Hook, PollerSettings

logger = logging.getLogger("rota.poller")


class Hooks:
    """A hook that is not there does nothing. One that is no coroutine function is called as it is.

    What a hook raises is raised here, except for ``on_error``: nobody is left to be told of that,
    so it is logged.
    """

    def __init__(self, settings: PollerSettings) -> None:
        self._settings = settings

    async def start(self) -> None:
        await _call(self._settings.on_start)

    async def stop(self) -> None:
        await _call(self._settings.on_stop)

    async def idle(self) -> None:
        await _call(self._settings.on_idle)

    async def document(self, job: PolledJob) -> None:
        if self._settings.on_document is not None:
            await _finish(self._settings.on_document(job))

    async def error(self, error: BaseException) -> None:
        """Tell of an error; without a hook it is logged, so that it is never lost."""
        if self._settings.on_error is None:
            logger.error("%s", error, exc_info=error)
            return
        try:
            await _finish(self._settings.on_error(error))
        except Exception:  # whatever it is, the loop goes on
            logger.exception("on_error failed, and was told of: %r", error)


async def _call(hook: Hook | None) -> None:
    if hook is not None:
        await _finish(hook())


async def _finish(result: object) -> None:
    """Wait for what a hook has begun.

    A hook that raises CancelledError although nobody cancels the poller has failed like any other.
    """
    if not inspect.isawaitable(result):
        return
    try:
        await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("The hook was cancelled, and not because the poller was") from error
