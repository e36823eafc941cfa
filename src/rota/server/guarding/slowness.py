"""Bodies that trickle in: a caller who never finishes must not keep a connection for good."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from starlette.types import Message, Receive

from rota.clock.protocol import Clock, keeps_real_time
from rota.clock.timeout import timeout_after
from rota.errors import RequestTooSlowError


def hurry(receive: Receive, clock: Clock, within: timedelta) -> Receive:
    """``receive``, except that the whole body must have come within so much time.

    What is waited for after that is the caller's hanging up, and may take as long as it takes.
    """
    ends_at = clock.now() + within
    is_complete = False

    async def receive_in_time() -> Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        try:
            async with _limit(clock, ends_at - clock.now()):
                message = await receive()
        except TimeoutError as error:
            raise RequestTooSlowError(within) from error
        is_complete = not message.get("more_body")
        return message

    return receive_in_time


def _limit(clock: Clock, duration: timedelta) -> AbstractAsyncContextManager[Any]:
    """The event loop's own timer where it keeps the same time: it costs next to nothing."""
    if keeps_real_time(clock):
        return asyncio.timeout(duration.total_seconds())
    return timeout_after(clock, duration)
