from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.operating.neighbours import Neighbours, two_tenants

from rota.wiring import open_store


@pytest.fixture(params=["memory", "sqlite"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Neighbours]:
    """Two tenants, in memory and on a file."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/rota.db"
    async with two_tenants(await open_store(url)) as neighbours:
        yield neighbours


@pytest.fixture
async def neighbours() -> AsyncIterator[Neighbours]:
    async with two_tenants() as made:
        yield made
