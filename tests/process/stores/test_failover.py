"""One failover of each group of servers under load; ``bench/failover_redis_mongo.py`` has many."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.process.failover import Load, Outcome, disturb
from tests.process.faults import mongo_faults, redis_faults
from tests.servers.groups.mongo_set import new_mongo_set
from tests.servers.groups.redis_cluster import new_replicated_cluster
from tests.servers.mongo import open_mongo
from tests.servers.shared import in_database

from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, take

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

LOAD = Load(calm_for=timedelta(seconds=1), pauses_for=timedelta(seconds=2), worker_count=2)
AN_INDEX_BUILD = 60
"""Real seconds; with a member that is waited for it never ends."""


def assert_nothing_lost(outcome: Outcome) -> None:
    outcome.verdict.assert_ok()
    assert outcome.acknowledged_count >= 150
    assert min(outcome.insert_pauses) > 1, "the failover was noticed"


async def test_shards_on_a_cluster_lose_nothing_that_a_replica_had_to_have(tmp_path: Path) -> None:
    with new_replicated_cluster("--min-replicas-to-write", "1") as cluster:
        names = cluster.name_shards(3)
        fault = redis_faults(cluster, names)["lag"]
        address = cluster.address_of(names, replicas=1)
        outcome = await disturb(address, tmp_path, [fault], LOAD)
    assert_nothing_lost(outcome)


async def test_a_replica_set_loses_nothing_when_its_primary_is_killed(tmp_path: Path) -> None:
    with new_mongo_set() as group:
        address = in_database(group.url, "rota")
        outcome = await disturb(address, tmp_path, [mongo_faults(group)["kill"]], LOAD)
        group.members[0].kill()
        async with (
            asyncio.timeout(AN_INDEX_BUILD),
            await open_mongo(in_database(group.url, "another")) as store,
        ):
            await store.insert([a_job()], NOW)
            assert len(await take(store)) == 1
    assert_nothing_lost(outcome)
