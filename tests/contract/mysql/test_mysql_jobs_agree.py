"""Whatever is done to jobs, MariaDB answers as the memory store does."""

from contextlib import ExitStack
from typing import ClassVar

import pytest
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness
from tests.servers.mariadb import open_mysql
from tests.servers.shared import mysql_database, shared_mysql_url

from rota.stores.protocol import JobStore


class MysqlJobsAgree(JobStoresAgree):
    server: ClassVar[str]

    async def open_empty(self) -> JobStore:
        self.dropped = ExitStack()
        self.address = self.dropped.enter_context(mysql_database(self.server))
        return await open_mysql(self.address)

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return await open_mysql(self.address)

    def teardown(self) -> None:
        super().teardown()
        self.dropped.close()


class MysqlKernelAgrees(MysqlJobsAgree):
    """The same stories without the native paths."""

    is_kernel_only = True


@pytest.fixture(autouse=True)
def _server() -> None:
    MysqlJobsAgree.server = shared_mysql_url()


TestMysqlJobsAgree = MysqlJobsAgree.TestCase
TestMysqlJobsAgree.settings = thoroughness(6)

TestMysqlKernelAgrees = MysqlKernelAgrees.TestCase
TestMysqlKernelAgrees.settings = thoroughness(4)
