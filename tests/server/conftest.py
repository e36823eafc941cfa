"""What the tests of the service share."""

from collections.abc import AsyncIterator

import pytest
from tests.server.service import Visit, serve


@pytest.fixture
async def service() -> AsyncIterator[Visit]:
    async with serve() as served:
        yield served
