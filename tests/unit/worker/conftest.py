from collections.abc import AsyncIterator

import pytest
from tests.unit.worker.workshop import Workshop


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    made = Workshop()
    yield made
    await made.close()
