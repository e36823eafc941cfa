"""Whatever is done, Redis answers as the memory store does."""

from secrets import token_hex
from typing import ClassVar

import pytest
from tests.contract.agreement import THOROUGHNESS, StoresAgree
from tests.servers.shared import with_option


class RedisAgrees(StoresAgree):
    server: ClassVar[str]

    def new_address(self) -> str:
        return with_option(self.server, "name", f"agree-{token_hex(6)}")


@pytest.fixture(autouse=True)
def _server(redis_server_url: str) -> None:
    RedisAgrees.server = redis_server_url


TestRedisAgrees = RedisAgrees.TestCase
TestRedisAgrees.settings = THOROUGHNESS
