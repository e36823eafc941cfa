"""Whatever is done, PostgreSQL answers as the memory store does."""

from secrets import token_hex
from typing import ClassVar

import pytest
from tests.contract.agreement import THOROUGHNESS, StoresAgree
from tests.servers.shared import with_option


class PostgresAgrees(StoresAgree):
    database: ClassVar[str]

    def new_address(self) -> str:
        return with_option(self.database, "schema", f"agree_{token_hex(6)}")


@pytest.fixture(autouse=True)
def _database(postgres_database: str) -> None:
    PostgresAgrees.database = postgres_database


TestPostgresAgrees = PostgresAgrees.TestCase
TestPostgresAgrees.settings = THOROUGHNESS
