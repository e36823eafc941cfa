"""The store on MariaDB, put through the contract of all stores on a real server."""

import pytest

from rota.runtime.wiring import open_store
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import (
    LastingStoreContract,
    StoreContract,
    StoreFactory,
)


class TestMysqlStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, mysql_url: str) -> StoreFactory:
        return lambda: open_store(mysql_url)
