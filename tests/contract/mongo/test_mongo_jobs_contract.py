"""The MongoDB store, put through the contract of all stores of jobs on a server."""

import pytest
from tests.contract.job_result_contract import JobResultContract
from tests.servers.mongo import open_mongo

from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestMongoJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, mongo_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await open_mongo(mongo_url)

        return open_empty
