"""Who waits for the end of a job hears it from every process, and costs nothing when it is gone."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis
from tests.servers.redis import RedisServer

from rota.jobs import Discarded, JobStatus, Succeeded
from rota.stores.protocol import Listener
from rota.stores.redis.address import RedisSettings, read_address
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, TENANT, end, statuses, take

PATIENCE = 60.0
MANY = 2_100
"""More dependents than one script writes."""


@pytest.fixture
async def other(redis_settings: RedisSettings) -> AsyncIterator[RedisStore]:
    """The same store, as another process has it."""
    async with await RedisStore.open(redis_settings) as store:
        yield store


async def hear(listener: Listener) -> None:
    await asyncio.wait_for(listener.wait(), PATIENCE)


async def hears_nothing(listener: Listener) -> bool:
    waiting = asyncio.ensure_future(listener.wait())
    await asyncio.wait([waiting], timeout=0.1)
    is_silent = not waiting.done()
    waiting.cancel()
    return is_silent


async def test_another_process_hears_an_end_and_no_other(
    store: RedisStore, other: RedisStore
) -> None:
    job, unrelated = a_job(), a_job(priority=1)
    await store.insert([job, unrelated], NOW)
    leased, another = await take(store)
    async with other.listen_for_end(TENANT, [job.id]) as listener:
        await end(store, another)
        assert await hears_nothing(listener)
        await end(store, leased, Succeeded(b"7"))
        await hear(listener)
    assert await other.results(TENANT, [job.id]) == {job.id: b"7"}


async def test_another_process_hears_of_dependents_and_of_a_deleted_job(
    store: RedisStore, other: RedisStore
) -> None:
    parent, gone = a_job(), a_job(due_at=NOW + DAY)
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child, gone], NOW)
    async with (
        other.listen_for_end(TENANT, [parent.id]) as at_parent,
        other.listen_for_end(TENANT, [child.id]) as at_child,
        other.listen_for_end(TENANT, [gone.id]) as at_gone,
    ):
        await end(store, (await take(store))[0], Discarded("no"))
        await hear(at_parent)
        await hear(at_child)
        assert await hears_nothing(at_gone)
        await store.delete(TENANT, gone.id)
        await hear(at_gone)


async def test_the_last_of_many_dependents_is_heard_when_it_is_written(
    store: RedisStore, other: RedisStore
) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(MANY)]
    await store.insert([parent, *children], NOW)
    async with other.listen_for_end(TENANT, [children[-1].id]) as listener:
        await end(store, (await take(store))[0], Discarded("no"))
        await hear(listener)
        assert await statuses(other, children[-1]) == [JobStatus.BLOCKED]


async def test_ends_are_published_only_while_one_listens(own_redis: RedisServer) -> None:
    settings = read_address(own_redis.url)
    async with await RedisStore.open(settings) as store:
        await store.insert([a_job() for _ in range(3)], NOW)
        leased = await take(store)
        with redis.Redis.from_url(own_redis.url) as client:
            channel = "{rota}:ends"
            async with store.listen_for_end(TENANT, [leased[0].id]):
                assert client.pubsub_numsub(channel) == [(channel.encode(), 1)]
                client.config_resetstat()
                await end(store, leased[0])
                assert "cmdstat_publish" in client.info("commandstats")
            while await asyncio.to_thread(client.pubsub_numsub, channel) != [(channel.encode(), 0)]:
                pass  # the server has yet to see that the connection is closed
            client.config_resetstat()
            await end(store, leased[1])
            assert "cmdstat_publish" not in client.info("commandstats")
            async with store.listen_for_end(TENANT, [leased[2].id]) as listener:
                await end(store, leased[2])
                await hear(listener)


async def test_after_a_loss_of_the_connection_every_end_may_have_been_missed(
    own_redis: RedisServer,
) -> None:
    settings = read_address(own_redis.url)
    async with (
        await RedisStore.open(settings) as store,
        store.listen_for_end(TENANT, [a_job().id]) as listener,
    ):
        assert await hears_nothing(listener)
        await asyncio.to_thread(own_redis.kill)
        await asyncio.to_thread(own_redis.start)
        await hear(listener)


async def test_the_end_of_a_parent_moves_few_bytes_however_wide_its_dependent(
    own_redis: RedisServer,
) -> None:
    settings = read_address(own_redis.url)
    moved: list[int] = []
    async with await RedisStore.open(settings) as store:
        for width in (10, 3_000):
            parents = [a_job(priority=9) for _ in range(2)]
            parents += [a_job(due_at=NOW + DAY) for _ in range(width - 2)]
            child = a_job(dependencies=[each.id for each in parents])
            await store.insert([*parents, child], NOW)
            first, second = await take(store)
            await end(store, first)  # the server knows the scripts
            with redis.Redis.from_url(own_redis.url) as client:
                client.config_resetstat()
                await end(store, second)
                stats = client.info("stats")
            moved.append(stats["total_net_input_bytes"] + stats["total_net_output_bytes"])
    narrow, wide = moved
    assert wide < narrow + 1_000
