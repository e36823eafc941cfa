"""Schedules of an app: declaration, plan, reconciliation, and handles at run time."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota import Rota
from rota.clock.virtual import VirtualClock
from rota.errors import ConflictError, ScheduleNotFoundError, TaskDeclarationError
from rota.jobs import Job, JobFilter, JobStatus, decide_complete
from rota.ops.schedules import scan_schedules
from rota.schedule import ScheduleHandle
from rota.schedules import keep_schedules
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.triggers.cron import CronTrigger, parse_cron
from rota.triggers.interval import Interval
from rota.triggers.rrule import parse_rrule

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONDON = ZoneInfo("Europe/London")


class Place:
    """A store in memory under virtual time, on which apps are opened."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = VirtualClock(NOW)
        self.ran: list[tuple[str, str]] = []

    def app(self, name: str = "shop", **schedules: Any) -> Rota:
        """An app with a task for each schedule; ``when``, or ``(when, options)``."""
        app = Rota("memory://")
        app.schedules.app = name
        for task_name, given in schedules.items():
            when, options = given if isinstance(given, tuple) else (given, {})
            self.add(app, task_name, when, options)
        return app

    def add(self, app: Rota, name: str, when: Any, options: dict[str, Any]) -> None:
        async def run(text: str = "-") -> None:
            self.ran.append((name, text))

        app.schedule(when, **options)(app.task(name=name)(run))

    def opened(self, app: Rota) -> Any:
        return app.opened(self.store, self.clock)

    async def reconcile(self, app: Rota) -> str:
        """Start the app once, as a host does; returns what changed, in one line."""
        async with self.opened(app) as session, keep_schedules(app, session) as plan:
            return str(plan).splitlines()[-1]

    async def live(self) -> dict[str, Job]:
        page = await self.store.find("default", JobFilter(is_recurring=True), limit=100)
        return {job.name: job for job in page.items if not job.status.is_terminal}

    async def work(self, app: Rota, duration: timedelta) -> list[tuple[str, str]]:
        """What runs while a worker of the app works for this time."""
        self.ran.clear()
        async with self.opened(app):
            worker = app.worker()
            running = asyncio.create_task(worker.run())
            await self.clock.advance(duration)
            worker.stop()
            await self.clock.run(running)
        return self.ran


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    yield made
    await made.store.close()


async def test_a_declared_schedule_becomes_a_series_and_runs(place: Place) -> None:
    app = place.app(rates="*/30 * * * *")
    assert await place.reconcile(app) == "1 added, 0 changed, 0 removed, 0 kept"
    job = (await place.live())["rates"]
    assert (job.due_at, job.kind) == (NOW, "rates")
    assert await place.work(app, HOUR + timedelta(minutes=1)) == [("rates", "-")] * 3


@pytest.mark.parametrize(
    ("when", "second_at"),
    [
        ("@daily", datetime(2026, 5, 2, 23, tzinfo=UTC)),
        ("0 9 * * mon-fri", datetime(2026, 5, 5, 8, tzinfo=UTC)),
        (
            "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
            datetime(2026, 5, 11, 8, tzinfo=UTC),
        ),
        (timedelta(hours=2), NOW + 2 * HOUR),
        ("90m", NOW + 1.5 * HOUR),
        ("@every 3h", NOW + 3 * HOUR),
        (Interval(HOUR, NOW + timedelta(minutes=5)), NOW + timedelta(minutes=65)),
        (
            CronTrigger(parse_cron("0 9 * * *"), ZoneInfo("Asia/Tokyo")),
            datetime(2026, 5, 3, tzinfo=UTC),
        ),
        (
            parse_rrule("FREQ=DAILY", zone=ZoneInfo("Asia/Tokyo"), start=NOW + HOUR),
            NOW + 25 * HOUR,
        ),
        (
            "DTSTART;TZID=Asia/Tokyo:20260502T090000\nRRULE:FREQ=DAILY",
            datetime(2026, 5, 3, tzinfo=UTC),
        ),
    ],
)
async def test_when_is_what_people_write(place: Place, when: Any, second_at: datetime) -> None:
    app = Rota("memory://", zone="Europe/London")
    place.add(app, "t", when, {})
    await place.reconcile(app)
    async with place.opened(app):
        starts = await ScheduleHandle(app.tasks["t"]).next(2)
    assert starts[1] == second_at


@pytest.mark.parametrize(
    ("when", "options", "reason"),
    [
        ("61 * * * *", {}, "minute"),
        ("0 0 31 2 *", {}, "31"),
        ("RRULE:FREQ=NEVER", {}, "FREQ"),
        (timedelta(0), {}, "when: 0:00:00 is not a whole number of seconds, at least one"),
        (object(), {}, "is not a schedule; write cron text"),
        ("@daily", {"zone": "Mars/Olympus"}, "Mars/Olympus"),
        ("@daily", {"args": {"txt": 1}}, "txt"),
        ("@daily", {"args": {"text": 1}}, "text"),
        ("@daily", {"args": [1]}, "args: [1] is not a mapping of parameter names to values"),
        ("@daily", {"jitter": "2d"}, "jitter"),
        ("@daily", {"overlap": "never"}, "overlap"),
        ("@daily", {"retry": 99}, "max_attempts"),
        ("@daily", {"tenant": "a b"}, "tenant"),
    ],
)
def test_a_bad_declaration_names_function_and_line(
    place: Place, when: Any, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(TaskDeclarationError) as refused:
        place.app(t=(when, options))
    assert "Place.add.<locals>.run at " in refused.value.message
    assert "test_schedules.py:" in refused.value.message
    assert reason in refused.value.message


def test_a_schedule_that_is_not_told_when_is_refused() -> None:
    def run() -> None: ...

    ours = Rota("memory://")
    with pytest.raises(
        TaskDeclarationError, match=r"run at .*py:\d+: when is it due\? Write @app.s"
    ):
        ours.schedule(run)  # type: ignore[arg-type]  # what is refused


def test_two_schedules_of_one_name_are_refused(place: Place) -> None:
    app = place.app(t="@daily")
    with pytest.raises(TaskDeclarationError, match=r"is taken at .*test_schedules.py:"):
        app.schedule("@hourly")(app.tasks["t"])
    app.schedule("@hourly", name="other")(app.tasks["t"])


async def test_the_plan_says_what_would_change_and_writes_nothing(place: Place) -> None:
    await place.reconcile(place.app(kept="@daily", changed="0 9 * * *", gone="@weekly"))
    app = place.app(kept="@daily", changed=("0 10 * * *", {"args": {"text": "x"}}), new="1h")
    async with place.opened(app):
        plan = await app.plan()
        assert str(plan).splitlines() == [
            "+ new: every 1h",
            "~ changed",
            "    payload: {} -> {'text': 'x'}",
            "    cron: 0 9 * * * -> 0 10 * * *",
            "- gone: @weekly in UTC",
            "1 added, 1 changed, 1 removed, 1 kept",
        ]
        assert plan.changed[0].changes["cron"] == ("0 9 * * *", "0 10 * * *")
        assert (await app.plan()).has_changes
    assert set(await place.live()) == {"kept", "changed", "gone"}


async def test_reconciling_changes_only_what_changed(place: Place) -> None:
    await place.reconcile(place.app(kept="7m", changed="0 9 * * *", gone="@weekly"))
    before = await place.live()
    await place.clock.advance(timedelta(minutes=3))
    app = place.app(kept="7m", changed=("0 10 * * *", {"args": {"text": "x"}}), new="1h")
    assert await place.reconcile(app) == "1 added, 1 changed, 1 removed, 1 kept"
    after = await place.live()
    assert set(after) == {"kept", "changed", "new"}
    assert after["kept"] == before["kept"]
    changed = after["changed"]
    assert (changed.id, changed.payload) == (before["changed"].id, {"text": "x"})
    assert changed.due_at == datetime(2026, 5, 2, 10, tzinfo=UTC)
    assert await place.reconcile(app) == "0 added, 0 changed, 0 removed, 3 kept"
    assert await place.live() == after
    assert [it.schedule.name async for it in scan_schedules(place.store)] == [
        "changed",
        "kept",
        "new",
    ]


async def test_other_arguments_leave_the_next_occurrence_where_it_is(place: Place) -> None:
    await place.reconcile(place.app(t=timedelta(hours=5)))
    await place.clock.advance(HOUR)
    before = (await place.live())["t"]
    await place.reconcile(place.app(t=(timedelta(hours=5), {"args": {"text": "x"}})))
    after = (await place.live())["t"]
    assert (after.due_at, after.occurrence_at) == (before.due_at, before.occurrence_at)
    assert after.payload == {"text": "x"}


async def test_a_paused_schedule_stays_paused_when_it_changes(place: Place) -> None:
    app = place.app(t="@daily")
    await place.reconcile(app)
    async with place.opened(app):
        await ScheduleHandle(app.tasks["t"]).pause()
    await place.reconcile(place.app(t="@hourly"))
    job = (await place.live())["t"]
    assert job.is_paused
    assert job.due_at.year == 9999


async def test_a_running_occurrence_outlives_its_schedule(place: Place) -> None:
    await place.reconcile(place.app(t="0 * * * *", other="@daily"))
    request = LeaseRequest(worker="w", limit=1, lease_for=HOUR)
    (running,) = await place.store.lease(request, NOW)
    await place.reconcile(place.app(other="@daily"))
    assert (await place.live())["t"].status is JobStatus.RUNNING
    (applied,) = await place.store.apply([decide_complete(running, NOW)], NOW)
    assert (applied.is_stale, applied.successor) == (False, None)
    assert set(await place.live()) == {"other"}


async def test_a_running_occurrence_is_followed_by_the_new_rule(place: Place) -> None:
    await place.reconcile(place.app(t="0 * * * *"))
    request = LeaseRequest(worker="w", limit=1, lease_for=HOUR)
    (running,) = await place.store.lease(request, NOW)
    await place.reconcile(place.app(t="45 * * * *"))
    await place.store.apply([decide_complete(running, NOW)], NOW)
    assert (await place.live())["t"].due_at == NOW + timedelta(minutes=45)


async def test_a_schedule_that_comes_back_begins_again(place: Place) -> None:
    first = place.app(a="@daily", b="@daily")
    await place.reconcile(first)
    await place.reconcile(place.app(b="@daily"))
    assert set(await place.live()) == {"b"}
    await place.reconcile(first)
    assert set(await place.live()) == {"a", "b"}


async def test_apps_on_one_store_leave_each_other_alone(place: Place) -> None:
    await place.reconcile(place.app("shop", a="@daily"))
    await place.reconcile(place.app("mail", b="@daily"))
    assert await place.reconcile(place.app("shop")) == "0 added, 0 changed, 1 removed, 0 kept"
    assert set(await place.live()) == {"b"}


async def test_a_name_of_another_app_is_refused_and_nothing_is_written(place: Place) -> None:
    await place.reconcile(place.app("shop", a="@daily"))
    with pytest.raises(TaskDeclarationError, match="the schedule name 'a' belongs to shop"):
        await place.reconcile(place.app("mail", a="@hourly", b="@daily"))
    assert set(await place.live()) == {"a"}


async def test_a_crash_before_the_series_follow_is_made_good_by_the_next_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.reconcile(place.app(gone="@daily", changed="@daily"))

    async def crash(*_: object) -> None:
        raise KeyboardInterrupt

    app = place.app(new="@daily", changed="@hourly")
    with monkeypatch.context() as patch:
        patch.setattr("rota.schedules.settle", crash)
        with pytest.raises(KeyboardInterrupt):
            await place.reconcile(app)
    assert set(await place.live()) == {"gone", "changed"}
    await place.reconcile(app)
    live = await place.live()
    assert set(live) == {"new", "changed"}
    assert live["changed"].due_at == NOW


@pytest.mark.parametrize("late", [{"rates": "0 9 * * *"}, {}])
async def test_a_host_that_settles_late_does_not_undo_what_another_settled(
    place: Place, monkeypatch: pytest.MonkeyPatch, late: dict[str, str]
) -> None:
    """The late host read its definition first, and changes or ends the series last."""
    await place.reconcile(place.app(rates="0 8 * * *"))
    method = "amend" if late else "apply"
    original, newer = getattr(place.store, method), place.app(rates="0 10 * * *")

    async def be_late(*args: Any) -> Any:
        monkeypatch.undo()
        await place.reconcile(newer)
        return await original(*args)

    monkeypatch.setattr(place.store, method, be_late)
    await place.reconcile(place.app(**late))
    (found,) = [it.schedule async for it in scan_schedules(place.store)]
    job = (await place.live())["rates"]
    assert job.recurrence is not None
    assert (found.definition.cron, job.recurrence.cron) == ("0 10 * * *", "0 10 * * *")


async def test_a_rule_that_has_ended_is_declared_without_a_series(place: Place) -> None:
    app = place.app(t="FREQ=DAILY;UNTIL=20260101T000000Z")
    await place.reconcile(app)
    assert await place.live() == {}


async def test_a_schedule_at_run_time_is_kept_until_it_is_cancelled(place: Place) -> None:
    app = place.app()
    task = app.task(name="remind")(_remind)
    async with place.opened(app):
        handle = await task.schedule("0 9 * * *", name="u7", zone="Europe/London", args={"user": 7})
        assert await handle.next(2) == [
            datetime(2026, 5, 2, 8, tzinfo=UTC),
            datetime(2026, 5, 3, 8, tzinfo=UTC),
        ]
        await place.reconcile(place.app())
        assert (await place.live())["u7"].payload == {"user": 7}
        await handle.update("0 10 * * *", args={"user": 8})
        assert await ScheduleHandle(task, "u7").next() == [datetime(2026, 5, 2, 9, tzinfo=UTC)]
        assert (await place.live())["u7"].payload == {"user": 8}
        await handle.update(zone="UTC", catch_up="skip")
        assert await handle.next() == [datetime(2026, 5, 2, 10, tzinfo=UTC)]
        await handle.pause()
        assert await handle.next() == []
        await handle.resume()
        assert await handle.next() == [datetime(2026, 5, 2, 10, tzinfo=UTC)]
        await handle.cancel()
        assert await place.live() == {}
        with pytest.raises(ScheduleNotFoundError, match='no schedule named "u7"'):
            await handle.pause()


async def test_the_same_schedule_twice_is_one_and_another_needs_a_name(place: Place) -> None:
    app = place.app()
    task = app.task(name="remind")(_remind)
    async with place.opened(app):
        await task.schedule("1h", args={"user": 7})
        before = await place.live()
        await task.schedule("1h", args={"user": 7})
        assert await place.live() == before
        with pytest.raises(ConflictError, match="says something else; give this one a name"):
            await task.schedule("2h", args={"user": 7})


async def test_a_declared_schedule_is_not_changed_at_run_time(place: Place) -> None:
    app = place.app(t="@daily")
    await place.reconcile(app)
    async with place.opened(app):
        with pytest.raises(ConflictError, match=r"is declared at .*test_schedules.py:\d+; change"):
            await ScheduleHandle(app.tasks["t"]).update("@hourly")


async def test_an_unknown_option_is_named(place: Place) -> None:
    app = place.app()
    task = app.task(name="remind")(_remind)
    async with place.opened(app):
        with pytest.raises(
            Exception, match=r"every: is not an option of a schedule; there are zone"
        ):
            await task.schedule("1h", args={"user": 7}, every=1)


async def _remind(user: int) -> None:
    """A task with an argument."""
