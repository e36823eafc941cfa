from collections.abc import AsyncIterator

import pytest
from tests.server.api.neighbours import Neighbours, two_tenants

from rota.runtime.wiring import open_store


@pytest.fixture
async def both(store_url: str) -> AsyncIterator[Neighbours]:
    """Two tenants, on each sort of store."""
    async with two_tenants(await open_store(store_url)) as neighbours:
        yield neighbours


@pytest.fixture
async def neighbours() -> AsyncIterator[Neighbours]:
    async with two_tenants() as made:
        yield made
