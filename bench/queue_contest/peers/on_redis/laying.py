"""How jobs are laid in where there is no call for many: one by one, but many calls at once."""

import asyncio
from collections.abc import Awaitable, Callable

AT_ONCE = 50
"""Calls under way, which share the flush of the server's log."""


async def lay_in(count: int, enqueue: Callable[[], Awaitable[object]]) -> None:
    """So many jobs, as quickly as that can be done; never measured."""
    left = iter(range(count))

    async def enqueue_on() -> None:
        for _ in left:
            await enqueue()

    await asyncio.gather(*(enqueue_on() for _ in range(AT_ONCE)))
