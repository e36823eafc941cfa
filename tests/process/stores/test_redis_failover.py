"""A worker on Redis goes on by itself, whatever becomes of the server it works with."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import pytest
import redis
from tests.process.stores.steady_work import SteadyWork, less_patient
from tests.servers.postgres import wait_for_server
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy
from tests.servers.shared import new_redis_server, with_option

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus
from rota.stores.protocol import HeldLease
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take

pytestmark = pytest.mark.process

COMPLETED = JobStatus.COMPLETED


def new_replica(primary: RedisServer) -> RedisServer:
    """A server that has all that the other has."""
    with redis.Redis.from_url(primary.url) as client:
        client.config_set("repl-diskless-sync-delay", 0)
    server = new_redis_server("replica", ["--replicaof", f"127.0.0.1 {primary.port}"])
    with redis.Redis.from_url(server.url) as client:
        wait_for_server(
            lambda: client.info("replication")["master_link_status"] == "up",
            lambda: f"no replica came about:\n{server.log}",
        )
    return server


@pytest.fixture
def replica(own_redis: RedisServer) -> Iterator[RedisServer]:
    server = new_replica(own_redis)
    yield server
    server.remove()


@contextmanager
def held_up(server: RedisServer) -> Iterator[None]:
    """The server stays connected, and does nothing."""
    process_id = server.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


def wait_for_replica(primary: RedisServer, replica: RedisServer) -> None:
    """Return when the replica has all that the primary has now."""
    with redis.Redis.from_url(primary.url) as client:
        goal = client.info("replication")["master_repl_offset"]
    with redis.Redis.from_url(replica.url) as client:
        wait_for_server(
            lambda: client.info("replication")["slave_repl_offset"] >= goal,
            lambda: f"the replica stays behind:\n{replica.log}",
        )


async def fail_over(
    primary: RedisServer, replica: RedisServer, proxy: RedisProxy, work: SteadyWork
) -> None:
    """Kill the one, make the other its successor, and have the address lead there."""
    failing = asyncio.create_task(work.fail())
    await asyncio.to_thread(primary.kill)
    await failing
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("NO", "ONE")
    proxy.lead_to(replica)


async def test_a_worker_goes_on_with_the_replica_that_took_over(
    own_redis: RedisServer, replica: RedisServer
) -> None:
    async with (
        RedisProxy(f"{own_redis.folder}/socket").open() as proxy,
        await RedisStore.open(less_patient(proxy.url)) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        arrived = set(work.acknowledged)
        await asyncio.to_thread(wait_for_replica, own_redis, replica)
        await fail_over(own_redis, replica, proxy, work)
        await work.progress()
    assert set(work.statuses) <= {COMPLETED, None}
    assert not arrived & set(work.lost), "only what had not arrived there may be missing"


async def test_writes_that_a_replica_must_have_survive_its_takeover(
    own_redis: RedisServer, replica: RedisServer
) -> None:
    async with (
        RedisProxy(f"{own_redis.folder}/socket").open() as proxy,
        await RedisStore.open(less_patient(with_option(proxy.url, "replicas", "1"))) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        await fail_over(own_redis, replica, proxy, work)
        another = await asyncio.to_thread(new_replica, replica)
        await work.progress()
    another.remove()
    assert set(work.statuses) == {COMPLETED}


async def test_a_write_that_no_replica_has_is_in_doubt(
    own_redis: RedisServer, replica: RedisServer
) -> None:
    settings = less_patient(with_option(own_redis.url, "replicas", "1"))
    async with await RedisStore.open(settings) as store:
        await store.insert([a_job()], NOW)
        await asyncio.to_thread(replica.kill)
        job = a_job()
        with pytest.raises(StoreUnavailableError, match="only 0 of 1 replicas have") as caught:
            await store.insert([job], NOW)
        assert caught.value.details["outcome"] == "unknown"
        assert await store.count("default") == 2, "and it is read, though it may still be lost"


async def test_an_insert_that_is_repeated_waits_for_the_replica_too(
    own_redis: RedisServer, replica: RedisServer
) -> None:
    settings = less_patient(with_option(own_redis.url, "replicas", "1"))
    job = a_job()
    async with await RedisStore.open(settings) as store:
        with held_up(replica):
            for call in (store.insert([job], NOW), store.insert([job], NOW)):
                (told,) = await asyncio.gather(call, return_exceptions=True)
                assert "only 0 of 1 replicas have" in str(told)
        (answer,) = await store.insert([job], NOW)
        assert answer.is_existing


async def test_a_heartbeat_counts_when_a_replica_has_it(
    own_redis: RedisServer, replica: RedisServer
) -> None:
    settings = less_patient(with_option(own_redis.url, "replicas", "1"))
    async with await RedisStore.open(settings) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await take(store)
        held = [HeldLease(leased.id, 1)]
        keeper = store.make_keeper()
        until = NOW + DAY

        async def beat_apart() -> list[bool]:
            return await asyncio.to_thread(keeper.extend, held, until, NOW)

        def beats() -> list[Awaitable[list[bool]]]:
            """The second finds the write of the first, and waits for it."""
            return [store.extend(held, until, NOW), store.extend(held, until, NOW), beat_apart()]

        with held_up(replica):
            for beat in beats():
                (told,) = await asyncio.gather(beat, return_exceptions=True)
                assert "only 0 of 1 replicas have" in str(told)
        for beat in beats():
            assert await beat == [True]
        keeper.close()


async def test_a_worker_waits_while_its_server_follows_another(own_redis: RedisServer) -> None:
    async with (
        await RedisStore.open(less_patient(own_redis.url)) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        with redis.Redis.from_url(own_redis.url) as client:
            client.replicaof("127.0.0.1", 1)
            await work.be_refused()
            client.replicaof("NO", "ONE")
        await work.progress()
    reasons = {(it.details["reason"], it.details["outcome"]) for it in work.refusals}
    assert reasons == {("the server only lets itself be read", "nothing was written")}
    assert set(work.statuses) == {COMPLETED}
    assert set(work.run_counts.values()) == {1}


async def test_a_server_that_forgets_its_scripts_is_not_even_noticed(
    own_redis: RedisServer,
) -> None:
    async with (
        await RedisStore.open(less_patient(own_redis.url)) as store,
        SteadyWork(store).going_on() as work,
    ):
        with redis.Redis.from_url(own_redis.url) as client:
            for _ in range(10):
                await work.progress(3)
                client.script_flush()
        await work.progress(3)
    assert (work.outages, work.refusals) == ([], [])
    assert set(work.run_counts.values()) == {1}


async def test_a_worker_waits_for_a_server_that_reads_what_it_had_kept(
    own_redis: RedisServer,
) -> None:
    async with (
        await RedisStore.open(less_patient(own_redis.url)) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        with redis.Redis.from_url(own_redis.url) as client:
            client.mset({f"other-{number}": number for number in range(400)})
            client.bgrewriteaof()
            wait_for_server(
                lambda: not client.info("persistence")["aof_rewrite_in_progress"],
                lambda: "the log was never rewritten",
            )
        await asyncio.to_thread(own_redis.kill)
        own_redis.options += ("--key-load-delay", "2000")  # microseconds
        own_redis.options += ("--loading-process-events-interval-bytes", "1024")
        await asyncio.to_thread(own_redis.start)
        await work.progress()
    reasons = {error.details["reason"] for error in work.refusals}
    assert "the server is still reading what it had kept" in reasons
    assert set(work.statuses) == {COMPLETED}
