"""A sharded store over stores on servers, put through the contract of job stores.

A shard is a schema on PostgreSQL, a name and so a hash tag on Redis, and a database on MongoDB. The
store has one of each. Two of one sort: ``test_shards_of_one_sort.py``.
"""

import pytest
from tests.contract.job_result_contract import JobResultContract
from tests.contract.shards.factory import shards_of

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


def opener(*addresses: str) -> JobStoreFactory:
    async def open_empty() -> JobStore:
        return await open_store(shards_of(*addresses))

    return open_empty


class TestJobsOverServers(JobResultContract, JobStoreContract):
    fan_in_width = 1_000  # ten thousand: each store by itself, and shards in memory and in files

    @pytest.fixture
    def job_store_factory(
        self, postgres_url: str, redis_url: str, mongo_url: str
    ) -> JobStoreFactory:
        return opener(postgres_url, redis_url, mongo_url)
