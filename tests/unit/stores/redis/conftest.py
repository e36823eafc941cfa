"""Stores on the run's Redis server, each with a name of its own."""

from collections.abc import AsyncIterator

import pytest
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy

from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.store import RedisStore


@pytest.fixture
def redis_settings(redis_url: str) -> RedisSettings:
    return read_address(redis_url)


@pytest.fixture
async def store(redis_settings: RedisSettings) -> AsyncIterator[RedisStore]:
    async with await RedisStore.open(redis_settings) as store:
        yield store


@pytest.fixture
async def proxy(own_redis: RedisServer) -> AsyncIterator[RedisProxy]:
    made = RedisProxy(f"{own_redis.folder}/socket")
    async with made.open():
        yield made
