"""The Redis store, put through the contract of all stores on a real server."""

import pytest

from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import (
    LastingStoreContract,
    StoreContract,
    StoreFactory,
)


class TestRedisStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, redis_url: str) -> StoreFactory:
        return lambda: RedisStore.open(read_address(redis_url))
