from collections.abc import AsyncIterator

import pytest
from tests.spec.stage import Stage

from rota import DECLARATIVE, POLLING, SchedulerPolicy, open_store
from rota.stores.memory import MemoryStore


@pytest.fixture
async def stage(store_url: str) -> AsyncIterator[Stage]:
    """A stage on every sort of store."""
    async with await open_store(store_url) as store:
        made = Stage(store)
        yield made
        await made.close()


@pytest.fixture
async def quick() -> AsyncIterator[Stage]:
    """A stage in memory, for long stories and for what no store has a part in."""
    async with await open_store("memory://") as store:
        made = Stage(store)
        yield made
        await made.close()


@pytest.fixture(params=[DECLARATIVE, POLLING], ids=["declarative", "polling"])
def policy(request: pytest.FixtureRequest) -> SchedulerPolicy:
    """Either edition."""
    chosen = request.param
    assert isinstance(chosen, SchedulerPolicy)
    return chosen


@pytest.fixture
def quick_store() -> MemoryStore:
    return MemoryStore()
