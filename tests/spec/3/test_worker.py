"""The worker of specification 3: leases, heartbeats, retries, recovery, series, and its loop."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota import open_store
from rota.events import JobFailed, JobSettled, JobStalled, JobStarted, LeaseLost
from rota.jobs import RAIL_RETRIES, Job, JobStatus, Recurrence, rail_word
from rota.rail import Rail
from rota.stores.protocol import LeaseRequest
from rota.worker import Context, WorkerSettings

RARELY = WorkerSettings(poll_for=MINUTE)
"""For tests in which minutes pass: polling each second would take most of their time."""

LONDON_MONDAYS = "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Workshop]:
    """A workshop on every store."""
    async with await open_store(store_url) as store:
        made = Workshop(store)
        yield made
        await made.close()


async def add(shop: Workshop, **fields: Any) -> Job:
    return await shop.add(retry_policy=RAIL_RETRIES, **fields)


async def leave_holding(shop: Workshop) -> None:
    """A worker takes a job and is never heard of again."""
    request = LeaseRequest(worker="the dead", limit=1, lease_for=MINUTE)
    assert len(await shop.store.lease(request, shop.clock.now())) == 1


async def test_a_due_job_is_taken_with_a_lease_in_the_workers_name(shop: Workshop) -> None:
    seen: list[Job] = []

    async def look(context: Context) -> None:
        seen.extend((context.job, await shop.look(context.job)))

    shop.make_worker({"work": look})
    await add(shop)
    later = await add(shop, due_at=NOW + SECOND)
    await shop.clock.run(shop.worker.run_once())
    handed, stored = seen
    assert handed == stored
    assert handed.lease is not None
    assert rail_word(stored.status) == "processing"
    assert (handed.lease.worker, handed.lease.until) == (shop.worker.name, NOW + MINUTE)
    assert rail_word((await shop.look(later)).status) == "queued"


async def test_workers_beside_each_other_never_run_the_same_job(shop: Workshop) -> None:
    runs: list[str] = []

    async def note(context: Context) -> None:
        runs.append(context.job.id)
        await shop.clock.sleep(SECOND)

    jobs = [await add(shop) for _ in range(40)]
    for _ in range(4):
        shop.start(shop.make_worker({"work": note}, WorkerSettings(concurrency=3)))
    await shop.pass_time(MINUTE)
    assert sorted(runs) == [job.id for job in jobs]


async def test_a_stalled_job_is_queued_again_with_an_attempt_counted_and_a_delay(
    shop: Workshop,
) -> None:
    job = await add(shop)
    await leave_holding(shop)
    shop.make_worker({"work": succeed}, RARELY)
    shop.start()
    await shop.pass_time(MINUTE + 16 * SECOND)
    kept = await shop.look(job)
    (event,) = shop.told(JobStalled)
    assert (rail_word(kept.status), kept.attempt_count, event.state) == ("queued", 1, "queued")
    assert kept.due_at >= kept.updated_at + MINUTE
    await shop.pass_time(2 * MINUTE)
    assert rail_word((await shop.look(job)).status) == "done"


async def test_a_heartbeat_keeps_the_lease_until_another_worker_has_it(shop: Workshop) -> None:
    cancelled: list[bool] = []

    async def linger(context: Context) -> None:
        try:
            await shop.clock.sleep(10 * MINUTE)
        finally:
            cancelled.append(context.is_lost)

    shop.make_worker({"work": linger}, RARELY)
    job = await add(shop)
    shop.start()
    await shop.pass_time(5 * MINUTE)
    kept = await shop.look(job)
    assert kept.lease is not None
    assert kept.lease.until > shop.clock.now()
    await shop.store.delete(job.tenant, job.id)
    await shop.pass_time(6 * SECOND)
    assert cancelled == [True]
    assert [event.job_id for event in shop.told(LeaseLost)] == [job.id]


async def test_failures_are_retried_after_one_five_fifteen_and_sixty_minutes_and_then_dead(
    shop: Workshop,
) -> None:
    tried_at: list[datetime] = []

    async def fail(_: Context) -> None:
        tried_at.append(shop.clock.now())
        raise ValueError(f"try {len(tried_at)}")

    shop.make_worker({"work": fail}, RARELY)
    rail = Rail(shop.store, clock=shop.clock)
    job_id = await rail.schedule_once("work", {}, run_at=NOW)  # no policy: the defaults count
    (job,) = (await shop.store.get("default", [job_id])).values()
    shop.start()
    await shop.pass_time(timedelta(minutes=95))
    waited = [after - before for before, after in pairwise(tried_at)]
    assert len(tried_at) == 5
    for delay, minutes in zip(waited, (1, 5, 15, 60), strict=True):
        least = minutes * MINUTE
        assert least <= delay <= least + min(0.1 * least, 30 * SECOND) + SECOND
    kept = await shop.look(job)
    assert (rail_word(kept.status, kept.ending), kept.attempt_count) == ("dlq", 5)
    errors = [attempt.error for attempt in await shop.attempts(job)]
    assert errors == [f"ValueError: try {number}" for number in range(1, 6)]


async def test_the_end_of_an_occurrence_queues_the_next_one_in_its_zone(shop: Workshop) -> None:
    first_at = datetime(2026, 10, 19, 8, tzinfo=UTC)  # 09:00 in London, summer time
    await shop.pass_time(first_at - NOW)
    recurrence = Recurrence(rrule=LONDON_MONDAYS, zone="Europe/London", start=first_at)
    job = await add(
        shop, recurrence=recurrence, due_at=first_at, occurrence_at=first_at, idempotency_key="k"
    )
    shop.make_worker({"work": succeed})
    assert len(await shop.clock.run(shop.worker.run_once())) == 1
    page = await shop.store.find(job.tenant)
    (following,) = [it for it in page.items if it.status is JobStatus.READY]
    assert following.due_at == datetime(2026, 10, 26, 9, tzinfo=UTC)  # 09:00 again, winter time
    assert (following.origin, len(page.items)) == (job.id, 2)


async def test_a_dead_occurrence_does_not_end_the_series(shop: Workshop) -> None:
    recurrence = Recurrence(interval="1h", start=NOW)
    job = await shop.add("unknown", recurrence=recurrence, occurrence_at=NOW, due_at=NOW)
    settings = WorkerSettings(takes_any_kind=True, poll_for=MINUTE)
    shop.start(shop.make_worker({}, settings))
    await shop.pass_time(timedelta(minutes=10))
    page = await shop.store.find(job.tenant)
    assert {(it.status, it.due_at >= NOW + timedelta(hours=1)) for it in page.items} == {
        (JobStatus.FAILED, False),
        (JobStatus.READY, True),
    }


async def test_the_loop_leases_runs_settles_and_waits(shop: Workshop) -> None:
    async def fail(_: Context) -> None:
        raise ValueError("boom")

    settings = WorkerSettings(takes_any_kind=True)
    shop.make_worker({"good": succeed, "bad": fail}, settings)
    jobs = [await add(shop, kind=kind) for kind in ("good", "bad", "unknown")]
    shop.start()
    await shop.pass_time(SECOND)
    kept = [await shop.look(job) for job in jobs]
    assert [rail_word(job.status) for job in kept] == ["done", "queued", "queued"]
    assert [job.last_error for job in kept] == [
        None,
        "ValueError: boom",
        "No handler for type=unknown",
    ]
    more = await add(shop, kind="good")
    await shop.pass_time(SECOND)
    assert rail_word((await shop.look(more)).status) == "done"


async def test_a_new_kind_is_an_entry_in_the_registry(shop: Workshop) -> None:
    seen: list[tuple[str, object, datetime]] = []
    worker = shop.make_worker({})

    @worker.handler("reminder.send")
    async def send(context: Context) -> None:
        seen.append((context.tenant, context.payload, context.now))

    await add(shop, kind="reminder.send", tenant="guild-7", payload={"eventId": 3})
    await shop.clock.run(worker.run_once())
    assert seen == [("guild-7", {"eventId": 3}, NOW)]


async def test_events_carry_what_counters_and_logs_need(shop: Workshop) -> None:
    async def fail(_: Context) -> None:
        await shop.clock.sleep(2 * SECOND)
        raise ValueError("boom")

    shop.make_worker({"good": succeed, "bad": fail})
    good, bad = await add(shop, kind="good"), await add(shop, kind="bad")
    await shop.pass_time(SECOND)
    await shop.clock.run(shop.worker.run_once())
    assert {event.job_id for event in shop.told(JobStarted)} == {good.id, bad.id}
    done, failed = shop.told(JobSettled)
    assert (done.state, done.wait_ms, done.duration_ms) == ("done", 1_000.0, 0.0)
    assert isinstance(failed, JobFailed)
    assert (failed.state, failed.err_code, failed.duration_ms) == ("queued", "ValueError", 2_000.0)
    assert {"tenant", "jobId", "kind", "state", "attempt", "errCode"} <= failed.fields().keys()


async def test_the_length_of_a_lease_is_the_workers_to_say(shop: Workshop) -> None:
    ends: list[datetime] = []

    async def look(context: Context) -> None:
        assert context.job.lease is not None
        ends.append(context.job.lease.until)

    for lease_for in (SECOND, 10 * MINUTE):
        shop.make_worker({"work": look}, WorkerSettings(lease_for=lease_for))
        await add(shop)
        await shop.clock.run(shop.worker.run_once())
    assert ends == [NOW + SECOND, NOW + 10 * MINUTE]
