"""What the tests of the service share."""

from collections.abc import AsyncIterator

import pytest
from tests.server.service import Service, serve


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve() as served:
        yield served
