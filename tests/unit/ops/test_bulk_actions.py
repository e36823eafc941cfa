"""Many jobs at once: planned, shown, done, and told."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest

from rota.errors import NotFoundError, StoreUnavailableError
from rota.jobs import (
    Ending,
    Job,
    JobFilter,
    JobId,
    JobState,
    JobStatus,
    Recurrence,
    RetryPolicy,
    decide_fail,
)
from rota.ops import bulk
from rota.ops.bulk import carry_out, plan_bulk, plan_for
from rota.policy.audit import read_audit
from rota.rail.jobs import RailContext
from rota.search.query import JobQuery
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MAIL = JobQuery(wanted=JobFilter(queue="mail"))


async def statuses(store: MemoryStore, *jobs: Job) -> list[JobStatus]:
    found = await store.get("default", [job.id for job in jobs])
    return [found[job.id].status for job in jobs]


async def test_a_plan_shows_what_would_be_done_and_does_nothing(
    around: RailContext, store: MemoryStore
) -> None:
    jobs = [a_job(queue="mail") for _ in range(15)]
    await store.insert([*jobs, a_job(queue="other"), a_job(queue="mail", tenant="other")], NOW)
    plan = await plan_bulk(around, "cancel", MAIL)
    assert (plan.count, len(plan.sample), plan.has_more) == (15, 10, False)
    assert set(plan.job_ids) == {job.id for job in jobs}
    assert set(await statuses(store, *jobs)) == {JobStatus.READY}
    assert [entry async for entry in read_audit(store, "default")] == []


async def test_an_action_changes_exactly_the_jobs_of_its_plan(
    around: RailContext, store: MemoryStore
) -> None:
    planned, later = [a_job(queue="mail") for _ in range(3)], a_job(queue="mail")
    await store.insert(planned, NOW)
    plan = await plan_bulk(around, "cancel", MAIL)
    await store.insert([later], NOW)
    report = await carry_out(around, plan.id, who="ada", why="a mistake")
    assert (report.done_count, report.skipped_count) == (3, 0)
    assert set(await statuses(store, *planned)) == {JobStatus.FAILED}
    assert await statuses(store, later) == [JobStatus.READY]
    cancelled = (await store.get("default", [planned[0].id]))[planned[0].id]
    assert (cancelled.ending, cancelled.last_error) == (
        Ending.CANCELLED,
        "cancelled by ada: a mistake",
    )
    (entry,) = [entry async for entry in read_audit(store, "default")]
    assert (entry.action, entry.who, entry.why) == ("bulk_cancel", "ada", "a mistake")
    assert set(entry.job_ids) == {job.id for job in planned}


async def test_an_action_is_audited_before_it_is_carried_out(
    around: RailContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(queue="mail")
    await store.insert([job], NOW)
    plan = await plan_bulk(around, "cancel", MAIL)

    async def fail(*_: object) -> NoReturn:
        raise StoreUnavailableError("it is gone")

    monkeypatch.setattr(store, "apply", fail)
    with pytest.raises(StoreUnavailableError):
        await carry_out(around, plan.id, who="ada")
    (entry,) = [entry async for entry in read_audit(store, "default")]
    assert (entry.action, entry.job_ids) == ("bulk_cancel", (job.id,))


async def test_a_plan_is_carried_out_once_in_its_time_and_by_its_tenant(
    around: RailContext, clock: VirtualClock
) -> None:
    plan = await plan_bulk(around, "delete", MAIL)
    with pytest.raises(NotFoundError):
        await carry_out(around._replace(tenant="other"), plan.id, who="ada")
    await carry_out(around, plan.id, who="ada")
    with pytest.raises(NotFoundError):
        await carry_out(around, plan.id, who="ada")
    plan = await plan_bulk(around, "delete", MAIL)
    await clock.advance(bulk.KEPT_FOR)
    with pytest.raises(NotFoundError):
        await carry_out(around, plan.id, who="ada")


async def test_old_plans_are_swept(
    around: RailContext, store: MemoryStore, clock: VirtualClock
) -> None:
    await plan_bulk(around, "delete", MAIL)
    await clock.advance(HOUR)
    await plan_bulk(around, "delete", MAIL)
    kept = [document async for page in store.scan(bulk.PLANS) for document in page]
    assert len(kept) == 1


async def test_a_job_that_changed_meanwhile_is_skipped_and_reported(
    around: RailContext, store: MemoryStore
) -> None:
    ended, gone, live = (a_job(queue="mail") for _ in range(3))
    await store.insert([ended, gone, live], NOW)
    plan = await plan_bulk(around, "cancel", MAIL)
    await store.delete("default", gone.id)
    first = await plan_bulk(around, "cancel", JobQuery(text=ended.id))
    await carry_out(around, first.id, who="bob")
    report = await carry_out(around, plan.id, who="ada")
    assert (report.done_count, report.skipped_count) == (1, 2)
    assert {each.job_id: each.reason for each in report.skipped} == {
        ended.id: bulk.MOVED_ON,
        gone.id: bulk.GONE,
    }


class ShuffledStore(MemoryStore):
    """A store that answers in another order than it is asked."""

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        found = await super().get(tenant, job_ids)
        return dict(reversed(found.items()))


async def test_jobs_are_cancelled_in_the_order_of_the_plan_so_that_dependents_are_not_blocked(
    around: RailContext,
) -> None:
    first = a_job(queue="mail")
    second = a_job(queue="mail", dependencies=[first.id])
    third = a_job(queue="mail", dependencies=[second.id])
    async with ShuffledStore() as store:
        around = around._replace(store=store)
        await store.insert([first, second, third], NOW)
        plan = await plan_for(around, "cancel", [third.id, second.id, first.id])
        report = await carry_out(around, plan.id, who="ada")
        found = await store.get("default", plan.job_ids)
    assert (report.done_count, report.skipped_count) == (3, 0)
    assert {job.ending for job in found.values()} == {Ending.CANCELLED}


async def test_only_those_are_planned_for_whom_it_makes_sense(
    around: RailContext, store: MemoryStore
) -> None:
    dead = a_job(queue="mail", due_at=NOW, retry_policy=RetryPolicy(max_attempts=1))
    later, due = a_job(queue="mail", due_at=NOW + HOUR), a_job(queue="mail", due_at=NOW + HOUR)
    await store.insert([dead], NOW)
    request = LeaseRequest(worker="w", limit=1, lease_for=HOUR)
    (leased,) = await store.lease(request, NOW)
    await store.apply([decide_fail(leased, "no", NOW)], NOW)
    await store.insert([later, due], NOW)
    for action, ids in (
        ("cancel", {later.id, due.id}),
        ("retry", {dead.id}),
        ("run_now", {later.id, due.id}),
        ("delete", {dead.id, later.id, due.id}),
    ):
        plan = await plan_bulk(around, action, MAIL)  # type: ignore[arg-type] # each is one
        assert set(plan.job_ids) == ids
        assert plan.passed_over_count == 3 - len(ids)


async def test_retrying_makes_new_jobs_and_running_now_makes_them_due(
    around: RailContext, store: MemoryStore
) -> None:
    dead = a_job(queue="mail", due_at=NOW, retry_policy=RetryPolicy(max_attempts=1))
    await store.insert([dead], NOW)
    (leased,) = await store.lease(LeaseRequest(worker="w", limit=1, lease_for=HOUR), NOW)
    await store.apply([decide_fail(leased, "no", NOW)], NOW)
    plan = await plan_bulk(around, "retry", MAIL)
    assert (await carry_out(around, plan.id, who="ada")).done_count == 1
    found = (await store.find("default")).items
    assert [job.replaces for job in found if job.status is JobStatus.READY] == [dead.id]
    later = a_job(queue="later", due_at=NOW + HOUR)
    await store.insert([later], NOW)
    plan = await plan_bulk(around, "run_now", JobQuery(wanted=JobFilter(queue="later")))
    await carry_out(around, plan.id, who="ada")
    assert (await store.get("default", [later.id]))[later.id].due_at == NOW


async def test_dependents_are_deleted_in_any_order_and_needed_jobs_stay(
    around: RailContext, store: MemoryStore
) -> None:
    parent = a_job(queue="mail")
    child = a_job(queue="mail", dependencies=[parent.id])
    needed = a_job(queue="mail")
    outside = a_job(queue="other", dependencies=[needed.id])
    await store.insert([parent, child, needed, outside], NOW)
    plan = await plan_bulk(around, "delete", MAIL)
    report = await carry_out(around, plan.id, who="ada")
    assert (report.done_count, report.skipped_count) == (2, 1)
    assert [each.job_id for each in report.skipped] == [needed.id]
    assert set(await store.get("default", [parent.id, child.id, needed.id])) == {needed.id}


async def test_batches_are_bounded_and_each_is_in_the_audit_log(
    around: RailContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH_SIZE", 4)
    monkeypatch.setattr(bulk, "MOST_PLANNED", 10)
    await store.insert([a_job(queue="mail") for _ in range(11)], NOW)
    plan = await plan_bulk(around, "delete", MAIL)
    assert (plan.count, plan.has_more) == (10, True)
    await carry_out(around, plan.id, who="ada")
    sizes = [len(entry.job_ids) async for entry in read_audit(store, "default")]
    assert sorted(sizes) == [2, 4, 4]


async def test_cancelled_jobs_are_restored_with_what_they_blocked_and_once(
    around: RailContext, store: MemoryStore
) -> None:
    later = a_job(queue="mail", created_at=NOW, due_at=NOW + HOUR)
    child = a_job(queue="other", dependencies=[later.id])
    recurring = a_job(queue="mail", recurrence=Recurrence(cron="0 8 * * *", zone="UTC", start=NOW))
    await store.insert([later, child, recurring], NOW)
    plan = await plan_bulk(around, "cancel", MAIL)
    report = await carry_out(around, plan.id, who="anna")
    assert report.done_count == 2
    assert await statuses(store, later, child) == [JobStatus.FAILED, JobStatus.BLOCKED]
    assert report.undo_plan_id is not None
    undone = await carry_out(around, report.undo_plan_id, who="anna")
    assert (undone.action, undone.done_count) == ("restore", 1)
    page = await store.find("default", JobFilter(), None, 100)
    new = {job.replaces: job for job in page.items if job.replaces is not None}
    assert (new[later.id].status, new[later.id].due_at) == (JobStatus.READY, NOW + HOUR)
    assert new[child.id].dependencies == (new[later.id].id,)
    assert new[child.id].status is JobStatus.PENDING
    with pytest.raises(NotFoundError):
        await carry_out(around, report.undo_plan_id, who="anna")
    again = await plan_bulk(around, "restore", JobQuery())
    assert again.job_ids == (later.id,)
    await carry_out(around, again.id, who="anna")
    assert len((await store.find("default", JobFilter(), None, 100)).items) == len(page.items)


async def test_a_plan_for_chosen_jobs_counts_the_others_by_state(
    around: RailContext, store: MemoryStore
) -> None:
    jobs = [a_job(created_at=NOW), a_job(created_at=NOW, due_at=NOW + HOUR)]
    await store.insert(jobs, NOW)
    ids = [*(job.id for job in jobs), a_job().id]
    plan = await plan_for(around, "run_now", ids)
    assert plan.job_ids == (jobs[1].id,)
    assert (plan.passed_over, plan.passed_over_count) == ({JobState.DUE: 1}, 1)
