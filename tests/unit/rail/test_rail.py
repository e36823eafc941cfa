"""Scheduling, looking at and looking after a tenant's jobs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.rail.driving import end, run_due, take

from rota.errors import (
    DuplicateJobError,
    IllegalMoveError,
    InvalidInputError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    UnsupportedConnectionError,
)
from rota.jobs import PAUSED_UNTIL, Failed, JobId, JobStatus, RetryPolicy
from rota.rail import Rail, RailSettings, read_audit
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Inserted
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


async def hourly(rail: Rail, **fields: Any) -> JobId:
    return await rail.schedule_recurring("tick", {}, interval="1h", **fields)


async def actions(store: MemoryStore) -> list[str]:
    return [entry.action async for entry in read_audit(store, "guild-7")]


async def test_a_job_is_scheduled_once_and_its_id_returned(rail: Rail, store: MemoryStore) -> None:
    job_id = await rail.schedule_once("reminder.send", {"event": 1}, run_at=NOW + HOUR)
    job = await rail.get(job_id)
    assert (job.tenant, job.kind, job.payload) == ("guild-7", "reminder.send", {"event": 1})
    assert (job.priority, job.attempts, job.state, job.run_at) == (3, 0, "queued", NOW + HOUR)
    assert await take(store, NOW) == []
    (leased,) = await take(store, NOW + HOUR)
    assert (leased.id, leased.priority, leased.retry_policy.max_attempts) == (job_id, 6, 5)


async def test_a_series_begins_at_its_first_occurrence_from_the_start_on(rail: Rail) -> None:
    rule = "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
    job_id = await rail.schedule_recurring("digest.send", {}, rrule=rule, tz="Europe/London")
    job = await rail.get(job_id)
    assert job.run_at == datetime(2026, 5, 4, 8, tzinfo=UTC)
    assert job.run_at_bucket == f"digest.send:{rule}:2026-05-04T08:00:00.000000Z"
    assert job.idempotency_key == job_id
    assert job.series is not None
    assert (job.series.tz, job.series.origin_job_id) == ("Europe/London", job_id)


@pytest.mark.parametrize("start", [NOW + DAY, (NOW + DAY).isoformat(), (NOW + DAY).timestamp()])
async def test_a_series_may_start_later(rail: Rail, start: Any) -> None:
    job_id = await hourly(rail, start_from=start)
    assert (await rail.get(job_id)).run_at == NOW + DAY


async def test_two_series_with_one_rule_do_not_swallow_each_other(rail: Rail) -> None:
    first, second = await hourly(rail), await hourly(rail)
    assert first != second


async def test_a_call_repeated_with_its_key_is_one_job(rail: Rail) -> None:
    first = await hourly(rail, idempotency_key="k")
    assert await hourly(rail, idempotency_key="k") == first
    once = await rail.schedule_once("a", {"x": 1}, run_at=NOW, idempotency_key="k")
    again = await rail.schedule_once("a", {"x": 1}, run_at=NOW + HOUR, idempotency_key="k")
    assert once == again
    with pytest.raises(DuplicateJobError):
        await rail.schedule_once("a", {"x": 2}, run_at=NOW, idempotency_key="k")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": ""}, "kind"),
        ({"kind": "no spaces"}, "kind"),
        ({"payload": {"x": float("nan")}}, "payload"),
        ({"payload": {"x": "\0"}}, "payload"),
        ({"payload": {"x": "y" * 65_536}}, "payload"),
        ({"payload": "text"}, "payload"),
        ({"run_at": NOW.replace(tzinfo=None)}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"priority": 6}, "priority"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"queue": "no spaces"}, "queue"),
        ({"retry_policy": {"max_attempts": 0}}, "retry_policy.max_attempts"),
    ],
)
async def test_a_job_that_cannot_be_is_refused_by_its_field(
    rail: Rail, store: MemoryStore, fields: dict[str, Any], field: str
) -> None:
    asked: dict[str, Any] = {"kind": "a", "payload": {}, "run_at": NOW} | fields
    with pytest.raises(InvalidJobError) as refusal:
        await rail.schedule_once(**asked)
    assert refusal.value.field == field
    assert await store.count("guild-7") == 0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"rrule": "FREQ=NEVER", "tz": "UTC"}, "rrule"),
        ({"cron": "61 * * * *", "tz": "UTC"}, "cron"),
        ({"interval": "soon"}, "interval"),
        ({"interval": "1h", "tz": "Mars/Olympus"}, "tz"),
        ({"interval": "1h", "start_from": "soon"}, "start_from"),
        ({"interval": "1h", "until": NOW - HOUR}, "interval"),
        ({"interval": "1h", "count": 0}, "count"),
        ({"interval": "1h", "overlap": "pile"}, "overlap"),
        ({"interval": "1h", "gap": "jump"}, "gap"),
        ({}, "rrule"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_by_its_field(
    rail: Rail, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidJobError) as refusal:
        await rail.schedule_recurring("a", {}, **fields)
    assert refusal.value.field == field
    with pytest.raises(InvalidJobError) as refusal:
        await rail.preview(**fields)
    assert refusal.value.field == field


@pytest.mark.parametrize("tenant", ["", "a b", None, 5, "x" * 201])
def test_a_tenant_that_cannot_be_is_refused(store: MemoryStore, tenant: Any) -> None:
    with pytest.raises(InvalidJobError, match=r"^tenant "):
        Rail(store, tenant)


async def test_a_rail_does_not_see_another_tenants_jobs(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail)
    other = Rail(store, "guild-8", clock=clock)
    verbs = (other.get, other.cancel, other.run_now, other.pause, other.resume, other.preview)
    for verb in verbs:
        with pytest.raises(JobNotFoundError):
            await verb(job_id)
    with pytest.raises(JobNotFoundError):
        await other.reschedule(job_id, NOW)
    assert (await other.list()).items == ()
    assert [entry async for entry in read_audit(store, "guild-8")] == []


async def test_retries_are_tuned_by_settings_or_for_one_job(
    store: MemoryStore, clock: VirtualClock
) -> None:
    settings = RailSettings(queue="mail", retry_policy=RetryPolicy(max_attempts=2))
    rail = Rail(store, clock=clock, settings=settings)
    await rail.schedule_once("a", {}, run_at=NOW)
    await rail.schedule_once("a", {}, run_at=NOW, retry_policy=RetryPolicy(max_attempts=9))
    taken = await take(store, NOW)
    assert sorted(job.retry_policy.max_attempts for job in taken) == [2, 9]
    assert {(job.tenant, job.queue) for job in taken} == {("default", "mail")}


async def test_a_job_can_be_part_of_the_callers_own_transaction(clock: VirtualClock) -> None:
    class Joining(MemoryStore):
        async def insert_within(self, connection: Any, jobs: Any, now: datetime) -> list[Inserted]:
            assert connection == "a connection"
            return await self.insert(jobs, now)

    async with Joining() as store:
        rail = Rail(store, clock=clock)
        await rail.schedule_once("a", {}, run_at=NOW, within="a connection")
        await rail.schedule_recurring("a", {}, interval="1h", within="a connection")
        assert await store.count("default") == 2


async def test_a_store_that_shares_no_transactions_says_so(rail: Rail) -> None:
    with pytest.raises(UnsupportedConnectionError):
        await rail.schedule_once("a", {}, run_at=NOW, within=object())


async def test_a_missing_job_is_not_found(rail: Rail) -> None:
    with pytest.raises(JobNotFoundError):
        await rail.get(NOBODY)
    with pytest.raises(InvalidJobError, match=r"^job_id must be a UUID"):
        await rail.get("nonsense")


async def test_a_cancelled_job_does_not_run_and_cannot_be_cancelled_again(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW)
    cancelled = await rail.cancel(job_id, who="ada", why="not needed")
    assert (cancelled.state, cancelled.last_error) == ("failed", "cancelled by ada: not needed")
    assert await take(store, NOW) == []
    with pytest.raises(JobEndedError):
        await rail.cancel(job_id)
    assert await actions(store) == ["cancel"]


async def test_a_series_can_be_cancelled_by_its_old_first_job(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await hourly(rail)
    for hours in range(3):
        assert len(await run_due(store, NOW + hours * HOUR)) == 1
    await rail.cancel(job_id)
    assert await take(store, NOW + DAY) == []
    with pytest.raises(JobEndedError):
        await rail.cancel(job_id)


async def test_a_series_is_found_by_its_first_job_when_that_is_gone(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail)
    await run_due(store, NOW)
    await store.prune(NOW + HOUR, 10)
    with pytest.raises(JobNotFoundError):
        await rail.get(job_id)
    moved = await rail.reschedule(job_id, NOW + 5 * HOUR)
    assert moved.series is not None
    assert (moved.series.origin_job_id, moved.series.scheduled_for) == (job_id, NOW + HOUR)
    assert clock.now() == NOW


async def test_one_occurrence_can_be_cancelled_alone(rail: Rail, store: MemoryStore) -> None:
    job_id = await hourly(rail)
    await rail.cancel(job_id, ends_series=False)
    assert await take(store, NOW) == []
    (following,) = await take(store, NOW + HOUR)
    assert following.occurrence_at == NOW + HOUR


async def test_a_running_job_is_cancelled_and_its_worker_cannot_settle(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW)
    (leased,) = await take(store, NOW)
    await rail.cancel(job_id)
    assert (await end(store, leased, NOW)).is_stale


async def test_a_job_that_waits_can_be_moved_and_run_at_once(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW + DAY)
    assert (await rail.reschedule(job_id, NOW + HOUR)).run_at == NOW + HOUR
    await clock.advance(timedelta(seconds=1))
    assert (await rail.run_now(job_id, why="now, please")).run_at == clock.now()
    await clock.advance(timedelta(seconds=1))
    assert [job.id for job in await take(store, clock.now())] == [job_id]
    for move in (rail.run_now(job_id), rail.reschedule(job_id, NOW)):
        with pytest.raises(IllegalMoveError):
            await move
    entries = [entry async for entry in read_audit(store, "guild-7")]
    assert [entry.action for entry in entries][:2] == ["reschedule", "run_now"]
    assert (entries[1].why, entries[1].job_ids, entries[1].who) == (
        "now, please",
        (job_id,),
        "unknown",
    )


async def test_an_occurrence_run_early_does_not_move_its_series(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR)
    await rail.run_now(job_id)
    assert len(await run_due(store, NOW)) == 1
    assert [job.occurrence_at for job in await take(store, NOW + 2 * HOUR)] == [NOW + 2 * HOUR]


async def test_a_paused_series_waits_and_goes_on_with_its_next_occurrence(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR)
    paused = await rail.pause(job_id, who="ada")
    assert paused.series is not None
    assert paused.series.is_paused
    await clock.advance(5.5 * HOUR)
    assert await take(store, clock.now()) == []
    resumed = await rail.resume(job_id)
    assert resumed.run_at == NOW + 6 * HOUR
    assert await run_due(store, clock.now()) == []
    assert len(await run_due(store, NOW + 6 * HOUR)) == 1
    assert await actions(store) == ["pause", "resume"]


async def test_a_series_resumed_in_time_has_missed_nothing(rail: Rail, store: MemoryStore) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR)
    await rail.pause(job_id)
    await rail.pause(job_id)
    assert (await rail.resume(job_id)).run_at == NOW + HOUR
    assert (await rail.resume(job_id)).run_at == NOW + HOUR
    assert len(await run_due(store, NOW + HOUR)) == 1


async def test_a_series_can_catch_up_when_it_is_resumed(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR)
    await rail.pause(job_id)
    await clock.advance(5.5 * HOUR)
    await rail.resume(job_id, catch_up=True)
    (job,) = await run_due(store, clock.now())
    assert job.occurrence_at == NOW + HOUR


async def test_a_series_paused_during_a_run_waits_after_it(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail)
    (leased,) = await take(store, NOW)
    await rail.pause(job_id)
    applied = await end(store, leased, NOW)
    assert applied.successor is not None
    assert applied.successor.due_at == PAUSED_UNTIL
    await clock.advance(HOUR / 2)
    assert (await rail.resume(job_id)).run_at == NOW + HOUR


async def test_a_pause_lets_retries_go_on_and_resuming_during_a_run_is_enough(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await hourly(rail)
    await run_due(store, NOW, Failed("boom"))
    retried = await rail.pause(job_id)
    assert retried.run_at < NOW + HOUR
    (leased,) = await take(store, NOW + 2 * HOUR)
    await rail.resume(job_id)
    applied = await end(store, leased, NOW + 2 * HOUR)
    assert applied.successor is not None
    assert applied.successor.due_at == NOW + 3 * HOUR


async def test_a_resume_that_was_cut_short_can_be_repeated(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR)
    await rail.pause(job_id)
    await clock.advance(2.5 * HOUR)
    await store.amend("guild-7", job_id, {"is_paused": False}, NOW)
    assert (await rail.resume(job_id)).run_at == NOW + 3 * HOUR


async def test_a_series_that_ended_while_it_was_paused_is_over(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail, start_from=NOW + HOUR, count=2)
    await rail.pause(job_id)
    await clock.advance(DAY)
    assert (await rail.resume(job_id)).state == "failed"
    assert await take(store, clock.now()) == []


async def test_only_a_series_can_be_paused_resumed_or_previewed(rail: Rail) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW)
    for verb in (rail.pause, rail.resume, rail.preview):
        with pytest.raises(InvalidJobError, match="does not recur"):
            await verb(job_id)


async def test_all_live_overlapping_occurrences_are_paused_and_cancelled(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await hourly(rail, overlap="allow")
    (leased,) = await take(store, NOW)
    beside = replace(
        leased, id=NOBODY, lease=None, status=JobStatus.READY, occurrence_at=NOW + HOUR,
        occurrence="next", due_at=NOW + HOUR,
    )  # fmt: skip
    await store.insert([beside], NOW)
    await rail.pause(job_id)
    jobs = await store.get("guild-7", [job_id, NOBODY])
    assert [job.is_paused for job in jobs.values()] == [True, True]
    await rail.cancel(NOBODY, ends_series=False)
    assert (await rail.get(job_id)).state == "processing"
    await rail.cancel(job_id)
    assert (await rail.get(job_id)).state == "failed"


async def test_acts_need_a_name_and_a_reason_of_sensible_length(
    rail: Rail, store: MemoryStore
) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW)
    with pytest.raises(InvalidInputError, match=r"^who "):
        await rail.cancel(job_id, who="")
    with pytest.raises(InvalidInputError, match=r"^why "):
        await rail.cancel(job_id, why="x" * 2001)
    assert (await rail.get(job_id)).state == "queued"
    assert await actions(store) == []
