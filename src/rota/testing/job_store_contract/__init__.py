"""What every store of jobs must do, as tests that any store can be put through.

Write a test class that inherits ``JobStoreContract`` and give it a fixture ``job_store_factory``:
an async callable without arguments that opens a store which is empty at the beginning of each
test::

    class TestMyJobs(JobStoreContract):
        @pytest.fixture
        def job_store_factory(self, tmp_path: Path) -> JobStoreFactory:
            return lambda: open_my_store(tmp_path / "store")

The tests need pytest with pytest-asyncio in its mode ``auto``.
"""

from rota.testing.job_store_contract.closing import ClosingContract
from rota.testing.job_store_contract.dependencies import DependenciesContract
from rota.testing.job_store_contract.editing import AmendingContract, RemovingContract
from rota.testing.job_store_contract.fencing import ExpiryContract, FencingContract
from rota.testing.job_store_contract.fixture import JobStoreFactory
from rota.testing.job_store_contract.idempotency import IdempotencyContract
from rota.testing.job_store_contract.insertion import InsertionContract, RefusalContract
from rota.testing.job_store_contract.leasing import (
    AgeingContract,
    CapsContract,
    LeasingContract,
    TurnsContract,
)
from rota.testing.job_store_contract.reading import (
    FindDependentsContract,
    ReadingContract,
    SurveyContract,
)
from rota.testing.job_store_contract.series import SeriesContract
from rota.testing.job_store_contract.waking import WakingContract

__all__ = ["JobStoreContract", "JobStoreFactory"]


class JobStoreContract(
    AgeingContract,
    AmendingContract,
    CapsContract,
    ClosingContract,
    DependenciesContract,
    ExpiryContract,
    FencingContract,
    FindDependentsContract,
    IdempotencyContract,
    InsertionContract,
    LeasingContract,
    ReadingContract,
    RefusalContract,
    RemovingContract,
    SeriesContract,
    SurveyContract,
    TurnsContract,
    WakingContract,
):
    """All promises of ``JobStore``."""
