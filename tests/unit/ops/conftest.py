from collections.abc import AsyncIterator
from datetime import UTC, datetime
from random import Random

import pytest

from rota.rail import Rail
from rota.rail.jobs import RailContext, RailSettings
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


@pytest.fixture
def rail(store: MemoryStore, clock: VirtualClock) -> Rail:
    return Rail(store, clock=clock, draw_bits=Random(1).getrandbits)


@pytest.fixture
def around(store: MemoryStore, clock: VirtualClock) -> RailContext:
    return RailContext(store, "default", clock, RailSettings(), Random(2).getrandbits)
