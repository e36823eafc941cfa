"""A turn of the poller of specification 4: hooks, delays, states, and errors."""

import logging
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.unit.poller.polling import HOUR, MINUTE, NOW, SECOND, ListedJobs, Stage, a_polled

from rota import Poller, Rail, Worker, open_store
from rota.errors import (
    InvalidCronExpressionError,
    InvalidInputError,
    StoreUnavailableError,
)
from rota.events import Event
from rota.poller import JobUpdate, PollableStore, PolledJobs
from rota.poller.settings import PollerSettings
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NO_TIME = timedelta(0)
TENTH = timedelta(milliseconds=100)


@pytest.fixture
def store() -> ListedJobs:
    return ListedJobs()


@pytest.fixture
def stage(store: ListedJobs) -> Stage:
    return Stage(store, VirtualClock(NOW))


def test_options_default_to_those_of_the_specification() -> None:
    settings = PollerSettings()
    delays = (settings.next_delay, settings.reprocess_delay, settings.idle_delay)
    assert delays == (NO_TIME, NO_TIME, NO_TIME)
    assert settings.lock_duration == timedelta(minutes=10)
    hooks = (settings.on_document, settings.on_start, settings.on_stop, settings.on_idle)
    assert (*hooks, settings.on_error) == (None,) * 5


@pytest.mark.parametrize("store", [None, "memory://", object()])
def test_a_store_is_needed(store: Any) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        Poller(store)
    assert refusal.value.details["field"] == "store"


async def test_any_store_with_the_three_verbs_will_do(stage: Stage, store: ListedJobs) -> None:
    taken: PollableStore = store
    assert not Poller(taken).is_running
    store.waiting += [a_polled(1), a_polled(2, auto_remove=True)]
    await stage.play(SECOND, idle_delay=SECOND)
    assert [job.id for job in stage.jobs] == [1, 2]
    assert ([job_id for job_id, _ in store.updates], store.removed) == ([1], [2])
    await stage.close()


async def test_it_says_what_it_is_doing(stage: Stage, store: ListedJobs) -> None:
    poller = stage.poller(idle_delay=SECOND)

    def state() -> tuple[bool, bool, bool]:
        return poller.is_running, poller.is_processing, poller.is_idle

    assert state() == (False, False, False)
    store.waiting.append(a_polled())
    stage.work = lambda _: stage.clock.sleep(MINUTE)
    await poller.start()
    await stage.clock.advance(SECOND)
    assert state() == (True, True, False)
    await stage.clock.advance(MINUTE)
    assert state() == (True, False, True)
    store.waiting.append(a_polled())
    await stage.clock.advance(2 * SECOND)
    assert state() == (True, True, False)
    await stage.clock.run(poller.stop())
    assert state() == (False, False, False)


async def test_idleness_is_reported_once_until_there_is_work_again(
    stage: Stage, store: ListedJobs
) -> None:
    await stage.play(5 * SECOND, idle_delay=SECOND)
    assert stage.diary == ["start", "idle"]
    store.waiting += [a_polled(1), a_polled(2)]
    await stage.clock.advance(5 * SECOND)
    assert stage.diary == ["start", "idle", "document", "document", "idle"]
    await stage.close()


async def test_it_waits_before_each_job_and_longer_when_there_is_none(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting += [a_polled(1), a_polled(2)]
    await stage.play(20 * SECOND, next_delay=2 * SECOND, idle_delay=5 * SECOND)
    assert stage.seconds == [2, 4]
    asked = [(now - NOW).total_seconds() for _, now in store.locks]
    assert asked == [2, 4, 6, 13, 20]
    await stage.close()


async def test_without_delays_an_idle_poller_still_leaves_the_store_in_peace(
    stage: Stage, store: ListedJobs
) -> None:
    await stage.play(SECOND)
    assert len(store.locks) == 11
    await stage.close()


async def test_jobs_are_locked_for_the_lock_duration(stage: Stage, store: ListedJobs) -> None:
    await stage.play(NO_TIME)
    await stage.play(NO_TIME, lock_duration=HOUR)
    assert store.locks == [(NOW + 10 * MINUTE, NOW), (NOW + HOUR, NOW)]
    await stage.close()


async def test_after_the_hook_the_job_is_rescheduled_or_removed_or_sleeps(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting += [
        a_polled(1, interval="0 * * * *", auto_remove=True),
        a_polled(2, auto_remove=True),
        a_polled(3),
    ]
    await stage.play(SECOND)
    assert store.updates == [
        (1, JobUpdate(sleep_until=NOW + HOUR)),
        (3, JobUpdate(sleep_until=None)),
    ]
    assert store.removed == [2]
    await stage.close()


async def test_without_a_hook_jobs_are_only_rescheduled(stage: Stage, store: ListedJobs) -> None:
    store.waiting.append(a_polled(1, interval="0 * * * *"))
    await stage.play(SECOND, on_document=None)
    assert store.updates == [(1, JobUpdate(sleep_until=NOW + HOUR))]
    await stage.close()


async def test_a_job_recurs_in_its_own_zone_or_in_the_pollers(
    stage: Stage, store: ListedJobs
) -> None:
    store.waiting += [
        a_polled(1, interval="0 9 * * *"),
        a_polled(2, interval="0 9 * * *", zone="Asia/Kolkata"),
    ]
    await stage.play(SECOND, zone=ZoneInfo("Europe/London"))
    found = [update.sleep_until for _, update in store.updates]
    day = NOW.replace(hour=0) + timedelta(days=1)
    assert found == [day + 8 * HOUR, day + 3 * HOUR + 30 * MINUTE]
    await stage.close()


@pytest.mark.parametrize(
    "fields",
    [{"interval": "nonsense"}, {"interval": 5}, {"interval": "@daily", "repeat_until": "soon"}],
)
async def test_an_invalid_document_is_reported_and_sleeps_but_is_not_removed(
    stage: Stage, store: ListedJobs, fields: dict[str, Any]
) -> None:
    store.waiting.append(a_polled(1, auto_remove=True, **fields))
    await stage.play(SECOND)
    assert stage.diary[:2] == ["start", "document"]
    (error,) = stage.errors
    assert isinstance(error, InvalidInputError)
    assert isinstance(error, InvalidCronExpressionError) == (fields["interval"] == "nonsense")
    assert store.updates == [(1, JobUpdate(sleep_until=None))]
    assert store.removed == []
    await stage.close()


async def test_errors_of_other_hooks_go_to_on_error_and_the_loop_continues(
    stage: Stage, store: ListedJobs
) -> None:
    failure = ValueError("no")

    def fail() -> None:
        raise failure

    await stage.play(SECOND, on_idle=fail)
    assert stage.errors == [failure]
    store.waiting += [a_polled(1), a_polled(2)]
    stage.work = lambda job: fail() if job.id == 1 else None
    await stage.clock.advance(SECOND)
    assert stage.errors == [failure, failure, failure]
    assert store.updates == [(2, JobUpdate(sleep_until=None))]
    await stage.close()


async def test_an_on_error_that_fails_is_logged_and_the_loop_goes_on(
    stage: Stage, store: ListedJobs, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("twice")

    store.waiting += [a_polled(1), a_polled(2)]
    await stage.play(SECOND, on_document=fail, on_error=fail)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    assert store.waiting == []
    await stage.close()


async def test_without_on_error_errors_are_logged(
    stage: Stage, store: ListedJobs, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures.append(StoreUnavailableError("gone"))
    await stage.play(SECOND, on_error=None)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == ["gone"]
    await stage.close()


async def test_a_store_that_fails_is_asked_again_less_and_less_often(
    stage: Stage, store: ListedJobs
) -> None:
    store.failures += [StoreUnavailableError("gone")] * 6
    store.waiting.append(a_polled())
    await stage.play(4 * SECOND)
    asked = [(now - NOW) / TENTH for _, now in store.locks]
    assert asked[:6] == [0, 1, 3, 7, 15, 31]
    await stage.clock.advance(3 * SECOND)
    assert stage.seconds == [6.3]
    assert len(stage.errors) == 6
    store.failures += [StoreUnavailableError("again")] * 2
    asked_count = len(store.locks)
    await stage.clock.advance(SECOND)
    assert len(stage.errors) == 8
    first, second, third = (now for _, now in store.locks[asked_count : asked_count + 3])
    assert (second - first, third - second) == (TENTH, 2 * TENTH)
    await stage.close()


async def test_the_pause_after_a_failure_is_no_addition_to_the_idle_delay(
    stage: Stage, store: ListedJobs
) -> None:
    store.failures += [StoreUnavailableError("gone")] * 5
    await stage.play(6 * SECOND, idle_delay=SECOND)
    asked = [(now - NOW) / TENTH for _, now in store.locks]
    assert asked[:6] == [0, 10, 20, 30, 40, 56]
    await stage.close()


async def test_a_poller_that_is_stopped_by_a_failure_ends_at_once(
    stage: Stage, store: ListedJobs
) -> None:
    async def stop(_: BaseException) -> None:
        await poller.stop()

    store.failures.append(StoreUnavailableError("gone"))
    poller = stage.poller(on_error=stop, on_stop=lambda: ended_at.append(stage.clock.now()))
    ended_at: list[datetime] = []
    await poller.start()
    await stage.clock.advance(SECOND)
    assert ended_at == [NOW]
    await stage.close()


async def test_an_outage_of_the_store_is_one_event_until_it_is_over(
    stage: Stage, store: ListedJobs
) -> None:
    poller = await stage.play(SECOND)
    events: list[Event] = []
    poller.events.subscribe(events.append)
    store.failures += [StoreUnavailableError("gone")] * 3
    await stage.clock.advance(SECOND)
    assert [event.name for event in events] == ["StoreFailed", "StoreRecovered"]
    store.failures.append(StoreUnavailableError("again"))
    await stage.clock.advance(SECOND)
    assert [event.name for event in events] == ["StoreFailed", "StoreRecovered"] * 2
    await stage.close()


async def test_a_store_that_fails_in_the_end_leaves_the_job_locked(
    stage: Stage, store: ListedJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bool:
        raise StoreUnavailableError("gone")

    monkeypatch.setattr(store, "update", fail)
    store.waiting += [a_polled(1), a_polled(2)]
    poller = await stage.play(SECOND)
    assert [str(error) for error in stage.errors] == ["gone", "gone"]
    assert not poller.is_processing
    await stage.close()


async def test_on_an_opened_store_it_polls_the_jobs_that_were_added(stage: Stage) -> None:
    async with await open_store("memory://") as opened:
        await PolledJobs(opened, clock=stage.clock).add({"name": "a"})
        poller = Poller(opened, on_document=stage.jobs.append, clock=stage.clock)
        await poller.start()
        await stage.clock.advance(SECOND)
        await poller.stop()
    assert [job.payload for job in stage.jobs] == [{"name": "a"}]


async def test_workers_and_pollers_on_one_store_do_not_see_each_others_jobs(stage: Stage) -> None:
    opened = MemoryStore()
    jobs = PolledJobs(opened, clock=stage.clock)
    job_id = await jobs.add({}, sleep_until=NOW)
    await Rail(opened, tenant="t", clock=stage.clock).schedule_once("any", {}, run_at=NOW)
    worked: list[str] = []
    worker = Worker(
        opened, {"any": lambda context: worked.append(context.job.kind)}, clock=stage.clock
    )
    await worker.run_once()
    assert worked == ["any"]
    job = await jobs.get(job_id)
    assert job is not None
    assert job.attempt_count == 0
    poller = Poller(opened, on_document=stage.jobs.append, clock=stage.clock)
    await poller.start()
    await stage.clock.advance(SECOND)
    await poller.stop()
    assert [polled.id for polled in stage.jobs] == [job_id]
