"""Whatever is done to jobs, SQLite answers as the memory store does."""

import tempfile
from typing import cast

from tests.contract.jobs.agreement import JobStoresAgree, thoroughness

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore


class SqliteJobsAgree(JobStoresAgree):
    async def open_empty(self) -> JobStore:
        self.folder = tempfile.TemporaryDirectory()
        self.address = f"sqlite:///{self.folder.name}/rota.db"
        return cast(JobStore, await open_store(self.address))

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return cast(JobStore, await open_store(self.address))

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class SqliteKernelAgrees(SqliteJobsAgree):
    """The same stories without the native paths."""

    is_kernel_only = True


TestSqliteJobsAgree = SqliteJobsAgree.TestCase
TestSqliteJobsAgree.settings = thoroughness(12)

TestSqliteKernelAgrees = SqliteKernelAgrees.TestCase
TestSqliteKernelAgrees.settings = thoroughness(7)
