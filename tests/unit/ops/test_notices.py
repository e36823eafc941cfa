"""Dead-man switches of series and tasks, and tasks that are late or fail."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.ops.conftest import NOW

from rota.errors import InvalidJobError
from rota.jobs import Failed, Job, Outcome, RetryPolicy, Succeeded, decide_outcome
from rota.ops import notices
from rota.ops.notices import ALL_READ_EVERY, WatchedTasks, find_notices, forget_ended
from rota.rail import Rail
from rota.rail.noted_series import list_pauses, list_watched
from rota.scheduler import Scheduler, Watched
from rota.scheduler.orders import pause_task, resume_task
from rota.scheduler.storage import TASKS
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, LeaseRequest
from rota.telemetry.notices import Notice
from rota.testing import VirtualClock

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ONE_TRY = RetryPolicy(max_attempts=1)


async def run_next(store: MemoryStore, clock: VirtualClock, outcome: Outcome) -> Job:
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE)
    (leased,) = await store.lease(request, clock.now())
    await store.apply([decide_outcome(leased, outcome, clock.now())], clock.now())
    return leased


async def overdue(store: MemoryStore, clock: VirtualClock) -> list[Notice]:
    return [it for it in await find_notices(store, clock) if it.concern == "overdue"]


async def test_a_series_that_never_ran_raises_its_switch_after_the_first_occurrence(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    await rail.schedule_recurring("backup", {}, interval="1h", alert_after="30m")
    await clock.advance(30 * MINUTE - timedelta(seconds=1))
    assert await overdue(store, clock) == []
    await clock.advance(timedelta(seconds=1))
    (notice,) = await overdue(store, clock)
    assert (notice.source, notice.name, notice.tenant) == ("series", "backup", "default")
    assert notice.since == NOW + 30 * MINUTE
    assert notice.text == "series backup has not succeeded by Fri 2026-05-01 12:30:00 UTC"


async def test_failed_occurrences_do_not_reset_the_switch_and_a_success_does(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    await rail.schedule_recurring(
        "backup", {}, interval="1h", alert_after="150m", retry_policy=ONE_TRY
    )
    for _ in range(3):
        await run_next(store, clock, Failed("disk full"))
        assert await overdue(store, clock) == []
        await clock.advance(HOUR)
    (notice,) = await overdue(store, clock)
    assert notice.since == NOW + 150 * MINUTE
    await run_next(store, clock, Succeeded())
    assert await overdue(store, clock) == []
    await clock.advance(HOUR + 149 * MINUTE)
    assert await overdue(store, clock) == []
    await clock.advance(MINUTE)
    assert len(await overdue(store, clock)) == 1


async def test_a_day_of_successes_raises_nothing(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    await rail.schedule_recurring("backup", {}, interval="1h", alert_after="5m")
    for _ in range(24):
        await run_next(store, clock, Succeeded())
        assert await find_notices(store, clock) == ()
        await clock.advance(HOUR)


async def test_a_pause_does_not_silence_the_switch_and_the_end_of_the_series_does(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    series_id = await rail.schedule_recurring("backup", {}, interval="1h", alert_after="1h")
    await rail.pause(series_id)
    await clock.advance(HOUR)
    (notice,) = await overdue(store, clock)
    assert notice.text.endswith("; it is paused")
    await rail.cancel(series_id)
    assert await find_notices(store, clock) == ()
    assert len(await list_watched(store)) == len(await list_pauses(store)) == 1
    await forget_ended(store, clock)
    assert await list_watched(store) == []
    assert await list_pauses(store) == []


async def test_a_recent_note_is_not_forgotten(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    series_id = await rail.schedule_recurring("backup", {}, interval="1h", alert_after="1h")
    await rail.cancel(series_id)
    await forget_ended(store, clock)
    assert len(await list_watched(store)) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"alert_after": "soon"}, "must be a duration such as 30m or 26h"),
        ({"alert_after": "1h", "overlap": "allow"}, 'cannot be combined with overlap "allow"'),
    ],
)
async def test_a_switch_that_cannot_work_is_refused(
    rail: Rail, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidJobError, match=reason):
        await rail.schedule_recurring("backup", {}, interval="1h", **options)  # type: ignore[arg-type]


class Dead:
    """A scheduler whose process is gone: nothing of it runs, and it wrote no farewell."""

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self.fails = False
        self.scheduler = Scheduler(store, clock=clock, zone=UTC)

    async def begin(self) -> None:
        async def back_up() -> None:
            if self.fails:
                raise OSError("disk full")

        watched = Watched(back_up, timedelta(minutes=20))
        await self.scheduler.initialize([("backup", "0 * * * *", watched, HOUR)])


async def test_a_task_whose_scheduler_is_dead_is_late_and_then_overdue(
    store: MemoryStore, clock: VirtualClock
) -> None:
    task = Dead(store, clock)
    await task.begin()
    await clock.advance(5 * MINUTE)
    await task.scheduler.stop()
    assert await find_notices(store, clock) == ()
    await clock.advance(54 * MINUTE)
    assert await find_notices(store, clock) == ()
    await clock.advance(3 * MINUTE)
    (late,) = await find_notices(store, clock)
    assert (late.concern, late.since) == ("task_late", datetime(2026, 5, 1, 13, tzinfo=UTC))
    assert late.text == (
        "task backup is late: it was due at Fri 2026-05-01 13:00:00 UTC, 2 minutes ago"
    )
    await clock.advance(18 * MINUTE)
    assert [it.concern for it in await find_notices(store, clock)] == ["task_late", "overdue"]


async def test_a_task_that_fails_is_noted_until_it_succeeds(
    store: MemoryStore, clock: VirtualClock
) -> None:
    task = Dead(store, clock)
    task.fails = True
    await task.begin()
    await clock.advance(MINUTE)
    (failing,) = await find_notices(store, clock)
    assert (failing.concern, failing.count) == ("task_fails", 1)
    await clock.advance(20 * MINUTE)
    assert [it.concern for it in await find_notices(store, clock)] == ["task_fails", "overdue"]
    task.fails = False
    await clock.advance(HOUR)
    assert await find_notices(store, clock) == ()
    await task.scheduler.stop()


async def test_a_day_of_a_living_scheduler_raises_nothing(
    store: MemoryStore, clock: VirtualClock
) -> None:
    task = Dead(store, clock)
    await task.begin()
    for _ in range(24 * 4):
        await clock.advance(15 * MINUTE)
        assert await find_notices(store, clock) == ()
    await task.scheduler.stop()


class CountingStore(MemoryStore):
    """Counts the task records that are read."""

    read_count = 0

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        async for page in super().scan(collection):
            self.read_count += len(page) if collection == TASKS else 0
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        self.read_count += len(keys) if collection == TASKS else 0
        return await super().read(collection, keys)


async def test_a_paused_task_is_held_and_not_late_and_calm_when_resumed(
    store: MemoryStore, clock: VirtualClock
) -> None:
    scheduler = Scheduler(store, clock=clock, zone=UTC)
    await scheduler.initialize([("hourly", "0 * * * *", lambda: None, HOUR)])
    await clock.advance(MINUTE)
    await pause_task(store, clock, "hourly", "anna", "noise")
    assert await find_notices(store, clock) == ()
    await clock.advance(2 * HOUR)
    (notice,) = await find_notices(store, clock)
    assert (notice.concern, notice.source, notice.name) == ("held", "task", "hourly")
    assert "by anna (noise)" in notice.text
    await resume_task(store, clock, "hourly")
    await clock.advance(2 * MINUTE)
    assert await find_notices(store, clock) == ()
    await clock.run(scheduler.stop())


class Crowd:
    """Many tasks of a day, two of an hour; the first has a switch, the second may fail."""

    def __init__(self, store: CountingStore, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self.fails = False
        self.scheduler = Scheduler(store, clock=clock, zone=UTC)
        self.tasks = WatchedTasks(store, clock)

    async def begin(self, count: int) -> None:
        async def work() -> None:
            if self.fails:
                raise OSError("disk full")

        def idle() -> None: ...

        watched = Watched(idle, 20 * MINUTE)
        daily = [(f"task-{number:04}", "0 3 * * *", idle, HOUR) for number in range(count)]
        await self.scheduler.initialize(
            [
                ("first", "0 * * * *", watched, HOUR),
                ("second", "30 * * * *", work, HOUR),
                *daily,
            ]
        )

    async def look(self) -> tuple[list[str], int]:
        """The troubles, and how many records were read for them."""
        before = self.store.read_count
        found = await self.tasks.find()
        return [f"{it.concern} {it.name}" for it in found], self.store.read_count - before


@pytest.fixture
async def crowd(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crowd]:
    monkeypatch.setattr(notices, "FEW_TASKS", 10)
    monkeypatch.setattr(notices, "MOST_NOTICES", 3)
    async with CountingStore() as store:
        crowd = Crowd(store, clock)
        await crowd.begin(50)
        yield crowd
        await crowd.scheduler.stop()


async def test_of_many_tasks_only_those_are_read_that_can_be_in_trouble(crowd: Crowd) -> None:
    assert await crowd.look() == ([], 52)
    assert await crowd.look() == ([], 0)
    await crowd.clock.advance(ALL_READ_EVERY)
    assert await crowd.look() == ([], 52)


async def test_of_many_tasks_a_failure_is_seen_with_the_next_reading_of_all(crowd: Crowd) -> None:
    await crowd.clock.advance(29 * MINUTE)
    assert await crowd.look() == ([], 52)
    crowd.fails = True
    await crowd.clock.advance(3 * MINUTE)
    assert await crowd.look() == (["task_fails second"], 1)  # it was due, and so it was read
    assert await crowd.look() == (["task_fails second"], 1)


async def test_the_switch_of_one_of_many_tasks_fires_without_reading_the_others(
    crowd: Crowd,
) -> None:
    await crowd.scheduler.stop()
    await crowd.clock.advance(59 * MINUTE)
    assert await crowd.look() == (["task_late second"], 52)
    await crowd.clock.advance(3 * MINUTE)
    assert await crowd.look() == (["task_late second", "task_late first"], 2)


async def test_a_task_that_is_registered_meanwhile_is_watched_at_once(crowd: Crowd) -> None:
    await crowd.look()
    await crowd.scheduler.stop()
    await crowd.begin(51)
    assert await crowd.look() == ([], 53)


async def test_of_very_many_late_tasks_some_are_named_and_the_others_counted(crowd: Crowd) -> None:
    await crowd.scheduler.stop()
    await crowd.clock.advance(16 * HOUR)
    notices = await crowd.tasks.find()
    assert [it.name for it in notices if it.concern == "task_late"][-1] == "*"
    (rest,) = [it for it in notices if it.name == "*"]
    assert (rest.count, rest.text) == (49, "49 other tasks are late")
