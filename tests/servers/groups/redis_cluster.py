"""Two Redis servers that are a cluster, and the way a slot goes from one to the other."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.crc import key_slot
from tests.servers.postgres import wait_for_server
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server

SLOT_COUNT = 16_384


class RedisCluster:
    """Nodes, each with half of the slots at first."""

    def __init__(self, nodes: list[RedisServer]) -> None:
        self.nodes = nodes

    def find_owner(self, store_name: str) -> RedisServer:
        """The node that the store of that name lies on."""
        slot = _slot_of(store_name)
        for node in self.nodes:
            if _has_slot(node, slot):
                return node
        raise AssertionError(f"nobody has the slot {slot}")

    def find_other(self, node: RedisServer) -> RedisServer:
        return self.nodes[1 - self.nodes.index(node)]

    def begin_move(self, store_name: str) -> RedisServer:
        """From now on the slot of the store is on its way; gives the node it goes to."""
        slot, source = _slot_of(store_name), self.find_owner(store_name)
        target = self.find_other(source)
        tell_cluster(target, "SETSLOT", slot, "IMPORTING", _id_of(source))
        tell_cluster(source, "SETSLOT", slot, "MIGRATING", _id_of(target))
        return target

    def move_keys(self, store_name: str, most: int = 1_000) -> int:
        """Move so many of the keys that are on their way; how many were."""
        source = self.find_owner(store_name)
        target = self.find_other(source)
        with redis.Redis.from_url(source.tcp_url) as client:
            keys = client.execute_command("CLUSTER", "GETKEYSINSLOT", _slot_of(store_name), most)
            place = ("127.0.0.1", target.port, "", 0, 10_000)
            if keys:
                client.execute_command("MIGRATE", *place, "KEYS", *keys)
            return len(keys)

    def move_at_once(self, store_name: str) -> bool:
        """Have the servers move the slot by themselves, as Valkey can from 9 on; False if not."""
        slot, source = _slot_of(store_name), self.find_owner(store_name)
        target = self.find_other(source)
        try:
            tell_cluster(source, "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", _id_of(target))
        except redis.ResponseError:
            return False
        wait_for_server(
            lambda: _has_slot(target, slot) and not _has_slot(source, slot),
            lambda: "the slot has never moved",
        )
        return True

    def end_move(self, store_name: str, target: RedisServer) -> None:
        """From now on the slot is where its keys are."""
        for node in (target, self.find_other(target)):
            tell_cluster(node, "SETSLOT", _slot_of(store_name), "NODE", _id_of(target))


@contextmanager
def new_cluster(*options: str) -> Iterator[RedisCluster]:
    """Two servers, which are stopped in the end."""
    bus_ports = [_free_port(), _free_port()]
    # A busy machine may stop a node for many seconds; the other must not take it for dead.
    is_cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "120000", *options)
    servers = [
        new_redis_server("node", [*is_cluster, "--cluster-port", str(bus_port)])
        for bus_port in bus_ports
    ]
    for number, server in enumerate(servers):
        first = number * SLOT_COUNT // 2
        tell_cluster(server, "ADDSLOTSRANGE", first, first + SLOT_COUNT // 2 - 1)
    tell_cluster(servers[1], "MEET", "127.0.0.1", servers[0].port, bus_ports[0])
    wait_for_server(lambda: all(map(_is_whole, servers)), lambda: "no cluster came about")
    yield RedisCluster(servers)
    for server in servers:
        server.remove()


def tell_cluster(server: RedisServer, *command: object) -> str:
    with redis.Redis.from_url(server.tcp_url, decode_responses=True) as client:
        return str(client.execute_command("CLUSTER", *command))


def _is_whole(server: RedisServer) -> bool:
    said = tell_cluster(server, "INFO")
    return "cluster_state:ok" in said and "cluster_known_nodes:2" in said


def _has_slot(server: RedisServer, slot: int) -> bool:
    """Whether the server takes itself for the owner; for a moment nobody may."""
    with redis.Redis.from_url(server.tcp_url) as client:
        shards = client.execute_command("CLUSTER", "SLOTS")
    return any(
        first <= slot <= last and owner[1] == server.port for first, last, owner, *_ in shards
    )


def _id_of(server: RedisServer) -> str:
    return tell_cluster(server, "MYID")


def _slot_of(store_name: str) -> int:
    return int(key_slot(f"{{{store_name}}}".encode()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
