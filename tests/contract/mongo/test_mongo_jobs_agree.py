"""Whatever is done to jobs, MongoDB answers as the memory store does."""

from contextlib import ExitStack
from typing import ClassVar

import pytest
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness
from tests.servers.mongo import open_mongo
from tests.servers.shared import new_mongo_database, shared_mongo_url

from rota.stores.protocol import JobStore


class MongoJobsAgree(JobStoresAgree):
    server: ClassVar[str]

    async def open_empty(self) -> JobStore:
        self.dropped = ExitStack()
        self.address = self.dropped.enter_context(new_mongo_database(self.server))
        return await open_mongo(self.address)

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return await open_mongo(self.address)

    def teardown(self) -> None:
        super().teardown()
        self.dropped.close()


class MongoKernelAgrees(MongoJobsAgree):
    """The same stories without the native paths."""

    is_kernel_only = True


@pytest.fixture(autouse=True)
def _server() -> None:
    MongoJobsAgree.server = shared_mongo_url()


TestMongoJobsAgree = MongoJobsAgree.TestCase
TestMongoJobsAgree.settings = thoroughness(4)

TestMongoKernelAgrees = MongoKernelAgrees.TestCase
TestMongoKernelAgrees.settings = thoroughness(4)
