"""The SQLite store, put through the contract of all stores of jobs."""

from pathlib import Path

import pytest
from tests.contract.job_result_contract import JobResultContract

from rota.stores.protocol import JobStore
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.store import SqliteStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestSqliteJobs(JobResultContract, JobStoreContract):
    @pytest.fixture
    def job_store_factory(self, tmp_path: Path) -> JobStoreFactory:
        async def open_empty() -> JobStore:
            return await SqliteStore.open(SqliteSettings(tmp_path / "rota.db"))

        return open_empty
