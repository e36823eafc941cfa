"""The memory store, put through the contract of all stores."""

import pytest

from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentStore
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import StoreContract, StoreFactory


class TestMemoryStore(StoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        async def open_empty() -> DocumentStore:
            return MemoryStore()

        return open_empty
