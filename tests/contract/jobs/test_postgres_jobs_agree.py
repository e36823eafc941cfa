"""Whatever is done to jobs, PostgreSQL answers as the memory store does."""

from secrets import token_hex
from typing import ClassVar, cast

import pytest
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness
from tests.servers.shared import with_option

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore


class PostgresJobsAgree(JobStoresAgree):
    database: ClassVar[str]

    async def open_empty(self) -> JobStore:
        self.address = with_option(self.database, "schema", f"agree_{token_hex(6)}")
        return cast(JobStore, await open_store(self.address))

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return cast(JobStore, await open_store(self.address))


class PostgresKernelAgrees(PostgresJobsAgree):
    """The same stories without the native paths."""

    is_kernel_only = True


@pytest.fixture(autouse=True)
def _database(postgres_database: str) -> None:
    PostgresJobsAgree.database = postgres_database


TestPostgresJobsAgree = PostgresJobsAgree.TestCase
TestPostgresJobsAgree.settings = thoroughness(8)

TestPostgresKernelAgrees = PostgresKernelAgrees.TestCase
TestPostgresKernelAgrees.settings = thoroughness(4)
