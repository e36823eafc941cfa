"""The Redis store, put through the contract of all stores of jobs on a real server."""

import pytest
from tests.contract.job_result_contract import JobResultContract

from rota.stores.protocol import JobStore
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestRedisJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, redis_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await RedisStore.open(read_address(redis_url))

        return open_empty
