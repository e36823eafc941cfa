"""The store on MariaDB, put through the contract of all stores of jobs on a real server."""

import pytest
from tests.contract.job_result_contract import JobResultContract
from tests.servers.mariadb import open_mysql

from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestMysqlJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, mysql_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await open_mysql(mysql_url)

        return open_empty
