"""A sharded store over two stores on each server, put through the contract of job stores.

A shard is a schema on PostgreSQL, a name and so a hash tag on Redis, and a database on MongoDB.
"""

from collections.abc import Iterator
from secrets import token_hex

import pytest
from tests.contract.shards.factory import shards_of
from tests.servers.schemas import Schemas
from tests.servers.shared import new_mongo_database, shared_mongo_url, with_option

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


class TestJobsOverTwoHashTags(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, redis_server_url: str) -> JobStoreFactory:
        run = token_hex(6)
        return opener(*(with_option(redis_server_url, "name", f"{run}-{it}") for it in range(2)))


class TestJobsOverTwoDatabases(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self) -> Iterator[JobStoreFactory]:
        server = shared_mongo_url()
        with new_mongo_database(server) as one, new_mongo_database(server) as two:
            yield opener(one, two)
