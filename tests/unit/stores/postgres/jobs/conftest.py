"""A second store on the same database, as another process would have it."""

from collections.abc import AsyncIterator

import pytest

from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore


@pytest.fixture
async def elsewhere(
    postgres_settings: PostgresSettings, store: PostgresStore
) -> AsyncIterator[PostgresStore]:
    """Opened after the other, which has made the schema."""
    assert store is not None
    async with await PostgresStore.open(postgres_settings) as beside:
        yield beside
