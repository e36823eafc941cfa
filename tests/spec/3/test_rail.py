"""The rail and the worker together: specification 3's clauses on scheduling and recurrence."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota import open_store
from rota.jobs import JobFilter, JobStatus
from rota.policy.once import effect_key
from rota.rail import DeadLetters, Rail
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock
from rota.worker import Context, Worker, WorkerSettings, effectively_once

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LONDON = ZoneInfo("Europe/London")
CHECK_IN = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0"


class Stage:
    """A store, a clock, and a worker that writes down what it was told."""

    def __init__(self, store: OpenStore) -> None:
        self.store = store
        self.clock = VirtualClock(NOW)
        self.rail = Rail(store, "guild-7", clock=self.clock, draw_bits=Random(1).getrandbits)
        self.seen: list[Context] = []
        self.worker = self.hire()

    def hire(self) -> Worker:
        """Another worker, with a handler for everything here."""
        return Worker(self.store, {"tick": self.run, "fail": self.fail}, clock=self.clock)

    async def run(self, context: Context) -> None:
        self.seen.append(context)

    async def fail(self, context: Context) -> None:
        self.seen.append(context)
        raise ConnectionError(f"attempt {context.attempt}")

    async def work_at(self, *instants: datetime) -> None:
        for instant in instants:
            await self.clock.jump_to(instant)
            await self.worker.run_once()

    async def live(self) -> int:
        wanted = (JobFilter(status=status) for status in (JobStatus.READY, JobStatus.RUNNING))
        return sum([await self.store.count("guild-7", each) for each in wanted])


@pytest.fixture
async def stage(store_url: str) -> AsyncIterator[Stage]:
    async with await open_store(store_url) as store:
        yield Stage(store)


async def test_a_job_that_was_scheduled_reaches_its_handler_at_its_time(stage: Stage) -> None:
    job_id = await stage.rail.schedule_once("tick", {"event": 1}, run_at=NOW + HOUR)
    await stage.work_at(NOW, NOW + HOUR)
    (context,) = stage.seen
    assert (context.tenant, context.payload, context.now) == ("guild-7", {"event": 1}, NOW + HOUR)
    assert (await stage.rail.get(job_id)).state == "done"


async def test_a_fortnightly_series_keeps_its_phase_and_its_wall_time_for_two_years(
    stage: Stage,
) -> None:
    job_id = await stage.rail.schedule_recurring(
        "tick", {"pair": 1}, rrule=CHECK_IN, tz="Europe/London"
    )
    due_at = (await stage.rail.get(job_id)).run_at
    while due_at < NOW + 730 * DAY:
        assert await stage.live() == 1
        await stage.work_at(due_at)
        (job,) = (await stage.rail.list(state="queued")).items
        due_at = job.run_at
    walls = [context.scheduled_for.astimezone(LONDON) for context in stage.seen]
    assert len(walls) == 52
    assert {(wall.hour, wall.minute, wall.weekday()) for wall in walls} == {(18, 0, 0)}
    assert {wall.utcoffset() for wall in walls} == {timedelta(0), HOUR}
    dates = [wall.date() for wall in walls]
    assert {later - before for before, later in pairwise(dates)} == {14 * DAY}


async def test_a_series_goes_on_after_a_dead_occurrence(stage: Stage) -> None:
    await stage.rail.schedule_recurring(
        "fail", {}, interval="24h", retry_policy={"max_attempts": 1}
    )
    await stage.work_at(NOW, NOW + DAY)
    assert [context.scheduled_for for context in stage.seen] == [NOW, NOW + DAY]
    assert len((await stage.rail.list(state="dlq")).items) == 2


async def test_workers_and_repeated_calls_leave_one_job_per_occurrence(stage: Stage) -> None:
    async def schedule() -> str:
        return await stage.rail.schedule_recurring(
            "tick", {}, cron="0 * * * *", tz="UTC", idempotency_key="hourly"
        )

    workers = [stage.hire() for _ in range(3)]
    for hours in range(6):
        await stage.clock.jump_to(NOW + hours * HOUR)
        await asyncio.gather(*(schedule() for _ in range(3)), *(w.run_once() for w in workers))
        await asyncio.gather(*(worker.run_once() for worker in workers))
    occurrences = [context.scheduled_for for context in stage.seen]
    assert sorted(occurrences) == [NOW + hours * HOUR for hours in range(6)]
    assert await stage.live() == 1


async def test_after_downtime_a_series_catches_up_once_and_learns_what_it_missed(
    stage: Stage,
) -> None:
    await stage.rail.schedule_recurring("tick", {}, interval="1h")
    await stage.work_at(NOW + 5.5 * HOUR, NOW + 5.6 * HOUR, NOW + 6 * HOUR)
    found = [
        (context.punctuality.missed_count, context.punctuality.is_catch_up, context.late_for)
        for context in stage.seen
    ]
    assert found == [(5, True, 5.5 * HOUR), (0, False, timedelta(0))]


@pytest.mark.parametrize(
    ("overlap", "starts"),
    [
        ("skip", [0, 3, 4]),
        ("queue", [0, 2.5, 3, 4]),
        ("allow", [0, 1, 2, 3, 4]),
    ],
)
async def test_an_occurrence_during_a_run_is_skipped_queued_or_allowed(
    stage: Stage, overlap: Any, starts: list[float]
) -> None:
    async def slow(context: Context) -> None:
        is_first = not stage.seen
        stage.seen.append(context)
        if is_first:
            await stage.clock.sleep(2.5 * MINUTE)

    await stage.rail.schedule_recurring("slow", {}, interval="1m", overlap=overlap, count=5)
    settings = WorkerSettings(poll_for=timedelta(seconds=5))  # it knows when the next one is due
    worker = Worker(stage.store, {"slow": slow}, settings=settings, clock=stage.clock)
    running = asyncio.ensure_future(worker.run())
    await stage.clock.advance(4.5 * MINUTE)
    worker.stop()
    await stage.clock.advance(MINUTE)
    await running
    began = [(context.now - NOW) / MINUTE for context in stage.seen]
    assert began == pytest.approx(starts, abs=0.05)


async def test_a_dead_job_that_had_its_effect_is_retried_without_repeating_it(
    stage: Stage,
) -> None:
    sent: list[str] = []

    @effectively_once
    async def send(context: Context) -> None:
        sent.append(context.job.id)

    async def die_after_sending(context: Context) -> None:
        await context.once(effect_key(context.job), lambda: sent.append(context.job.id))
        raise ConnectionError("the acknowledgement was lost")

    job_id = await stage.rail.schedule_once(
        "send", {}, run_at=NOW, idempotency_key="reminder:1", retry_policy={"max_attempts": 1}
    )
    await Worker(stage.store, {"send": die_after_sending}, clock=stage.clock).run_once()
    assert (await stage.rail.get(job_id)).state == "dlq"
    dead = DeadLetters(stage.store, "guild-7", clock=stage.clock)
    retried = await dead.retry(job_id, who="ada", why="the network is back")
    await Worker(stage.store, {"send": send}, clock=stage.clock).run_once()
    assert (await stage.rail.get(retried.replacements[job_id])).state == "done"
    assert sent == [job_id]


async def test_a_paused_series_waits_on_every_store(stage: Stage) -> None:
    job_id = await stage.rail.schedule_recurring("tick", {}, interval="1h")
    await stage.work_at(NOW)
    await stage.rail.pause(job_id)
    await stage.work_at(NOW + 2.5 * HOUR)
    await stage.rail.resume(job_id)
    await stage.work_at(NOW + 2.6 * HOUR, NOW + 3 * HOUR)
    assert [context.scheduled_for for context in stage.seen] == [NOW, NOW + 3 * HOUR]


async def test_a_rail_lists_cancels_and_moves_jobs_on_every_store(stage: Stage) -> None:
    ids = [
        await stage.rail.schedule_once("tick", {"n": number}, run_at=NOW + DAY)
        for number in range(3)
    ]
    await stage.rail.cancel(ids[0])
    await stage.rail.run_now(ids[1])
    await stage.rail.reschedule(ids[2], NOW + HOUR)
    await stage.work_at(NOW)
    assert [context.job.id for context in stage.seen] == [ids[1]]
    states = {job.job_id: job.state for job in (await stage.rail.list()).items}
    assert states == dict(zip(ids, ["failed", "done", "queued"], strict=True))
