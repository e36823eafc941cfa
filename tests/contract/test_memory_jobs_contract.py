"""The memory store, put through the contract of all stores of jobs."""

import pytest
from tests.contract.job_result_contract import JobResultContract

from rota.stores.memory import MemoryStore
from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestMemoryJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return MemoryStore()

        return open_empty
