"""The pauses of a failing store; what the loop does is in tests/spec."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.spec.stage import MONDAY, Stage, at, minutes, seconds

from rota import SchedulerSettings
from rota.errors import StoreUnavailableError, describe_error
from rota.events import Event, EventEmitter, TaskRunStarted
from rota.scheduler.keeping.ledger import REQUESTS
from rota.scheduler.running.loop import LONGEST_PAUSE, Outage
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
ERROR = StoreUnavailableError("gone")


def an_outage() -> tuple[Outage, list[Event]]:
    journal, told = EventEmitter("rota.scheduler"), list[Event]()
    journal.subscribe(told.append)
    return Outage(journal), told


@pytest.mark.clause("D-60", "P-23")
def test_pauses_grow_and_the_outage_is_told_once() -> None:
    outage, told = an_outage()
    now, pauses = TEN, []
    for _ in range(8):
        outage.begin(ERROR, now)
        assert outage.until is not None
        pauses.append((outage.until - now).total_seconds())
        now = outage.until
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [event.name for event in told] == ["StoreFailed"]
    outage.end()
    outage.end()
    assert [event.name for event in told] == ["StoreFailed", "StoreRecovered"]
    outage.begin(ERROR, now)
    assert outage.until == now + timedelta(seconds=1)


@pytest.mark.clause("D-7")
def test_a_clock_set_back_does_not_prolong_the_pause() -> None:
    outage, _ = an_outage()
    assert not outage.lasts_at(TEN)
    outage.begin(ERROR, TEN)
    assert outage.lasts_at(TEN)
    assert outage.lasts_at(TEN + timedelta(seconds=0.999))
    assert not outage.lasts_at(TEN + timedelta(seconds=1))
    assert not outage.lasts_at(TEN - LONGEST_PAUSE)
    assert outage.left_at(TEN + timedelta(seconds=0.25)) == timedelta(seconds=0.75)
    assert outage.left_at(TEN - LONGEST_PAUSE) == timedelta(seconds=1)


@pytest.mark.clause("D-50")
def test_an_error_is_named_with_its_text_if_it_has_one() -> None:
    assert describe_error(ValueError("text")) == "ValueError: text"
    assert describe_error(ValueError()) == "ValueError"


class SharedMemoryStore(MemoryStore):
    """In memory, but as if other processes could reach it too."""

    reach = Reach.HOST


@pytest.mark.clause("D-29", "D-30")
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
    assert [event.is_retry for event in stage.told(TaskRunStarted)] == [False, False]
    assert stage.names().count("TaskRetryPreempted") == 1
    await stage.close()
