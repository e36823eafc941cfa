"""The contract of a job store, as tests.

Write a test class that inherits ``JobStoreContract`` and has a fixture ``job_store_factory``: an
async callable without arguments that opens a store. The store is empty at the start of each test::

    class TestMyJobs(JobStoreContract):
        @pytest.fixture
        def job_store_factory(self, tmp_path: Path) -> JobStoreFactory:
            return lambda: open_my_store(tmp_path / "store")

The tests need pytest, and pytest-asyncio in its mode ``auto``.
"""

from rota.testing.job_choice_contract import ChoiceContract
from rota.testing.job_insertion_contract import (
    DependenciesContract,
    IdempotencyContract,
    InsertionContract,
    OverlapContract,
    RefusalContract,
    RuleChangeContract,
    SeriesContract,
)
from rota.testing.job_lease_contract import (
    AgeingContract,
    CapsContract,
    ExpiryContract,
    FencingContract,
    LeasingContract,
    TurnsContract,
    WakingContract,
)
from rota.testing.job_record_contract import (
    AmendingContract,
    ClosingContract,
    FindDependentsContract,
    ReadingContract,
    RemovingContract,
    SurveyContract,
)
from rota.testing.job_store_fixture import JobStoreFactory

__all__ = ["JobStoreContract", "JobStoreFactory"]


class JobStoreContract(
    AgeingContract,
    AmendingContract,
    CapsContract,
    ChoiceContract,
    ClosingContract,
    DependenciesContract,
    ExpiryContract,
    FencingContract,
    FindDependentsContract,
    IdempotencyContract,
    InsertionContract,
    LeasingContract,
    OverlapContract,
    ReadingContract,
    RefusalContract,
    RemovingContract,
    RuleChangeContract,
    SeriesContract,
    SurveyContract,
    TurnsContract,
    WakingContract,
):
    """All promises of ``JobStore``."""
