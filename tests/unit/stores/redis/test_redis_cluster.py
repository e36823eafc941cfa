"""A server in cluster mode lets a script touch the keys of one slot only, and sends others away."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
from tests.servers.groups.redis_cluster import RedisCluster, new_cluster
from tests.servers.redis import RedisServer
from tests.servers.shared import with_option

from rota.errors import StoreUnavailableError
from rota.runtime.wiring import open_store
from rota.stores.protocol import Cap, DocumentWrite, HeldLease
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, SECOND, end, take


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[RedisServer]]:
    """Two servers, each with half of the slots."""
    with new_cluster() as cluster:
        yield cluster.nodes


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("name", ["one", "two", "three"])
async def test_a_store_works_whichever_node_is_asked(
    nodes: list[RedisServer], node: int, name: str
) -> None:
    address = with_option(nodes[node].tcp_url, "name", f"{name}-{node}")
    async with await open_store(address) as store, store.listen() as listener:
        await store.write_all([DocumentWrite("tasks", f"{n}", None, b"") for n in range(1_500)])
        parent = a_job(tenant="a")
        child = a_job(tenant="a", dependencies=[parent.id])
        await store.insert([parent, child, a_job(tenant="b")], NOW)
        await listener.wait()
        leased = await take(store, caps=(Cap(queue="default", running=2),))
        assert [job.tenant for job in leased] == ["a", "b"]
        keeper = store.make_keeper()
        held = [HeldLease(leased[0].id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        keeper.close()
        assert (await end(store, leased[0])).released == (child.id,)
        assert [job.id for job in await store.find_expired(NOW + DAY, 5)] == [leased[1].id]
        assert len(await store.survey(NOW + SECOND)) == 1
        assert len((await store.find("a")).items) == 2


async def test_shards_with_different_names_lie_on_different_nodes(nodes: list[RedisServer]) -> None:
    cluster = RedisCluster(nodes)
    names = {cluster.find_owner(name): name for name in ("shard-1", "shard-2", "shard-3")}
    assert len(names) == len(nodes)
    shards = [with_option(nodes[0].tcp_url, "name", name) for name in names.values()]
    async with await open_store(f"shards:one={shards[0]}|two={shards[1]}") as store:
        await store.insert([a_job(tenant=tenant) for tenant in "abcdef"], NOW)
        assert sorted(job.tenant for job in await take(store)) == list("abcdef")
    for node, name in names.items():
        with redis.Redis.from_url(node.tcp_url) as client:
            assert client.hlen(f"{{{name}}}:bodies") > 0


async def test_any_node_of_the_address_may_be_gone(nodes: list[RedisServer]) -> None:
    hosts = ",".join(["127.0.0.1:1", *(f"127.0.0.1:{node.port}" for node in nodes)])
    async with await open_store(f"redis://{hosts}/0?name=several") as store:
        await store.insert([a_job()], NOW)
        (leased,) = await take(store)
        keeper, held = store.make_keeper(), [HeldLease(leased.id, 1)]
        assert await asyncio.to_thread(keeper.extend, held, NOW + DAY, NOW) == [True]
        keeper.close()


async def test_nothing_is_written_if_no_node_answers() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        await open_store("redis://127.0.0.1:1,127.0.0.1:2/0?name=several")
    assert caught.value.details["outcome"] == "nothing was written"
    assert caught.value.details["store"] == "redis://127.0.0.1:1,127.0.0.1:2/0?name=several"
