"""A cluster moves a store, or loses a node, while a worker is at it."""

import asyncio
from collections.abc import Iterator
from secrets import token_hex

import pytest
from tests.process.stores.steady_work import SteadyWork, less_patient
from tests.servers.groups.redis_cluster import RedisCluster, new_cluster
from tests.servers.redis import RedisServer
from tests.servers.shared import with_option

from rota.jobs import JobStatus
from rota.stores.protocol import HeldLease
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, take

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with new_cluster() as made:
        yield made


def settings_at(node: RedisServer, name: str) -> RedisSettings:
    return less_patient(with_option(node.tcp_url, "name", name))


@pytest.fixture
def name() -> str:
    return f"moving-{token_hex(4)}"


async def test_a_worker_goes_on_where_its_store_has_been_moved_key_by_key(
    cluster: RedisCluster, name: str
) -> None:
    owner = cluster.find_owner(name)
    async with (
        await RedisStore.open(settings_at(owner, name)) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        target = cluster.begin_move(name)
        await work.be_refused()
        while cluster.move_keys(name, most=2):
            await work.progress(0)
        cluster.end_move(name, target)
        await work.progress()
    reasons = {(it.details["reason"], it.details["outcome"]) for it in work.refusals}
    moving = "the cluster is moving the store to another server"
    assert reasons == {(moving, "nothing was written")}
    assert cluster.find_owner(name) is target
    assert set(work.statuses) == {JobStatus.COMPLETED}
    assert set(work.run_counts.values()) == {1}


async def test_a_worker_goes_on_where_its_store_has_been_moved_as_a_whole(
    cluster: RedisCluster, name: str
) -> None:
    owner = cluster.find_owner(name)
    async with (
        await RedisStore.open(settings_at(owner, name)) as store,
        SteadyWork(store).going_on() as work,
    ):
        await work.progress()
        if not await asyncio.to_thread(cluster.move_at_once, name):
            pytest.skip("this server cannot move a slot by itself: Valkey can from 9 on")
        await work.progress()
    assert cluster.find_owner(name) is not owner
    assert set(work.statuses) == {JobStatus.COMPLETED}
    assert set(work.run_counts.values()) == {1}


async def test_when_the_node_it_was_sent_to_is_gone_the_address_is_asked_again(
    cluster: RedisCluster, name: str
) -> None:
    owner = cluster.find_owner(name)
    seed = cluster.find_other(owner)
    async with await RedisStore.open(settings_at(seed, name)) as store:
        await store.insert([a_job()], NOW)
        (leased,) = await take(store)
        keeper, held = store.make_keeper(), [HeldLease(leased.id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        target = cluster.begin_move(name)
        cluster.move_keys(name)
        cluster.end_move(name, target)
        await asyncio.to_thread(owner.kill)
        try:
            assert await store.count("default") == 1
            assert await asyncio.to_thread(keeper.extend, held, NOW + 2 * DAY, NOW) == [True]
        finally:
            keeper.close()
            await asyncio.to_thread(owner.start)
            await asyncio.to_thread(cluster.wait_until_whole)


async def test_a_worker_waits_while_the_cluster_is_incomplete(name: str) -> None:
    with new_cluster("--cluster-node-timeout", "1000") as cluster:
        owner = cluster.find_owner(name)
        async with (
            await RedisStore.open(settings_at(owner, name)) as store,
            SteadyWork(store).going_on() as work,
        ):
            await work.progress()
            await asyncio.to_thread(cluster.find_other(owner).kill)
            await work.be_refused()
            await asyncio.to_thread(cluster.find_other(owner).start)
            await work.progress()
    assert {it.details["reason"] for it in work.refusals} == {"the cluster is incomplete"}
    assert set(work.statuses) == {JobStatus.COMPLETED}
