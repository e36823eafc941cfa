"""The PostgreSQL store, put through the contract of all stores of jobs on a real server."""

import pytest
from tests.contract.job_result_contract import JobResultContract

from rota.stores.postgres.address import read_address
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestPostgresJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, postgres_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await PostgresStore.open(read_address(postgres_url))

        return open_empty
