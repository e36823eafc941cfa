import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from rota.clock import VirtualClock, loop

START = datetime(2026, 1, 1, tzinfo=UTC)


class HidingLoop(asyncio.SelectorEventLoop):
    """A loop that does not show what is ready, as loops of other makers do not."""

    def __getattribute__(self, name: str) -> Any:
        if name == "_ready" and sys._getframe(1).f_code.co_filename == loop.__file__:
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def hiding_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = HidingLoop()
    yield loop
    loop.close()
