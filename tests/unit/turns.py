"""Counts what an event loop gets done beside something else."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from rota.clock.loop import turn

Value = TypeVar("Value")


async def count_turns(work: Coroutine[Any, Any, Value]) -> tuple[Value, int]:
    """What the work returns, and how often the event loop turned meanwhile."""
    task, turns = asyncio.create_task(work), 0
    while not task.done():
        await turn()
        turns += 1
    return await task, turns
