"""Failovers of a Valkey cluster, a MongoDB replica set or a sharded MongoDB, under load.

``python bench/failover_redis_mongo.py SORT --rounds 20`` starts servers of its own, disturbs them
while producers and workers go on, and prints what a judge outside the store found. ``--help`` lists
what can be disturbed. Partitions of a replica set need root: each member is a network namespace.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.process.failover import Fault, Load, disturb
from tests.process.worker.crew import pause_for
from tests.servers.groups.mongo_set import MongoSet, new_mongo_set
from tests.servers.groups.mongo_shards import MongoShards, new_mongo_shards
from tests.servers.groups.redis_cluster import (
    ReplicatedCluster,
    new_replicated_cluster,
)
from tests.servers.shared import end_run, in_database, lead_run, with_option

DOWN_FOR = timedelta(seconds=3)
MEMBER_COUNT = 3
NETWORK = "10.77.18"
DATABASE = "rota"
Faults = dict[str, Fault]


def redis_faults(cluster: ReplicatedCluster, names: Sequence[str]) -> Faults:
    turns = cycle(names)

    def kill() -> None:
        """Kill the primary of the next store with kill -9; it comes back as a replica."""
        name = next(turns)
        killed = cluster.kill_owner(name)
        cluster.find_owner(name)
        pause_for(DOWN_FOR)
        cluster.revive(killed)

    def lag() -> None:
        """The replica stands still for two seconds, then its primary is killed."""
        name = next(turns)
        with cluster.held_up_replica(name) as killed:
            pause_for(timedelta(seconds=2))
            killed.kill()
        cluster.find_owner(name)
        pause_for(DOWN_FOR)
        cluster.revive(killed)

    def move() -> None:
        """The slot of the next store moves to another primary."""
        if not cluster.move_at_once(next(turns)):
            raise SystemExit("this server cannot move a slot by itself: Valkey can from 9 on")
        cluster.await_replicas()

    return {"kill": kill, "lag": lag, "move": move}


def mongo_faults(group: MongoSet) -> Faults:
    def kill() -> None:
        """Kill the primary with kill -9; it comes back as a secondary."""
        killed = group.find_primary()
        killed.kill()
        group.find_primary()
        pause_for(DOWN_FOR)
        killed.start()
        group.await_whole()

    def stop() -> None:
        """The primary stands still, with open connections, until there is another."""
        stopped = group.find_primary()
        stopped.hold_up()
        group.find_primary(without=stopped)
        pause_for(DOWN_FOR)
        stopped.go_on()
        group.await_whole()

    def step() -> None:
        """The primary is asked to step down."""
        group.step_down()
        group.await_whole()

    def cut() -> None:
        """The primary reaches its clients, and no other member."""
        primary = group.find_primary()
        others = [each for each in group.members if each is not primary]
        routes = [f"{other.host}/32" for other in others]
        space = _space_of(primary.host)
        for route in routes:
            _ip("-n", space, "route", "add", "blackhole", route)
        group.find_primary(without=primary)
        pause_for(DOWN_FOR)
        for route in routes:
            _ip("-n", space, "route", "del", "blackhole", route)
        group.await_whole()

    return {"kill": kill, "stop": stop, "step": step, "cut": cut}


def router_faults(cluster: MongoShards) -> Faults:
    turns = cycle(cluster.shards)

    def kill() -> None:
        """Kill the only member of the next shard with kill -9, and start it again."""
        shard = next(turns)
        shard.kill()
        pause_for(DOWN_FOR)
        shard.start()

    def move() -> None:
        """Move every range of the jobs to the other shard."""
        cluster.move_all(DATABASE)

    def restart() -> None:
        """Kill the mongos with kill -9, and start it again."""
        cluster.router.kill()
        pause_for(DOWN_FOR)
        cluster.router.start()

    return {"kill": kill, "move": move, "restart": restart}


@contextmanager
def namespaces() -> Iterator[list[tuple[str, Sequence[str]]]]:
    """A network namespace for each member, on one bridge."""
    with ExitStack() as stack:
        _ip("link", "add", "rota-fo", "type", "bridge")
        stack.callback(_ip, "link", "del", "rota-fo")
        _ip("address", "add", f"{NETWORK}.254/24", "dev", "rota-fo")
        _ip("link", "set", "rota-fo", "up")
        for number in range(1, MEMBER_COUNT + 1):
            host = f"{NETWORK}.{number}"
            space, near = _space_of(host), f"rota-fo-{number}"
            _ip("netns", "add", space)
            stack.callback(_ip, "netns", "del", space)
            _ip("link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", near, "master", "rota-fo", "up")
            _ip("-n", space, "address", "add", f"{host}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        numbers = range(1, MEMBER_COUNT + 1)
        hosts = [f"{NETWORK}.{number}" for number in numbers]
        yield [(host, ("ip", "netns", "exec", _space_of(host))) for host in hosts]


def _space_of(host: str) -> str:
    return f"rota-fo-{host.rpartition('.')[2]}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def redis_cluster(options: argparse.Namespace) -> Iterator[tuple[str, Faults]]:
    guard = ("--min-replicas-to-write", "1") if options.replicas else ()
    with new_replicated_cluster(*guard) as cluster:
        names = cluster.name_shards(options.shards)
        stores = [with_option(cluster.url, "name", name) for name in names]
        if options.replicas:
            stores = [with_option(each, "replicas", str(options.replicas)) for each in stores]
        listed = "|".join(f"{name}={store}" for name, store in zip(names, stores, strict=True))
        address = f"shards:{listed}" if options.shards > 1 else stores[0]
        yield address, redis_faults(cluster, names)


@contextmanager
def mongo_set(options: argparse.Namespace) -> Iterator[tuple[str, Faults]]:
    settings = {
        "electionTimeoutMillis": options.election,
        "heartbeatIntervalMillis": min(2000, options.election // 4),
    }
    with ExitStack() as stack:
        hosts: Sequence[tuple[str, Sequence[str]]] = [("127.0.0.1", ())] * MEMBER_COUNT
        if "cut" in options.faults:
            hosts = stack.enter_context(namespaces())
        group = stack.enter_context(new_mongo_set(hosts, settings))
        yield in_database(group.url, DATABASE), mongo_faults(group)


@contextmanager
def mongo_shards(_: argparse.Namespace) -> Iterator[tuple[str, Faults]]:
    with new_mongo_shards() as cluster:
        cluster.shard_jobs(DATABASE)
        cluster.split_by_tenant(DATABASE)
        yield in_database(cluster.router.url, DATABASE), router_faults(cluster)
        print(f"jobs on each shard in the end: {cluster.count_jobs(DATABASE)}")


Group = Callable[[argparse.Namespace], AbstractContextManager[tuple[str, Faults]]]
SORTS: dict[str, Group] = {
    "redis": redis_cluster,
    "mongo": mongo_set,
    "mongos": mongo_shards,
}


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sort", choices=SORTS)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        default=["kill"],
        help="in turn: kill, lag, move (redis); kill, stop, step, cut (mongo); "
        "kill, move, restart (mongos)",
    )
    parser.add_argument("--shards", type=int, default=1, help="stores on the cluster (redis)")
    parser.add_argument("--replicas", type=int, default=0, help="that must have a write (redis)")
    parser.add_argument("--election", type=int, default=2000, help="milliseconds (mongo)")
    return parser.parse_args()


async def main() -> None:
    options = read_options()
    run = lead_run()
    try:
        with (
            SORTS[options.sort](options) as (address, known),
            tempfile.TemporaryDirectory() as folder,
        ):
            faults = islice(cycle(known[name] for name in options.faults), options.rounds)
            outcome = await disturb(address, Path(folder), faults, Load())
    finally:
        if run is not None:
            end_run(run)
    print(f"{options.sort} {' '.join(sys.argv[2:])}\n{outcome.render()}")
    if outcome.verdict.breaches:
        print(outcome.verdict.render())


if __name__ == "__main__":
    asyncio.run(main())
