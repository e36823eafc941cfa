"""Whatever is done to jobs, Redis answers as the memory store does."""

from secrets import token_hex
from typing import ClassVar, cast

import pytest
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness
from tests.contract.redis.filing import check_filing
from tests.servers.shared import with_option

from rota.runtime.wiring import open_store
from rota.stores.protocol import JobStore
from rota.testing.portable_store_contract import dump_all, expect_same


class RedisJobsAgree(JobStoresAgree):
    server: ClassVar[str]

    async def open_empty(self) -> JobStore:
        self.address = with_option(self.server, "name", f"agree-{token_hex(6)}")
        return cast(JobStore, await open_store(self.address))

    async def reopen(self, store: JobStore) -> JobStore:
        await store.close()
        return cast(JobStore, await open_store(self.address))

    def teardown(self) -> None:
        try:
            self.run(self.copy())
        finally:
            super().teardown()

    async def copy(self) -> None:
        """However jobs came to where they are, in a copy they are filed as if they had there."""
        address = with_option(self.server, "name", f"copy-{token_hex(6)}")
        async with await open_store(self.address) as source, await open_store(address) as target:
            records = await dump_all(source)
            half = len(records) // 2
            await target.load(records[half:], self.now)
            await target.load(records[:half], self.now)
            expect_same(await dump_all(target), records)
        check_filing(address)

    def compare_all(self) -> None:
        super().compare_all()
        check_filing(self.address)


@pytest.fixture(autouse=True)
def _server(redis_server_url: str) -> None:
    RedisJobsAgree.server = redis_server_url


TestRedisJobsAgree = RedisJobsAgree.TestCase
TestRedisJobsAgree.settings = thoroughness(10)
