"""The MongoDB store, put through the contract of all stores on a server."""

from typing import cast

import pytest
from tests.servers.mongo import open_mongo

from rota.stores.protocol import DocumentStore
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import (
    LastingStoreContract,
    StoreContract,
    StoreFactory,
)


class TestMongoStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, mongo_url: str) -> StoreFactory:
        async def open_store() -> DocumentStore:
            return cast(DocumentStore, await open_mongo(mongo_url))

        return open_store
