from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.spec.stage import Stage

from rota import DECLARATIVE, POLLING, SchedulerPolicy, open_store
from rota.stores.memory import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage on either store."""
    is_memory = request.param == "memory"
    url = "memory://" if is_memory else f"sqlite:///{tmp_path.joinpath('rota.db')}"
    async with await open_store(url) as store:
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
