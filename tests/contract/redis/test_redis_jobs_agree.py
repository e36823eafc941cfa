"""Whatever is done to jobs, Redis answers as the memory store does."""

from secrets import token_hex
from typing import ClassVar, cast

import pytest
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness
from tests.servers.shared import with_option

from rota.stores.jobs import JobStore
from rota.wiring import open_store


class RedisJobsAgree(JobStoresAgree):
    server: ClassVar[str]

    async def open_empty(self) -> JobStore:
        self.address = with_option(self.server, "name", f"agree-{token_hex(6)}")
        return cast(JobStore, await open_store(self.address))

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return cast(JobStore, await open_store(self.address))


@pytest.fixture(autouse=True)
def _server(redis_server_url: str) -> None:
    RedisJobsAgree.server = redis_server_url


TestRedisJobsAgree = RedisJobsAgree.TestCase
TestRedisJobsAgree.settings = thoroughness(40)
