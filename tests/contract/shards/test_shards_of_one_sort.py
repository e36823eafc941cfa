"""The contract over two shards of one sort on a server, with ``ROTA_TEST_SHARDS=all``.

``test_shards_on_servers.py`` runs it over one of each.
"""

import os
from collections.abc import Iterator
from secrets import token_hex

import pytest
from tests.contract.job_result_contract import JobResultContract
from tests.contract.shards.test_shards_on_servers import opener
from tests.servers.schemas import Schemas
from tests.servers.shared import new_mongo_database, shared_mongo_url, with_option

from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory

if os.environ.get("ROTA_TEST_SHARDS") != "all":
    pytest.skip("two shards of one sort: ROTA_TEST_SHARDS=all", allow_module_level=True)


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
