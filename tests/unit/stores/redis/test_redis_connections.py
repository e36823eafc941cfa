"""Calls whose connection, caller or script is lost on the way."""

import asyncio
from datetime import timedelta

import pytest
import redis
from tests.contract.redis.filing import check_filing
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy

from rota.clock.loop import in_flight
from rota.errors import StoreUnavailableError, UnsupportedConnectionError
from rota.jobs import Discarded, Failed
from rota.stores.protocol import Cap, Document, DocumentWrite, HeldLease
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, SECOND, end, take

BRIEF = timedelta(milliseconds=300)


def new(key: str, body: bytes = b"new") -> DocumentWrite:
    return DocumentWrite("tasks", key, None, body)


async def test_scripts_the_server_forgot_are_loaded_again(
    store: RedisStore, redis_settings: RedisSettings
) -> None:
    await store.write_each([new("a")])
    with redis.Redis.from_url(redis_settings.url) as client:
        client.script_flush()
    assert await store.write_each([new("a"), new("b")]) == [None, 1]


async def test_the_answer_to_a_cancelled_call_reaches_no_other_caller(store: RedisStore) -> None:
    await store.write_each([new(f"{number}", b"%d" % number) for number in range(50)])
    for number in range(50):
        call = asyncio.ensure_future(store.read("tasks", [f"{number}"]))
        await asyncio.wait([call], timeout=0 if number % 2 else 0.0005)
        call.cancel()
        found = await store.read("tasks", [f"{49 - number}"])
        assert found == {f"{49 - number}": Document(f"{49 - number}", 1, b"%d" % (49 - number))}


async def test_virtual_time_waits_for_a_call_whose_caller_has_gone(
    own_redis: RedisServer, proxy: RedisProxy
) -> None:
    async with await RedisStore.open(read_address(proxy.url)) as store:
        proxy.stall()
        call = asyncio.ensure_future(store.write_each([new("a")]))
        await asyncio.wait([call], timeout=0.05)
        call.cancel()
        await asyncio.wait([call])
        assert in_flight().count == 1
        proxy._passing.set()
        await in_flight().landed()
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        assert await store.write_each([new("a")]) == [None]


async def test_a_write_whose_answer_is_lost_is_unknown(proxy: RedisProxy) -> None:
    async with await RedisStore.open(read_address(proxy.url)) as store:
        await store.write_each([new("before")])
        proxy.loses_answers = True
        with pytest.raises(StoreUnavailableError) as caught:
            await store.write_each([new("a")])
        proxy.heal()
        assert caught.value.details["outcome"] == "unknown"
        assert await store.write_each([new("a")]) == [None], "it was carried out, and not repeated"


async def test_an_insert_whose_answer_is_lost_can_be_repeated(proxy: RedisProxy) -> None:
    job = a_job()
    async with await RedisStore.open(read_address(proxy.url)) as store:
        await store.insert([a_job()], NOW)
        proxy.loses_answers = True
        with pytest.raises(StoreUnavailableError):
            await store.insert([job], NOW)
        proxy.heal()
        (answer,) = await store.insert([job], NOW)
        assert (answer.job, answer.is_existing) == (job, True)


async def test_a_read_whose_connection_is_lost_is_repeated(proxy: RedisProxy) -> None:
    async with await RedisStore.open(read_address(proxy.url)) as store:
        await store.write_each([new("a")])
        proxy.heal()  # hangs up on every connection
        assert await store.read("tasks", ["a"]) == {"a": Document("a", 1, b"new")}


async def test_a_silent_server_is_not_waited_for_forever(proxy: RedisProxy) -> None:
    settings = RedisSettings(proxy.url, answer_for=BRIEF, connect_for=BRIEF)
    async with await RedisStore.open(settings) as store:
        proxy.stall()
        with pytest.raises(StoreUnavailableError, match="did not answer in time") as caught:
            await store.write_each([new("a")])
        assert caught.value.details["outcome"] == "unknown"
        proxy.heal()
        assert await store.read("tasks", ["b"]) == {}


async def test_a_server_that_became_a_replica_is_left_for_another(own_redis: RedisServer) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        with redis.Redis.from_url(own_redis.url) as client:
            client.replicaof("127.0.0.1", 1)
            with pytest.raises(StoreUnavailableError, match="only lets itself be read") as caught:
                await store.write_each([new("a")])
            client.replicaof("NO", "ONE")
        assert caught.value.details["outcome"] == "nothing was written"
        assert await store.write_each([new("a")]) == [1]


async def test_a_server_without_memory_refuses_and_loses_nothing(own_redis: RedisServer) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        await store.write_each([new("a")])
        with redis.Redis.from_url(own_redis.url) as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(StoreUnavailableError, match="no memory left") as caught:
                await store.insert([a_job()], NOW)
            client.config_set("maxmemory", 0)
        assert caught.value.details["outcome"] == "nothing was written"
        assert await store.count("default") == 0


async def expect_nothing_is_handed_out(store: RedisStore, caps: tuple[Cap, ...]) -> None:
    for now in (NOW, NOW + SECOND):  # when another comes due, too
        with pytest.raises(StoreUnavailableError, match="no memory left") as caught:
            await take(store, now, caps=caps)
        assert caught.value.details["outcome"] == "nothing was written"


@pytest.mark.parametrize("has_waiting", [False, True])
async def test_without_memory_nothing_is_leased_and_running_jobs_end(
    own_redis: RedisServer, *, has_waiting: bool
) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        await store.insert([a_job() for _ in range(5)], NOW)
        good, bad, again, held = await take(store, limit=4)
        parent = a_job(due_at=NOW + DAY)
        children = [a_job(dependencies=[parent.id])] if has_waiting else []
        await store.insert([a_job(due_at=NOW + SECOND), parent, *children], NOW)
        with redis.Redis.from_url(own_redis.url) as client:
            client.config_set("maxmemory", 1)
            for caps in ((), (Cap(tenant="default", running=9),)):
                await expect_nothing_is_handed_out(store, caps)
            check_filing(own_redis.url)
            leases = [HeldLease(held.id, held.last_token)]
            assert await store.extend(leases, NOW + DAY, NOW) == [True]
            assert (await end(store, good)).job is not None
            assert (await end(store, bad, Discarded("no"))).job is not None
            assert (await end(store, again, Failed("once more"))).job is not None
            client.config_set("maxmemory", 0)
        check_filing(own_redis.url)
        assert len(await take(store, NOW + SECOND)) >= 2


async def test_a_transaction_of_the_callers_own_is_refused(store: RedisStore) -> None:
    for call in (
        store.insert_within(object(), [a_job()], NOW),
        store.write_within(object(), [new("a")]),
        store.read_within(object(), "tasks", ["a"]),
    ):
        with pytest.raises(UnsupportedConnectionError, match="transaction of Redis"):
            await call


async def test_the_time_is_the_servers(store: RedisStore, redis_settings: RedisSettings) -> None:
    with redis.Redis.from_url(redis_settings.url) as client:
        before = client.time()
        told = await store.read_clock()
        after = client.time()
    assert told is not None
    seconds = told.timestamp()
    assert before[0] + before[1] / 1e6 - 1e-6 <= seconds <= after[0] + after[1] / 1e6 + 1e-6


async def test_callers_that_are_cancelled_leave_no_more_connections_than_there_may_be(
    own_redis: RedisServer,
) -> None:
    """The answers that are still due keep their connections, and later calls wait for these."""
    settings = RedisSettings(own_redis.url, connection_count=2)
    async with await RedisStore.open(settings) as store:
        with redis.Redis.from_url(own_redis.url) as client:
            client.client_pause(60_000, all=False)  # writes get no answer
            for number in range(20):
                call = asyncio.ensure_future(store.write_each([new(f"{number}")]))
                await asyncio.wait([call], timeout=0.02)
                call.cancel()
                await asyncio.wait([call])
            count = len(client.client_list()) - 1
            client.client_unpause()
        assert count <= 2
        assert await store.read("tasks", ["0"]) != {}


async def test_a_command_that_cannot_be_sent_leaves_its_connection_free(
    own_redis: RedisServer,
) -> None:
    settings = RedisSettings(own_redis.url, connection_count=1)
    async with await RedisStore.open(settings) as store:
        with pytest.raises(UnicodeEncodeError):
            await store._database.call("GET", "\ud800")
        async with asyncio.timeout(settings.answer_for.total_seconds() / 2):
            assert await store.read("tasks", ["a"]) == {}
