"""A sharded store over stores on servers, put through the contract of job stores.

A shard is a schema on PostgreSQL, a name and so a hash tag on Redis, and a database on MongoDB. By
default the whole contract runs over two schemas and over a hash tag beside a database, so that a
shard of each sort is used. Two of one sort on Redis and MongoDB: ``test_shards_of_one_sort.py``.
"""

from collections.abc import Iterator

import pytest
from tests.contract.shards.factory import shards_of
from tests.servers.schemas import Schemas
from tests.servers.shared import with_option

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore
from rota.testing.job_result_contract import JobResultContract
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


def opener(*addresses: str) -> JobStoreFactory:
    async def open_empty() -> JobStore:
        return await open_store(shards_of(*addresses))

    return open_empty


class TestJobsOverTwoSchemas(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(
        self, postgres_database: str, postgres_schemas: Schemas
    ) -> Iterator[JobStoreFactory]:
        names = [postgres_schemas.take() for _ in range(2)]
        yield opener(*(with_option(postgres_database, "schema", name) for name in names))
        for name in names:
            postgres_schemas.leave(name)


class TestJobsOverAHashTagAndADatabase(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, redis_url: str, mongo_url: str) -> JobStoreFactory:
        return opener(redis_url, mongo_url)
