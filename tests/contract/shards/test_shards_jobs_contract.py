"""A sharded store, put through the whole contract of job stores."""

from pathlib import Path
from typing import cast

import pytest
from tests.contract.job_result_contract import JobResultContract
from tests.contract.shards.factory import open_over_memory, shards_of

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestJobsOverThreeInMemory(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self) -> JobStoreFactory:
        return cast("JobStoreFactory", open_over_memory)


class TestJobsOverThreeFiles(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, tmp_path: Path) -> JobStoreFactory:
        files = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3)]

        async def open_empty() -> JobStore:
            return await open_store(shards_of(*files))

        return open_empty
