"""Changing a job, duplicating it, and retrying it with other values."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import (
    AlreadyRetriedError,
    InvalidJobError,
    JobChangedError,
    JobEndedError,
    JobNotFoundError,
)
from rota.jobs import (
    Job,
    JobId,
    JobStatus,
    Recurrence,
    RetryPolicy,
    decide_complete,
    decide_fail,
    decide_lease,
)
from rota.ops.edits import duplicate_job, edit_job, retry_edited
from rota.policy.audit import read_audit
from rota.rail import RailSettings
from rota.rail.jobs import RailContext
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def around(store: MemoryStore) -> RailContext:
    return RailContext(store, "default", VirtualClock(NOW), RailSettings(), lambda _: 7)


async def end(around: RailContext, job: Job, *, error: str | None = None) -> Job:
    """Store the job, if it is not stored, and have it run once: completed, or failed for good."""
    (inserted,) = await around.store.insert([job], NOW)
    (leased,) = await around.store.apply([decide_lease(inserted.job, "w", HOUR, NOW)], NOW)
    assert leased.job is not None
    failed = None if error is None else decide_fail(leased.job, error, NOW)
    (ended,) = await around.store.apply([failed or decide_complete(leased.job, NOW)], NOW)
    assert ended.job is not None
    return ended.job


async def die(around: RailContext, **fields: object) -> Job:
    job = a_job(retry_policy=RetryPolicy(max_attempts=1), **fields)
    return await end(around, job, error="boom")


async def list_actions(around: RailContext) -> list[tuple[str, str, tuple[JobId, ...], object]]:
    return [
        (it.action, it.who, it.job_ids, it.details.get("fields"))
        async for it in read_audit(around.store, "default")
    ]


async def test_an_edit_changes_the_job_and_is_recorded(around: RailContext) -> None:
    job = a_job(payload={"order": 1})
    await around.store.insert([job], NOW)
    changes = {"payload": {"order": 7}, "priority": 9, "updated_at": job.updated_at.isoformat()}
    edited = await edit_job(around, job.id, changes, who="anna", why="typo")
    assert (edited.id, edited.payload, edited.priority) == (job.id, {"order": 7}, 9)
    assert await list_actions(around) == [("edit", "anna", (job.id,), ["payload", "priority"])]


async def test_an_edit_that_is_refused_is_not_recorded(around: RailContext) -> None:
    live, ended = a_job(), await die(around)
    await around.store.insert([live], NOW)
    with pytest.raises(InvalidJobError, match="priority"):
        await edit_job(around, live.id, {"priority": 11})
    with pytest.raises(JobChangedError):
        await edit_job(around, live.id, {"updated_at": "2020-01-01T00:00:00Z"})
    with pytest.raises(JobEndedError):
        await edit_job(around, ended.id, {"priority": 1})
    with pytest.raises(JobNotFoundError):
        await edit_job(around, UNKNOWN, {})
    assert await list_actions(around) == []


async def test_a_duplicate_is_a_new_job_with_the_same_values_and_the_changes(
    around: RailContext,
) -> None:
    first = await end(around, a_job())
    rule = Recurrence(interval="1h", start=NOW)
    job = a_job(
        payload={"order": 1},
        priority=8,
        dependencies=[first.id],
        idempotency_key="once",
        recurrence=rule,
        label="v2",
    )
    await end(around, job)
    copy = await duplicate_job(around, job.id, {"queue": "slow"}, who="anna")
    assert copy.id not in {job.id, first.id}
    assert (copy.payload, copy.priority, copy.label) == ({"order": 1}, 8, "v2")
    assert (copy.queue, copy.status, copy.due_at) == ("slow", JobStatus.READY, NOW)
    assert (copy.dependencies, copy.idempotency_key, copy.recurrence) == ((first.id,), None, None)
    assert await list_actions(around) == [("duplicate", "anna", (job.id, copy.id), ["queue"])]


@pytest.mark.parametrize("field", ["kind", "dependencies", "status"])
async def test_a_copy_refuses_changes_that_make_it_another_job(
    around: RailContext, field: str
) -> None:
    job = await die(around)
    for act in (duplicate_job, retry_edited):
        with pytest.raises(InvalidJobError, match=field):
            await act(around, job.id, {field: "x"})


async def test_a_retry_with_changes_replaces_the_dead_job(around: RailContext) -> None:
    job = await die(around, payload={"order": 1}, kind="charge")
    blocked = a_job(dependencies=[job.id])
    await around.store.insert([blocked], NOW)
    changes = {"payload": {"order": 7}, "due_at": NOW + timedelta(hours=1)}
    retried = await retry_edited(around, job.id, changes, cascade=True, who="anna")
    found = await around.store.get("default", list(retried.replacements.values()))
    new = found[retried.replacements[job.id]]
    assert (new.replaces, new.kind, new.payload) == (job.id, "charge", {"order": 7})
    assert new.due_at == NOW + timedelta(hours=1)
    assert found[retried.replacements[blocked.id]].dependencies == (new.id,)
    ((action, _, job_ids, fields),) = await list_actions(around)
    assert (action, job_ids, fields) == ("retry", (job.id, blocked.id), ["due_at", "payload"])


async def test_a_job_that_was_retried_is_not_retried_with_other_values(around: RailContext) -> None:
    job = await die(around, payload={"order": 1})
    first = await retry_edited(around, job.id, {"priority": 9})
    with pytest.raises(AlreadyRetriedError, match=first.replacements[job.id]):
        await retry_edited(around, job.id, {"payload": {"order": 7}})
    assert len(await list_actions(around)) == 1
