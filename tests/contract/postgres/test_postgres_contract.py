"""The PostgreSQL store, put through the contract of all stores on a real server."""

import pytest

from rota.testing.store_contract import (
    LastingStoreContract,
    PortableStoreContract,
    StoreContract,
    StoreFactory,
)
from rota.wiring import open_store


class TestPostgresStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, postgres_url: str) -> StoreFactory:
        return lambda: open_store(postgres_url)
