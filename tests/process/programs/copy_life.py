"""Copies a store, and kills itself with kill -9 when the copy's mark is removed.

``python -m tests.process.programs.copy_life SOURCE TARGET MOMENT``, where the moment is before the
removal, while the store is at it, or after it.
"""

import asyncio
import os
import signal
import sys
from typing import NoReturn

from rota.clock import SystemClock
from rota.ops.store_comparison import MarkedTarget, Phase
from rota.runtime.store_copy import copy_store

_finish = MarkedTarget.finish


def ignore(_phase: Phase, _count: int) -> None:
    pass


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives on")


async def die_before(_: MarkedTarget) -> None:
    die()


async def die_at(marked: MarkedTarget) -> None:
    """The request was sent, or given to a thread; the process dies before the answer."""
    removal = asyncio.create_task(_finish(marked))
    asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, die)
    await removal


async def die_after(marked: MarkedTarget) -> None:
    await _finish(marked)
    die()


if __name__ == "__main__":
    source, target, moment = sys.argv[1:]
    ends = {"before": die_before, "at": die_at, "after": die_after}
    MarkedTarget.finish = ends[moment]  # type: ignore[assignment,method-assign] # it dies there
    asyncio.run(copy_store(source, target, SystemClock(), ignore))
