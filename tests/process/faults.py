"""What can happen to a group of servers. Each fault returns when the group is whole again."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import cycle

from tests.process.failover import Fault
from tests.process.worker.group import pause_for
from tests.servers.groups.mongo_set import MongoSet
from tests.servers.groups.mongo_shards import MongoShards
from tests.servers.groups.namespaces import cut_off
from tests.servers.groups.redis_cluster import ReplicatedCluster

DOWN_FOR = timedelta(seconds=3)
LAGS_FOR = timedelta(seconds=2)
Faults = dict[str, Fault]


def redis_faults(cluster: ReplicatedCluster, names: Sequence[str]) -> Faults:
    """Faults of the nodes on which these stores lie, in turn."""
    turns = cycle(names)

    def kill() -> None:
        """Kill the primary of the next store with kill -9; it comes back as a replica."""
        name = next(turns)
        killed = cluster.find_owner(name)
        killed.kill()
        cluster.find_owner(name)
        pause_for(DOWN_FOR)
        cluster.revive(killed)

    def lag() -> None:
        """Hold up the replica of the next store, then kill the primary."""
        name = next(turns)
        with cluster.held_up_replica(name) as killed:
            pause_for(LAGS_FOR)
            killed.kill()
        cluster.find_owner(name)
        pause_for(DOWN_FOR)
        cluster.revive(killed)

    def move() -> None:
        """Move the slot of the next store to another primary."""
        assert cluster.move_at_once(next(turns)), "Valkey moves slots by itself from 9 on"
        cluster.await_replicas()

    return {"kill": kill, "lag": lag, "move": move}


def mongo_faults(group: MongoSet) -> Faults:
    """Faults of the primary of a set."""

    def kill() -> None:
        """Kill it with kill -9; it comes back as a secondary."""
        killed = group.find_primary()
        killed.kill()
        group.find_primary()
        pause_for(DOWN_FOR)
        killed.start()
        group.await_whole()

    def stop() -> None:
        """Hold it up, with open connections, until there is another."""
        stopped = group.find_primary()
        stopped.hold_up()
        group.find_primary(without=stopped)
        pause_for(DOWN_FOR)
        stopped.go_on()
        group.await_whole()

    def step() -> None:
        """Ask it to step down."""
        group.step_down()
        group.await_whole()

    def cut() -> None:
        """Cut it off from the other members, but not from clients."""
        primary = group.find_primary()
        others = [each.host for each in group.members if each is not primary]
        with cut_off(primary.host, others):
            group.find_primary(without=primary)
            pause_for(DOWN_FOR)
        group.await_whole()

    return {"kill": kill, "stop": stop, "step": step, "cut": cut}


def router_faults(cluster: MongoShards, database: str) -> Faults:
    """Faults of a sharded MongoDB whose shards have one member."""
    turns = cycle(cluster.shards)

    def kill() -> None:
        """Kill the next shard with kill -9, and start it again."""
        shard = next(turns)
        shard.kill()
        pause_for(DOWN_FOR)
        shard.start()

    def move() -> None:
        """Move a range of the jobs to the other shard."""
        cluster.move_next(database)

    def restart() -> None:
        """Kill the mongos with kill -9, and start it again."""
        cluster.router.kill()
        pause_for(DOWN_FOR)
        cluster.router.start()

    return {"kill": kill, "move": move, "restart": restart}
