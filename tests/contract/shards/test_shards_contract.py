"""A sharded store, put through the contracts of documents and copies."""

from pathlib import Path

import pytest
from tests.contract.shards.factory import open_over_memory, shards_of

from rota.runtime.wiring import open_store
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import LastingStoreContract, StoreContract, StoreFactory


class TestShardsInMemory(StoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        return open_over_memory


class TestShardsInFiles(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        files = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3)]
        return lambda: open_store(shards_of(*files))
