"""The SQLite store, put through the contract of all stores."""

from pathlib import Path

import pytest

from rota.runtime.wiring import open_store
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import (
    LastingStoreContract,
    StoreContract,
    StoreFactory,
)


class TestSqliteStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        return lambda: open_store(f"sqlite:///{tmp_path}/rota.db")
