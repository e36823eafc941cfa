"""Whatever is done, MariaDB answers as the memory store does."""

from contextlib import ExitStack
from typing import ClassVar

import pytest
from hypothesis import settings
from tests.contract.agreement import THOROUGHNESS, StoresAgree
from tests.servers.shared import mysql_database, shared_mysql_url


class MysqlAgrees(StoresAgree):
    server: ClassVar[str]

    def new_address(self) -> str:
        self.dropped = ExitStack()
        return self.dropped.enter_context(mysql_database(self.server))

    def teardown(self) -> None:
        super().teardown()
        self.dropped.close()


@pytest.fixture(autouse=True)
def _server() -> None:
    MysqlAgrees.server = shared_mysql_url()


TestMysqlAgrees = MysqlAgrees.TestCase
TestMysqlAgrees.settings = settings(THOROUGHNESS, max_examples=10)
