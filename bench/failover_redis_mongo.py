"""Failovers of a Valkey cluster, a MongoDB replica set or a sharded MongoDB, under load.

``python bench/failover_redis_mongo.py SORT --rounds 20`` starts servers of its own, disturbs them
while producers and workers go on, and prints what a judge outside the store found. ``--help`` lists
what can be disturbed. Partitions of a replica set need root: each member is a network namespace.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.process.failover import Load, disturb
from tests.process.faults import Faults, mongo_faults, redis_faults, router_faults
from tests.servers.groups.mongo_set import new_mongo_set
from tests.servers.groups.mongo_shards import new_mongo_shards
from tests.servers.groups.namespaces import namespaces
from tests.servers.groups.redis_cluster import new_replicated_cluster
from tests.servers.shared import end_run, in_database, lead_run

MEMBER_COUNT = 3
DATABASE = "rota"


@contextmanager
def redis_cluster(options: argparse.Namespace) -> Iterator[tuple[str, Faults]]:
    guard = ("--min-replicas-to-write", "1") if options.replicas else ()
    with new_replicated_cluster(*guard) as cluster:
        names = cluster.name_shards(options.shards)
        address = cluster.address_of(names, options.replicas)
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
            hosts = stack.enter_context(namespaces(MEMBER_COUNT))
        group = stack.enter_context(new_mongo_set(hosts, settings))
        yield in_database(group.url, DATABASE), mongo_faults(group)


@contextmanager
def mongo_shards(_: argparse.Namespace) -> Iterator[tuple[str, Faults]]:
    with new_mongo_shards() as cluster:
        cluster.shard_jobs(DATABASE)
        cluster.split_by_tenant(DATABASE)
        yield in_database(cluster.router.url, DATABASE), router_faults(cluster, DATABASE)
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
    parser.add_argument("--pause", type=float, default=2, help="seconds between a tenant's batches")
    parser.add_argument("--shards", type=int, default=1, help="stores on the cluster (redis)")
    parser.add_argument("--replicas", type=int, default=0, help="that must have a write (redis)")
    parser.add_argument("--election", type=int, default=2000, help="milliseconds (mongo)")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, flush=True)


async def main() -> None:
    options = read_options()
    load = Load(pauses_for=timedelta(seconds=options.pause))
    run = lead_run()
    try:
        with (
            SORTS[options.sort](options) as (address, known),
            tempfile.TemporaryDirectory() as folder,
        ):
            faults = islice(cycle(known[name] for name in options.faults), options.rounds)
            outcome = await disturb(address, Path(folder), faults, load, say)
    finally:
        if run is not None:
            end_run(run)
    print(f"{options.sort} {' '.join(sys.argv[2:])}\n{outcome.render()}")
    if outcome.verdict.breaches:
        print(outcome.verdict.render())


if __name__ == "__main__":
    asyncio.run(main())
