"""Connections lead to the server that Sentinels name, and only while it is a primary."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
from tests.servers.groups.said_by_sentinels import ToldSentinel, opened
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server

from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentWrite, HeldLease, LeaseKeeper
from rota.stores.redis import sentinel as lookout
from rota.stores.redis.address import Place, read_address
from rota.stores.redis.store import RedisStore
from rota.stores.redis.translation import NoPrimaryError
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take


@pytest.fixture
def other() -> Iterator[RedisServer]:
    server = new_redis_server("other")
    yield server
    server.remove()


@pytest.fixture
async def named(own_redis: RedisServer) -> AsyncIterator[tuple[ToldSentinel, RedisStore]]:
    """A Sentinel that names a server, and a store that was opened there."""
    sentinel = ToldSentinel("127.0.0.1", own_redis.port)
    async with opened(sentinel) as url, await RedisStore.open(read_address(url)) as store:
        yield sentinel, store


def new(key: str) -> DocumentWrite:
    return DocumentWrite("tasks", key, None, b"new")


async def hold_one(store: RedisStore) -> tuple[LeaseKeeper, list[HeldLease]]:
    """A keeper that has not yet been connected, and a lease for it."""
    await store.insert([a_job()], NOW)
    (leased,) = await take(store)
    return store.make_keeper(), [HeldLease(leased.id, 1)]


async def test_connections_to_a_former_primary_are_not_used_though_they_are_open(
    named: tuple[ToldSentinel, RedisStore],
    own_redis: RedisServer,
    other: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
    sentinel, store = named
    for server in (own_redis, other):
        sentinel.port = server.port
        calls = [store.write_each([new(f"{server.port}-{n}")]) for n in range(24)]
        assert await asyncio.gather(*calls) == [[1]] * 24
    for server in (own_redis, other):
        with redis.Redis.from_url(server.url) as client:
            assert client.hlen("{rota}:document-bodies") == 24


async def test_a_server_that_follows_another_is_not_even_read_though_a_sentinel_names_it(
    named: tuple[ToldSentinel, RedisStore], own_redis: RedisServer
) -> None:
    _, store = named
    keeper, held = await hold_one(store)
    with redis.Redis.from_url(own_redis.url) as client:
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreUnavailableError, match="only lets itself be read") as caught:
            await store.write_each([new("a")])
        assert caught.value.details["outcome"] == "nothing was written"
        with pytest.raises(StoreUnavailableError, match="is a replica, and was named as the"):
            await store.read("tasks", ["a"])
        with pytest.raises(StoreUnavailableError, match="is a replica, and was named as the"):
            await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW)
        client.replicaof("NO", "ONE")
    assert await store.write_each([new("a")]) == [1]
    assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    keeper.close()


async def test_while_the_primary_is_taken_for_down_nothing_is_written(
    named: tuple[ToldSentinel, RedisStore], own_redis: RedisServer
) -> None:
    sentinel, store = named
    sentinel.flags = "master,s_down"
    await asyncio.to_thread(own_redis.kill)
    for line in store._database.connections._idle:
        await line.lost  # the event loop may hear of it later than the thread
    with pytest.raises(StoreUnavailableError) as caught:
        await store.write_each([new("a")])
    assert caught.value.details["reason"] == "Sentinel names no server that can be written to"


async def test_a_keeper_reports_when_no_primary_is_named_any_more(
    named: tuple[ToldSentinel, RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
    _, store = named
    keeper, held = await hold_one(store)
    assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    asked = [Place("127.0.0.1", 1)]

    async def name_another_and_none(*_: object) -> Place:
        if asked:
            return asked.pop()
        raise NoPrimaryError("no primary is named")

    with monkeypatch.context() as patched:
        patched.setattr(lookout, "ask_sentinels", name_another_and_none)
        with pytest.raises(StoreUnavailableError, match="no primary is named"):
            await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW)
    assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    keeper.close()


async def test_a_keeper_does_not_wait_for_a_name_that_cannot_be_looked_up(
    named: tuple[ToldSentinel, RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = named
    keeper, held = await hold_one(store)
    assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    is_back = threading.Event()

    def look_up_in_vain(*_: object, **__: object) -> list[object]:
        is_back.wait(60)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", look_up_in_vain)
    extending = asyncio.ensure_future(asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW))
    await asyncio.wait([extending], timeout=20)
    is_extended = extending.done()
    is_back.set()
    assert await extending == [True]
    assert is_extended
    keeper.close()


async def test_a_keeper_goes_where_sentinels_lead_and_stays_when_they_are_away(
    own_redis: RedisServer, other: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
    sentinel = ToldSentinel("127.0.0.1", own_redis.port)
    async with opened(sentinel) as url, await RedisStore.open(read_address(url)) as store:
        keeper, held = await hold_one(store)
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        sentinel.port = other.port
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [False]
        sentinel.port = own_redis.port
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
    keeper.close()
