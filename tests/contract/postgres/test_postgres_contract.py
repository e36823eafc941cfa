"""The PostgreSQL store, put through the contract of all stores on a real server."""

import pytest

from rota.runtime.wiring import open_store
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import (
    LastingStoreContract,
    StoreContract,
    StoreFactory,
)


class TestPostgresStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, postgres_url: str) -> StoreFactory:
        return lambda: open_store(postgres_url)
