"""``close``: a closed store does nothing, and says so."""

from collections.abc import Awaitable

import pytest

from rota.errors import StoreClosedError
from rota.stores.protocol import HeldLease, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import NOW, JobStoreFixture, take


class ClosingContract(JobStoreFixture):
    """Closed is closed."""

    async def test_a_closed_store_refuses_every_verb(self, jobs: JobStore) -> None:
        await jobs.close()
        job = a_job()
        calls: list[Awaitable[object]] = [
            jobs.insert([job], NOW),
            take(jobs),
            jobs.extend([HeldLease(job.id, 1)], NOW, NOW),
            jobs.apply([], NOW),
            jobs.find_expired(NOW, 1),
            jobs.next_due_at(NOW),
            jobs.survey(NOW),
            jobs.get("default", [job.id]),
            jobs.find("default"),
            jobs.count("default"),
            jobs.attempts("default", job.id),
            jobs.find_dependents("default", [job.id], 1),
            jobs.amend("default", job.id, {}, NOW),
            jobs.delete("default", job.id),
            jobs.prune(NOW, 1),
        ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                await call
        with pytest.raises(StoreClosedError):
            await jobs.listen().__aenter__()

    async def test_closing_twice_is_no_error(self, jobs: JobStore) -> None:
        await jobs.close()
        await jobs.close()
