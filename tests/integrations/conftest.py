"""A PostgreSQL database for each test: frameworks have tables beside those of the store."""

from collections.abc import Iterator

import pytest
from tests.servers.shared import new_database, shared_url


@pytest.fixture
def database_url() -> Iterator[str]:
    with new_database(shared_url()) as url:
        yield url
