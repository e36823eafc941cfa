"""The comparison of stores can fail, and does not when two are the same."""

from collections.abc import Sequence
from datetime import datetime

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.contract.jobs.agreement import JobStoresAgree, thoroughness

from rota.jobs import Change, Job
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Applied, JobStore, LeaseRequest

TestMemoryAgrees = JobStoresAgree.TestCase
TestMemoryAgrees.settings = thoroughness(12)


class ForgetfulStore(MemoryStore):
    """Forgets the attempts of what it settles."""

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        applied = await super().apply(changes, now)
        for change in changes:
            self._tables.attempts.pop(change.job_id, None)
        return applied


class UnfairStore(MemoryStore):
    """Never lets tenants take turns."""

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        one_by_one = LeaseRequest(
            worker=request.worker,
            limit=request.limit,
            lease_for=request.lease_for,
            queues=request.queues,
            tenants=request.tenants,
        )
        return await super().lease(one_by_one, now)


@pytest.mark.parametrize("flawed", [ForgetfulStore, UnfairStore])
def test_a_store_that_answers_otherwise_is_found_out(flawed: type[MemoryStore]) -> None:
    class FlawedAgrees(JobStoresAgree):
        async def open_empty(self) -> JobStore:
            return flawed()

    to_the_first = settings(thoroughness(60), report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FlawedAgrees, settings=to_the_first)
