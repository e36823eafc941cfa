"""All contracts of jobs behind PgBouncer in transaction mode, with ``ROTA_TEST_POOLED=1``."""

import os

import pytest
from tests.contract.job_result_contract import JobResultContract

from rota.stores.postgres.address import read_address
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory

if "ROTA_TEST_POOLED" not in os.environ:
    pytest.skip("the whole contract through PgBouncer: ROTA_TEST_POOLED=1", allow_module_level=True)


class TestAllPooledJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, pooled_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await PostgresStore.open(read_address(pooled_url))

        return open_empty
