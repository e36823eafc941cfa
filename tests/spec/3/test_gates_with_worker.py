"""Maintenance and quiet hours, from the rail's switch to the worker's handler, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from rota import open_store
from rota.clock.system import SystemClock
from rota.jobs import Job
from rota.kinds import make_built_in
from rota.policy.gates import Closed, Gate, Open, Spread, Verdict
from rota.policy.watch import FRESH_FOR, SETTLE_FOR, GateWatch
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock
from rota.worker import Context, Worker, WorkerSettings

EVENING = datetime(2026, 1, 5, 21, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SEVEN = datetime(2026, 1, 6, 7, tzinfo=UTC)


class Stage:
    """A rail for one tenant and a worker that notes when it was called."""

    def __init__(self, store: OpenStore, *own: Gate) -> None:
        self.clock = VirtualClock(EVENING)
        self.store = store
        self.rail = Rail(self.store, tenant="guild-7", clock=self.clock)
        self.ran: list[tuple[str, datetime]] = []
        settings = WorkerSettings(gate=GateWatch(self.store, more=own), poll_for=HOUR)
        handlers = {"reminder.send": self._note, "cleanup": self._note}
        self.worker = Worker(
            self.store, handlers, clock=self.clock, notifies={"reminder.send"}, settings=settings
        )

    async def _note(self, context: Context) -> None:
        self.ran.append((context.job.kind, self.clock.now()))

    async def ask(self, kind: str, run_at: datetime) -> str:
        return await self.rail.schedule_once(kind, {"event": 1}, run_at=run_at)

    async def job(self, job_id: str) -> Job:
        return (await self.store.get("guild-7", [job_id]))[job_id]

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.worker.run())
        try:
            yield
        finally:
            self.worker.stop()
            await self.clock.run(running)


@pytest.fixture
def stage() -> Stage:
    """In memory: during a night a worker looks at its gates thousands of times."""
    return Stage(MemoryStore())


async def test_quiet_hours_hold_back_what_notifies_and_nothing_else(stage: Stage) -> None:
    await stage.rail.set_quiet_hours(start="22:00", end="07:00", tz="Europe/London")
    reminder = await stage.ask("reminder.send", EVENING + 2 * HOUR)
    await stage.ask("cleanup", EVENING + 2 * HOUR)
    async with stage.working():
        await stage.clock.advance_to(SEVEN - MINUTE)
        assert stage.ran == [("cleanup", EVENING + 2 * HOUR)]
        held = await stage.job(reminder)
        assert held.deferral is not None
        assert (held.deferral.until, held.deferral.reason) == (SEVEN, "quiet hours")
        assert (held.deferral.count, held.attempt_count) == (1, 0)
        await stage.clock.advance_to(SEVEN + MINUTE)
    assert stage.ran[1:] == [("reminder.send", SEVEN)]


async def test_maintenance_that_is_switched_on_and_off_is_noticed_by_a_running_worker(
    store_url: str,
) -> None:
    async with await open_store(store_url) as store:
        stage = Stage(store)
        async with stage.working():
            await stage.ask("cleanup", EVENING)
            await stage.clock.advance(10 * MINUTE)
            await stage.rail.set_maintenance(True, reason="upgrade")
            await stage.ask("cleanup", EVENING + 15 * MINUTE)
            await stage.clock.advance(16 * MINUTE)
            assert [at for _, at in stage.ran] == [EVENING]
            await stage.rail.set_maintenance(False)
            await stage.clock.advance(5 * MINUTE)
    assert [at for _, at in stage.ran] == [EVENING, EVENING + 30 * MINUTE]


async def test_maintenance_holds_back_the_jobs_of_its_guild_only(stage: Stage) -> None:
    other = Rail(stage.store, tenant="guild-8", clock=stage.clock)
    await other.set_maintenance(True, until=EVENING + HOUR)
    held = await other.schedule_once("cleanup", {}, run_at=EVENING)
    await stage.ask("cleanup", EVENING)
    async with stage.working():
        await stage.clock.advance(MINUTE)
        assert stage.ran == [("cleanup", EVENING)]
        assert (await other.get(held)).run_at == EVENING + HOUR
        await stage.clock.advance(HOUR)
    assert stage.ran[1:] == [("cleanup", EVENING + HOUR)]


async def test_a_job_goes_to_the_first_instant_that_passes_both_gates(stage: Stage) -> None:
    await stage.rail.set_quiet_hours(start="22:00", end="07:00", tz="UTC")
    await stage.rail.set_maintenance(True, until=SEVEN + HOUR, reason="upgrade")
    reminder = await stage.ask("reminder.send", EVENING + 2 * HOUR)
    async with stage.working():
        await stage.clock.advance_to(SEVEN + 2 * HOUR)
    assert stage.ran == [("reminder.send", SEVEN + HOUR)]
    ended = await stage.job(reminder)
    assert ended.deferral is not None
    assert ended.deferral.count == 1
    assert ended.attempt_count == 0


async def test_a_gate_of_ones_own_is_asked_like_the_others() -> None:
    class OfficeHours:
        """Closed to clean-ups until noon."""

        def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
            if job.kind == "cleanup" and now.hour < 12:
                return Closed(datetime.combine(now.date(), time(12), UTC), "before noon")
            return Open()

    stage = Stage(MemoryStore(), OfficeHours())
    await stage.rail.set_quiet_hours(start="22:00", end="07:00", tz="UTC")
    await stage.ask("cleanup", SEVEN)
    await stage.ask("reminder.send", SEVEN)
    async with stage.working():
        await stage.clock.advance_to(SEVEN + 6 * HOUR)
    assert stage.ran == [("reminder.send", SEVEN), ("cleanup", SEVEN + 5 * HOUR)]


async def test_a_burst_that_was_held_back_overnight_can_be_spread_over_five_minutes(
    stage: Stage,
) -> None:
    settings = WorkerSettings(gate=GateWatch(stage.store, spread=Spread()), poll_for=HOUR)
    handlers = {"reminder.send": stage._note}
    stage.worker = Worker(
        stage.store, handlers, clock=stage.clock, notifies=handlers, settings=settings
    )
    await stage.rail.set_quiet_hours(start="22:00", end="07:00", tz="UTC")
    for _ in range(100):
        await stage.ask("reminder.send", EVENING + 3 * HOUR)
    async with stage.working():
        await stage.clock.advance_to(SEVEN - MINUTE)
        assert stage.ran == []
        await stage.clock.advance_to(SEVEN + 6 * MINUTE)
    starts = [at for _, at in stage.ran]
    assert len(starts) == 100
    assert starts.count(SEVEN) == 10
    assert SEVEN + 4 * MINUTE < max(starts) < SEVEN + 5 * MINUTE


async def test_no_handler_starts_once_maintenance_is_set(stage: Stage) -> None:
    """The worker holds ten jobs and runs one at a time; the first sets maintenance."""

    async def stop(context: Context) -> None:
        await stage._note(context)
        await stage.rail.set_maintenance(True, until=SEVEN)

    settings = WorkerSettings(concurrency=1, poll_for=HOUR)
    stage.worker = Worker(
        stage.store, {"stop": stop, "cleanup": stage._note}, clock=stage.clock, settings=settings
    )
    await stage.rail.schedule_once("stop", {}, run_at=EVENING, priority=1)
    held = [await stage.ask("cleanup", EVENING) for _ in range(9)]
    async with stage.working():
        await stage.clock.advance(MINUTE)
        assert stage.ran == [("stop", EVENING)]
    assert {(await stage.job(each)).due_at for each in held} == {SEVEN}


async def test_no_handler_starts_once_another_process_has_set_maintenance(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is not notified, and has read the gates longer ago than a setter waits."""
    monkeypatch.setattr("rota.rail.settings.note_change", lambda: None)

    async def stop(context: Context) -> None:
        await stage._note(context)
        await stage.rail.set_maintenance(True, until=SEVEN)
        await stage.clock.sleep(SETTLE_FOR)

    settings = WorkerSettings(concurrency=1, poll_for=HOUR)
    stage.worker = Worker(
        stage.store, {"stop": stop, "cleanup": stage._note}, clock=stage.clock, settings=settings
    )
    await stage.rail.schedule_once("stop", {}, run_at=EVENING, priority=1)
    held = [await stage.ask("cleanup", EVENING) for _ in range(9)]
    async with stage.working():
        await stage.clock.advance(MINUTE)
        assert stage.ran == [("stop", EVENING)]
    assert {(await stage.job(each)).due_at for each in held} == {SEVEN}


async def test_a_setter_waits_longer_than_a_worker_trusts_its_reading(tmp_path: Path) -> None:
    waits = list[timedelta]()

    class NotedClock(SystemClock):
        async def sleep(self, duration: timedelta) -> None:
            waits.append(duration)

    async with await open_store(f"sqlite:///{tmp_path}/rota.db") as store:
        await Rail(store, tenant="guild-7", clock=NotedClock()).set_maintenance(True)
    assert waits == [SETTLE_FOR]
    assert SETTLE_FOR > FRESH_FOR


async def test_all_jobs_that_were_held_back_start_when_the_window_ends(stage: Stage) -> None:
    await stage.rail.set_quiet_hours(start="20:00", end="07:00", tz="Europe/London")
    held = [await stage.ask("reminder.send", EVENING) for _ in range(30)]
    async with stage.working():
        await stage.clock.advance(HOUR)
        assert {(await stage.job(each)).due_at for each in held} == {SEVEN}


async def test_a_job_or_a_series_says_itself_whether_it_notifies(stage: Stage) -> None:
    """What the job says counts more than what the worker says about its kind."""
    await stage.rail.set_quiet_hours(start="20:00", end="07:00", tz="Europe/London")
    loud = await stage.rail.schedule_once("cleanup", {}, run_at=EVENING, notifies=True)
    await stage.rail.schedule_once("reminder.send", {}, run_at=EVENING, notifies=False)
    series = await stage.rail.schedule_recurring(
        "cleanup", {}, interval="12h", start_from=EVENING, notifies=True
    )
    async with stage.working():
        await stage.clock.advance_to(SEVEN - MINUTE)
        assert [kind for kind, _ in stage.ran] == ["reminder.send"]
        for held in (loud, series):
            assert (await stage.job(held)).due_at == SEVEN
        await stage.clock.advance_to(SEVEN + MINUTE)
    after = [job for job in (await stage.store.find("guild-7")).items if job.origin == series]
    assert [job.notifies for job in after] == [True, True]


async def test_quiet_hours_hold_back_the_built_in_http_request(stage: Stage) -> None:
    for kind, work in make_built_in({}).items():
        stage.worker.handler(kind)(work)
    await stage.rail.set_quiet_hours(start="20:00", end="07:00", tz="Europe/London")
    request = {"url": "http://127.0.0.1:9/"}
    job_id = await stage.rail.schedule_once("http.request", request, run_at=EVENING)
    async with stage.working():
        await stage.clock.advance_to(SEVEN - MINUTE)
        held = await stage.job(job_id)
    assert (held.due_at, held.attempt_count, held.last_error) == (SEVEN, 0, None)
    assert held.deferral is not None
