"""The contract suite can fail: each of these stores breaks one promise and is found out."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from rota.errors import DuplicateJobError
from rota.jobs import Change, Job, JobFilter, JobId, JobStatus, Page, order_jobs
from rota.stores.kernel.unit import Ended, Waiting
from rota.stores.memory import MemoryStore
from rota.stores.memory.tables import JobTables
from rota.stores.protocol import Applied, EndedPlace, HeldLease, Inserted, LeaseRequest, QueueDepth
from rota.stores.wakeups import Place, Wakeups
from rota.testing.job_store_contract import JobStoreContract


class LeasesTwice(MemoryStore):
    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        ready = [job for job in self._tables.jobs.values() if job.status is JobStatus.READY]
        await super().lease(replace(request, limit=1), now)
        return ready[: request.limit]


class LetsTheFirstTenantGoFirst(MemoryStore):
    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        leased: list[Job] = []
        for tenant in sorted({job.tenant for job in self._tables.jobs.values()}):
            if len(leased) < request.limit:
                rest = replace(request, tenants=[tenant], limit=request.limit - len(leased))
                leased += await super().lease(rest, now)
        return leased


class LeasesTheLastFirst(MemoryStore):
    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        return order_jobs(await super().lease(request, now))[::-1]


class SettlesForAnybody(MemoryStore):
    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        current = self._tables.jobs
        fresh = [
            replace(change, expected_token=current[change.job_id].last_token)
            if change.job_id in current
            else change
            for change in changes
        ]
        return await super().apply(fresh, now)


class FindsNoWaitingJobs(JobTables):
    def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:  # noqa: ARG002 - the tables'
        return []


class ForgetsDependents(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._tables = FindsNoWaitingJobs()


class FindsOnlyChildren(JobTables):
    def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:  # noqa: ARG002 - the tables'
        return super().read_waiting(parents, is_deep=False)


class BlocksOnlyChildren(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._tables = FindsOnlyChildren()


class TakesAnyPayload(MemoryStore):
    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        answers: list[Inserted] = []
        for job in jobs:
            try:
                answers += await super().insert([job], now)
            except DuplicateJobError as error:
                answers.append(Inserted(self._tables.jobs[error.job_id], is_existing=True))
        return answers


class InsertsOneByOne(MemoryStore):
    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        answers: list[Inserted] = []
        for job in jobs:
            answers += await super().insert([job], now)
        return answers


class DoublesSuccessors(MemoryStore):
    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        answers = await super().apply(changes, now)
        for change in changes:
            if change.successor is not None:
                self._tables.put(change.successor)
        return [
            replace(answer, successor=change.successor)
            for answer, change in zip(answers, changes, strict=True)
        ]


class ExtendsAnything(MemoryStore):
    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        await super().extend(held, until, now)
        return [True for _ in held]


class FindsTheFirstPageOnly(MemoryStore):
    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        return [] if after else await super().find_expired(now, limit)


class CountsOnlyWhoStandsInLine(MemoryStore):
    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        earlier = min((job.updated_at for job in self._tables.jobs.values()), default=now)
        return await super().survey(min(now, earlier), tenant)


class CountsAllThatFailedAsDead(MemoryStore):
    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        failed = sum(job.status is JobStatus.FAILED for job in self._tables.jobs.values())
        return [replace(depth, dead_count=failed) for depth in await super().survey(now, tenant)]


class IgnoresTheTenant(MemoryStore):
    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        owner = (wanted and wanted.tenant) or tenant
        return await super().find(owner, wanted, cursor, limit)


class AmendsAlone(MemoryStore):
    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        amended = await super().amend(tenant, job_id, {}, now)
        amended = replace(amended, **fields)
        self._tables.jobs[job_id] = amended
        return amended


class FindsEndedParents(JobTables):
    def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:  # noqa: ARG002 - the tables'
        return [
            Ended(job.updated_at, job.id) for job in self.jobs.values() if job.status.is_terminal
        ]


class PrunesParents(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._tables = FindsEndedParents()


class SilentWakeups(Wakeups):
    def ring_at(self, places: Iterable[Place]) -> None:
        """No listener is notified."""


class NeverRings(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._wakeups = SilentWakeups()


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (LeasesTwice, "test_a_lease_goes_to_one_holder"),
        (LetsTheFirstTenantGoFirst, "test_tenants_take_turns"),
        (LetsTheFirstTenantGoFirst, "test_with_more_tenants_than_places_each_has_its_turn"),
        (LeasesTheLastFirst, "test_jobs_come_in_order"),
        (SettlesForAnybody, "test_a_stale_settle_writes_nothing_and_is_reported"),
        (ForgetsDependents, "test_dependents_are_released_exactly_once_when_parents_race"),
        (ForgetsDependents, "test_failure_blocks_all_pending_descendants"),
        (BlocksOnlyChildren, "test_failure_blocks_all_pending_descendants"),
        (TakesAnyPayload, "test_the_same_key_with_a_different_payload_is_refused"),
        (InsertsOneByOne, "test_an_unknown_dependency_refuses_the_whole_call"),
        (DoublesSuccessors, "test_a_successor_that_exists_is_left_alone"),
        (DoublesSuccessors, "test_a_successor_whose_key_exists_is_left_alone"),
        (ExtendsAnything, "test_a_lost_lease_cannot_be_extended"),
        (FindsTheFirstPageOnly, "test_a_sweep_meets_every_lease_that_ran_out_once"),
        (CountsOnlyWhoStandsInLine, "test_jobs_that_came_due_are_marked_before_a_lease"),
        (CountsOnlyWhoStandsInLine, "test_running_jobs_are_counted_and_stalled_ones_again"),
        (CountsAllThatFailedAsDead, "test_dead_letters_are_counted_apart_from_discarded_jobs"),
        (IgnoresTheTenant, "test_other_tenants_jobs_do_not_exist"),
        (AmendsAlone, "test_an_amended_job_comes_in_its_new_place"),
        (PrunesParents, "test_a_job_others_depend_on_is_not_pruned"),
    ],
)
async def test_a_broken_store_is_found_out(broken: type[MemoryStore], promise: str) -> None:
    await getattr(JobStoreContract(), promise)(MemoryStore())
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await getattr(JobStoreContract(), promise)(broken())


async def test_a_store_that_never_rings_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.testing.job_lease_contract.SOON", 0.01)
    with pytest.raises(AssertionError, match="no listener was woken"):
        await JobStoreContract().test_an_insert_wakes_a_listener(NeverRings())
