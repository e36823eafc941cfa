"""A Redis server that is killed: nothing acknowledged is lost, and nothing is doubled."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.process.stores.counting import Counters
from tests.servers.redis import RedisServer

from rota import open_store
from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentStore, DocumentWrite

pytestmark = pytest.mark.process

WRITER_COUNT = 4
WRITES_BEFORE_KILL = 60
WRITES_AFTER_RESTART = 40


@pytest.fixture
async def store(own_redis: RedisServer) -> AsyncIterator[DocumentStore]:
    async with await open_store(own_redis.url) as store:
        yield store


async def test_nothing_acknowledged_is_lost_when_a_redis_server_is_killed(
    own_redis: RedisServer, store: DocumentStore
) -> None:
    counters = Counters(store)
    keys = [f"writer-{number}" for number in range(WRITER_COUNT)]
    writers = [asyncio.create_task(counters.count_up(key)) for key in keys]
    for _ in range(2):
        await counters.reach(counters.total + WRITES_BEFORE_KILL)
        await asyncio.to_thread(own_redis.kill)
        await asyncio.to_thread(own_redis.start)
    await counters.reach(counters.total + WRITES_AFTER_RESTART)
    counters.is_stopping = True
    await asyncio.gather(*writers)
    assert counters.errors, "the server was never missed"
    for key, document in (await store.read("counters", keys)).items():
        assert document.version == counters.acknowledged[key] + counters.unknown[key]


async def test_a_redis_server_that_is_down_is_an_error_at_once_and_no_more_when_it_is_back(
    own_redis: RedisServer, store: DocumentStore
) -> None:
    await store.write_each([DocumentWrite("tasks", "a", None, b"kept")])
    await asyncio.to_thread(own_redis.stop)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError) as caught:
            await store.read("tasks", ["a"])
    assert caught.value.details["reason"] == "nobody listens at that address"
    assert caught.value.details["outcome"] == "nothing was written"
    with pytest.raises(StoreUnavailableError):
        await open_store(own_redis.url)
    await asyncio.to_thread(own_redis.start)
    assert (await store.read("tasks", ["a"]))["a"].body == b"kept"
