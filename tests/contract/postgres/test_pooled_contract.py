"""The PostgreSQL store behind PgBouncer in transaction mode, put through the contract.

The part that runs always covers every sort of statement: reads, single writes, transactions,
advisory locks, wake-ups. test_pooled_whole_contract.py is the rest.
"""

import pytest
from tests.contract.job_result_contract import EndListeningContract

from rota.runtime.wiring import open_store
from rota.stores.postgres.address import read_address
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import JobStore
from rota.testing.job_insertion_contract import IdempotencyContract
from rota.testing.job_lease_contract import (
    CapsContract,
    FencingContract,
    LeasingContract,
    WakingContract,
)
from rota.testing.job_store_contract import JobStoreFactory
from rota.testing.portable_store_contract import PortableStoreContract
from rota.testing.store_contract import LastingStoreContract, StoreContract, StoreFactory


class TestPooledStore(StoreContract, LastingStoreContract, PortableStoreContract):
    @pytest.fixture
    def store_factory(self, pooled_url: str) -> StoreFactory:
        return lambda: open_store(pooled_url)


class TestPooledJobs(
    CapsContract,
    EndListeningContract,
    FencingContract,
    IdempotencyContract,
    LeasingContract,
    WakingContract,
):
    @pytest.fixture
    def job_store_factory(self, pooled_url: str) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await PostgresStore.open(read_address(pooled_url))

        return open_empty
