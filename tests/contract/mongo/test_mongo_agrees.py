"""Whatever is done, MongoDB answers as the memory store does."""

from contextlib import ExitStack
from typing import ClassVar, cast

import pytest
from hypothesis import settings
from tests.contract.agreement import THOROUGHNESS, StoresAgree
from tests.servers.mongo import open_mongo
from tests.servers.shared import new_mongo_database, shared_mongo_url

from rota.stores.protocol import DocumentStore


class MongoAgrees(StoresAgree):
    server: ClassVar[str]

    def new_address(self) -> str:
        self.dropped = ExitStack()
        return self.dropped.enter_context(new_mongo_database(self.server))

    async def reopened(self) -> DocumentStore:
        return cast(DocumentStore, await open_mongo(self.address))

    def teardown(self) -> None:
        super().teardown()
        self.dropped.close()


@pytest.fixture(autouse=True)
def _server() -> None:
    MongoAgrees.server = shared_mongo_url()


TestMongoAgrees = MongoAgrees.TestCase
TestMongoAgrees.settings = settings(THOROUGHNESS, max_examples=10)
