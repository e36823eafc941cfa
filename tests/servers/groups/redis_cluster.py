"""Redis servers that are a cluster: two, or three primaries with a replica each."""

import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.crc import key_slot
from tests.servers.postgres import wait_for_server
from tests.servers.redis import RedisServer
from tests.servers.shared import new_redis_server, with_option

SLOT_COUNT = 16_384


class RedisCluster:
    """Nodes, each with half of the slots at first."""

    def __init__(self, nodes: list[RedisServer]) -> None:
        self.nodes = nodes

    def wait_until_whole(self) -> None:
        """Until every node accepts commands: a started node refuses them for some seconds."""
        wait_for_server(lambda: all(map(_is_whole, self.nodes)), lambda: "no cluster came about")

    def find_owner(self, store_name: str) -> RedisServer:
        """The node that the store of that name lies on."""
        slot = _slot_of(store_name)
        for node in self.nodes:
            if _has_slot(node, slot):
                return node
        raise AssertionError(f"no server has the slot {slot}")

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
        """Move up to this many of the migrating keys; returns how many were moved."""
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


class ReplicatedCluster(RedisCluster):
    """Six nodes. A replica takes the place of a primary that was killed."""

    @property
    def url(self) -> str:
        """An address that names all nodes."""
        return f"redis://{','.join(f'127.0.0.1:{node.port}' for node in self.nodes)}/0"

    def address_of(self, names: Sequence[str], replicas: int = 0) -> str:
        """The address of the store of that name; with several names they are its shards."""
        stores = [with_option(self.url, "name", name) for name in names]
        if replicas:
            stores = [with_option(each, "replicas", str(replicas)) for each in stores]
        listed = "|".join(f"{name}={store}" for name, store in zip(names, stores, strict=True))
        return f"shards:{listed}" if len(stores) > 1 else stores[0]

    def find_owner(self, store_name: str) -> RedisServer:
        """The primary that the store lies on, once there is one."""
        slot, owners = _slot_of(store_name), list[RedisServer]()

        def is_owned() -> bool:
            owners[:] = [node for node in self._running() if _has_slot(node, slot)]
            return bool(owners)

        wait_for_server(is_owned, lambda: f"no node has the slot {slot}")
        return owners[0]

    def find_other(self, node: RedisServer) -> RedisServer:
        """Another primary."""
        others = (each for each in self._running() if each is not node and _is_primary(each))
        return next(others)

    def name_shards(self, count: int) -> list[str]:
        """Names of stores of which each lies on another primary, as long as there are others."""
        named: dict[str, RedisServer] = {}
        for number in range(1, 100):
            owner = self.find_owner(f"shard-{number}")
            if len(named) == count:
                break
            if owner not in named.values():
                named[f"shard-{number}"] = owner
        return list(named)

    @contextmanager
    def held_up_replica(self, store_name: str) -> Iterator[RedisServer]:
        """The replica of a store is cut off from its primary, and does nothing; gives the primary.

        What the primary sends to a process that only stands still would wait in its socket.
        """
        owner = self.find_owner(store_name)
        replica = next(
            node
            for node in self._running()
            if _read_replication(node).get("master_port") == owner.port
        )
        process_id = replica.process_id
        assert process_id is not None
        os.kill(process_id, signal.SIGSTOP)
        with redis.Redis.from_url(owner.tcp_url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        try:
            yield owner
        finally:
            os.kill(process_id, signal.SIGCONT)

    def revive(self, node: RedisServer) -> None:
        """Start a node again, and return when every replica follows its primary."""
        node.start()
        self.await_replicas()

    def await_replicas(self) -> None:
        """Return when the cluster is whole and every replica is up to date."""
        wait_for_server(self._is_replicated, lambda: "the replicas never caught up")

    def _is_replicated(self) -> bool:
        if not all("cluster_state:ok" in tell_cluster(node, "INFO") for node in self.nodes):
            return False
        links = [_read_replication(node) for node in self.nodes]
        followed = [link for link in links if link["role"] == "master"]
        up = [link for link in links if link.get("master_link_status") == "up"]
        return len(up) == len(self.nodes) - len(followed) and all(
            link["connected_slaves"] for link in followed
        )

    def _running(self) -> list[RedisServer]:
        return [node for node in self.nodes if node.process_id is not None]


@contextmanager
def new_replicated_cluster(*options: str) -> Iterator[ReplicatedCluster]:
    """Three primaries and their replicas, which are stopped in the end."""
    timing = ("--cluster-node-timeout", "3000", "--repl-diskless-sync-delay", "0")
    ports = [_free_port() for _ in range(6)]
    nodes = [_start_node(port, *timing, *options) for port in ports]
    try:
        for number, node in enumerate(nodes[:3]):
            first, last = number * SLOT_COUNT // 3, (number + 1) * SLOT_COUNT // 3 - 1
            tell_cluster(node, "ADDSLOTSRANGE", first, last)
        for node in nodes[1:]:
            tell_cluster(node, "MEET", "127.0.0.1", nodes[0].port, ports[0])
        wait_for_server(
            lambda: all("known_nodes:6" in tell_cluster(node, "INFO") for node in nodes),
            lambda: "the nodes never met",
        )
        for primary, replica in zip(nodes[:3], nodes[3:], strict=True):
            _follow(replica, primary)
        cluster = ReplicatedCluster(nodes)
        cluster.await_replicas()
        yield cluster
    finally:
        for node in nodes:
            node.remove()


def _follow(replica: RedisServer, primary: RedisServer) -> None:
    """Make it a replica, as soon as it knows the other."""

    def is_done() -> bool:
        try:
            tell_cluster(replica, "REPLICATE", _id_of(primary))
        except redis.ResponseError:
            return False
        return True

    wait_for_server(is_done, lambda: "a node never knew its primary")


def _start_node(bus_port: int, *options: str) -> RedisServer:
    is_cluster = ("--cluster-enabled", "yes", "--cluster-port", str(bus_port))
    return new_redis_server("node", [*is_cluster, *options])


def _is_primary(node: RedisServer) -> bool:
    return bool(_read_replication(node)["role"] == "master")


def _read_replication(node: RedisServer) -> dict[str, Any]:
    with redis.Redis.from_url(node.tcp_url, decode_responses=True) as client:
        return dict(client.info("replication"))


@contextmanager
def new_cluster(*options: str) -> Iterator[RedisCluster]:
    """Two servers, which are stopped in the end."""
    bus_ports = [_free_port(), _free_port()]
    # A busy machine may stop a node for many seconds; the other must not take it for dead.
    timing = ("--cluster-node-timeout", "120000")
    servers = [_start_node(bus_port, *timing, *options) for bus_port in bus_ports]
    for number, server in enumerate(servers):
        first = number * SLOT_COUNT // 2
        tell_cluster(server, "ADDSLOTSRANGE", first, first + SLOT_COUNT // 2 - 1)
    tell_cluster(servers[1], "MEET", "127.0.0.1", servers[0].port, bus_ports[0])
    cluster = RedisCluster(servers)
    cluster.wait_until_whole()
    yield cluster
    for server in servers:
        server.remove()


def tell_cluster(server: RedisServer, *command: object) -> str:
    with redis.Redis.from_url(server.tcp_url, decode_responses=True) as client:
        return str(client.execute_command("CLUSTER", *command))


def _is_whole(server: RedisServer) -> bool:
    said = tell_cluster(server, "INFO")
    return "cluster_state:ok" in said and "cluster_known_nodes:2" in said


def _has_slot(server: RedisServer, slot: int) -> bool:
    """Whether the server believes it owns the slot; for a moment no server may."""
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
