"""The pauses of a failing store; the rest of the loop is tested in tests/spec."""

from datetime import UTC, datetime, timedelta

from tests.spec.stage import MONDAY, Stage, at, minutes, seconds

from rota import Scheduler, SchedulerSettings
from rota.errors import StoreUnavailableError, describe_error
from rota.events import Event, EventEmitter, PollCompleted, PollStarted, TaskRunStarted
from rota.scheduler.loop import LONGEST_PAUSE, StorePause
from rota.scheduler.orders import REQUESTS
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach
from rota.testing import VirtualClock

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
ERROR = StoreUnavailableError("gone")


def a_pause() -> tuple[StorePause, list[Event]]:
    emitter, emitted = EventEmitter("rota.scheduler"), list[Event]()
    emitter.subscribe(emitted.append)
    return StorePause(emitter), emitted


def test_pauses_grow_and_the_outage_is_emitted_once() -> None:
    pause, emitted = a_pause()
    now, pauses = TEN, []
    for _ in range(8):
        pause.begin(ERROR, now)
        assert pause.until is not None
        pauses.append((pause.until - now).total_seconds())
        now = pause.until
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [event.name for event in emitted] == ["StoreFailed"]
    pause.end()
    pause.end()
    assert [event.name for event in emitted] == ["StoreFailed", "StoreRecovered"]
    pause.begin(ERROR, now)
    assert pause.until == now + timedelta(seconds=1)


def test_a_clock_set_back_does_not_prolong_the_pause() -> None:
    pause, _ = a_pause()
    assert not pause.lasts_at(TEN)
    pause.begin(ERROR, TEN)
    assert pause.lasts_at(TEN)
    assert pause.lasts_at(TEN + timedelta(seconds=0.999))
    assert not pause.lasts_at(TEN + timedelta(seconds=1))
    assert not pause.lasts_at(TEN - LONGEST_PAUSE)
    assert pause.left_at(TEN + timedelta(seconds=0.25)) == timedelta(seconds=0.75)
    assert pause.left_at(TEN - LONGEST_PAUSE) == timedelta(seconds=1)


def test_an_error_is_named_with_its_text_if_it_has_one() -> None:
    assert describe_error(ValueError("text")) == "ValueError: text"
    assert describe_error(ValueError()) == "ValueError"


class SharedMemoryStore(MemoryStore):
    """In memory, but as if other processes could reach it too."""

    reach = Reach.HOST


async def test_an_operators_request_starts_a_task_once_and_supersedes_a_retry() -> None:
    stage = Stage(SharedMemoryStore(), MONDAY)
    settings = SchedulerSettings(peers_checked_every=seconds(10))
    await stage.scheduler(settings=settings).initialize(
        [stage.task(cron="0 10 * * *", delay=minutes(30), fails=[ValueError()])]
    )
    await stage.clock.advance(minutes(1))
    await stage.store.write_all([DocumentWrite(REQUESTS, "a", None, b"{}")])
    await stage.store.write_all([DocumentWrite(REQUESTS, "unknown", None, b"{}")])
    await stage.clock.advance(minutes(60))
    assert stage.started() == [at(10), at(10, 1, 10)]
    assert [event.is_retry for event in stage.emitted(TaskRunStarted)] == [False, False]
    assert stage.names().count("TaskRetryPreempted") == 1
    await stage.close()


async def test_polls_are_reported_at_least_that_often_as_a_sign_of_life() -> None:
    clock, polls = VirtualClock(TEN), list[tuple[str, datetime]]()
    every = timedelta(minutes=1)
    settings = SchedulerSettings(poll_at_least_every=every)
    scheduler = Scheduler(MemoryStore(), clock=clock, zone=UTC, settings=settings)
    scheduler.events.subscribe(
        lambda event: (
            polls.append((event.name, event.poll_time))
            if isinstance(event, PollStarted | PollCompleted)
            else None
        )
    )
    await scheduler.initialize([("yearly", "0 0 1 1 *", lambda: None, every)])
    polls.clear()
    await clock.advance(timedelta(minutes=3))
    started = [at for name, at in polls if name == "PollStarted"]
    assert started == [TEN + number * every for number in (1, 2, 3)]
    assert len(polls) == 2 * len(started)
    await clock.run(scheduler.stop())


async def test_without_that_only_polls_that_evaluate_tasks_are_reported() -> None:
    clock, polls = VirtualClock(TEN), list[Event]()
    scheduler = Scheduler(MemoryStore(), clock=clock, zone=UTC)
    await scheduler.initialize([("yearly", "0 0 1 1 *", lambda: None, timedelta())])
    await clock.advance(timedelta(seconds=1))
    scheduler.events.subscribe(polls.append)
    await clock.advance(timedelta(hours=3))
    assert polls == []
    await clock.run(scheduler.stop())
