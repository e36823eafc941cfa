"""A network that falls silent: each call fails in time, and each listener recovers."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy

from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentWrite, HeldLease
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take

SECOND = timedelta(seconds=1)
CALLS = 40


def settings_at(proxy: RedisProxy, connection_count: int = 4) -> RedisSettings:
    return RedisSettings(
        proxy.url,
        connection_count=connection_count,
        connect_for=SECOND / 2,
        answer_for=SECOND,
    )


async def time_of(call: Awaitable[object]) -> float:
    """How many seconds it takes until the call is refused because the server is silent."""
    started = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailableError, match="did not answer in time"):
        await call
    return asyncio.get_running_loop().time() - started


def test_a_caller_gets_an_answer_within_half_a_minute() -> None:
    settings = RedisSettings("redis://host/0")
    assert settings.connect_for + settings.answer_for <= timedelta(seconds=30)


async def test_many_waiters_for_a_silent_server_fail_together(proxy: RedisProxy) -> None:
    async with await RedisStore.open(settings_at(proxy)) as store:
        proxy.stall()
        calls = [store.write_each([_new(f"{number}")]) for number in range(CALLS)]
        started = asyncio.get_running_loop().time()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        took = asyncio.get_running_loop().time() - started
        proxy.heal()
        assert took < 4, "one after the other it would be ten times as long as one of them"
        refusals = [each for each in answers if isinstance(each, StoreUnavailableError)]
        outcomes = [each.details["outcome"] for each in refusals]
        assert len(outcomes) == CALLS
        assert outcomes.count("nothing was written") >= CALLS - 4
        assert outcomes.count("unknown") >= 1


async def test_connections_that_lead_nowhere_cost_one_wait_not_one_each(
    proxy: RedisProxy,
) -> None:
    async with await RedisStore.open(settings_at(proxy)) as store:
        await asyncio.gather(*(store.read("tasks", ["a"]) for _ in range(CALLS)))
        assert proxy.connection_count == 4
        proxy.swallow()
        await time_of(store.read("tasks", ["a"]))
        for number in range(4):
            assert await store.write_each([_new(f"{number}")]) == [1]


async def test_a_read_is_not_asked_again_of_a_silent_server(proxy: RedisProxy) -> None:
    async with await RedisStore.open(settings_at(proxy)) as store:
        proxy.stall()
        assert await time_of(store.read("tasks", ["a"])) < 1.4
        assert await time_of(store.read("tasks", ["a"])) < 0.9, "connecting takes less long"
        proxy.heal()
        assert await store.read("tasks", ["a"]) == {}


async def test_opening_a_store_times_out(own_redis: RedisServer, proxy: RedisProxy) -> None:
    del own_redis
    proxy.stall()
    assert await time_of(RedisStore.open(settings_at(proxy))) < 2


async def test_a_keeper_is_not_kept_waiting_twice(proxy: RedisProxy) -> None:
    async with await RedisStore.open(settings_at(proxy)) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await take(store)
        keeper, held = store.make_keeper(), [HeldLease(leased.id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        proxy.swallow()
        assert await time_of(asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW)) < 1.4
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        keeper.close()


async def test_a_listener_that_hears_nothing_any_more_is_woken_and_hears_again(
    proxy: RedisProxy,
) -> None:
    async with (
        await RedisStore.open(settings_at(proxy)) as store,
        await RedisStore.open(settings_at(proxy)) as other,
        store.listen() as listener,
    ):
        proxy.swallow()
        await asyncio.wait_for(listener.wait(), 60)
        with pytest.raises(StoreUnavailableError):
            await other.count("default")
        await other.insert([a_job()], NOW)
        await asyncio.wait_for(listener.wait(), 60)


def _new(key: str) -> DocumentWrite:
    return DocumentWrite("tasks", key, None, b"")
