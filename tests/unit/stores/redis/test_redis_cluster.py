"""A server in cluster mode lets a script touch the keys of one slot only, and sends others away."""

import socket
from collections.abc import Iterator

import pytest
import redis
from tests.servers.postgres import wait_for_server
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server, with_option

from rota.stores.jobs import Cap, HeldLease
from rota.stores.protocol import DocumentWrite
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import DAY, NOW, SECOND, end, take
from rota.wiring import open_store

SLOT_COUNT = 16_384


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[RedisServer]]:
    """Two servers, each with half of the slots."""
    bus_ports = [_free_port(), _free_port()]
    servers = [
        new_redis_server("node", ["--cluster-enabled", "yes", "--cluster-port", str(bus_port)])
        for bus_port in bus_ports
    ]
    for number, server in enumerate(servers):
        first = number * SLOT_COUNT // 2
        _tell(server, "ADDSLOTSRANGE", first, first + SLOT_COUNT // 2 - 1)
    _tell(servers[1], "MEET", "127.0.0.1", servers[0].port, bus_ports[0])
    wait_for_server(lambda: all(map(_is_whole, servers)), lambda: "no cluster came about")
    yield servers
    for server in servers:
        server.remove()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tell(server: RedisServer, *command: object) -> str:
    with redis.Redis.from_url(server.tcp_url) as client:
        return str(client.execute_command("CLUSTER", *command))


def _is_whole(server: RedisServer) -> bool:
    said = _tell(server, "INFO")
    return "cluster_state:ok" in said and "cluster_known_nodes:2" in said


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
        assert keeper.extend([HeldLease(leased[0].id, 1)], NOW + DAY, NOW) == [True]
        keeper.close()
        assert (await end(store, leased[0])).released == (child.id,)
        assert [job.id for job in await store.find_expired(NOW + DAY, 5)] == [leased[1].id]
        assert len(await store.survey(NOW + SECOND)) == 1
        assert len((await store.find("a")).items) == 2
