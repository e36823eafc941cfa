"""Which events are emitted, and which listeners get them."""

import logging
from datetime import UTC, datetime

import pytest

from rota.events import (
    Event,
    EventEmitter,
    TaskRunStarted,
    TaskScheduled,
    TaskSkipped,
    WorkerStarted,
)

SKIPPED = TaskSkipped(task_name="a", reason="because")
STARTED = WorkerStarted(worker="host:1:ab", kinds=["a\nb"], concurrency=3)


class Something(Event, frozen=True):
    field: object


def test_listeners_are_notified_in_order_until_they_leave() -> None:
    journal, heard = EventEmitter("rota.scheduler"), list[str]()
    leave = journal.subscribe(lambda event: heard.append(f"first {event.name}"))
    journal.subscribe(lambda event: heard.append(f"second {event.name}"))
    journal.emit(SKIPPED)
    leave()
    journal.emit(SKIPPED)
    assert heard == ["first TaskSkipped", "second TaskSkipped", "second TaskSkipped"]


def test_a_listener_may_leave_during_a_notification() -> None:
    journal, heard = EventEmitter("rota.scheduler"), list[Event]()

    def once(event: Event) -> None:
        heard.append(event)
        leave()

    leave = journal.subscribe(once)
    journal.subscribe(heard.append)
    journal.emit(SKIPPED)
    journal.emit(SKIPPED)
    assert len(heard) == 3


def test_events_below_the_level_are_skipped_without_a_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = EventEmitter("rota.scheduler")
    caplog.set_level(logging.INFO, "rota.scheduler")
    assert journal.wants(TaskRunStarted)
    assert not journal.wants(TaskScheduled)
    journal.emit(SKIPPED)
    assert caplog.records == []
    leave = journal.subscribe(print)
    assert journal.wants(TaskScheduled)
    leave()
    leave()
    assert not journal.wants(TaskScheduled)


def test_a_record_carries_event_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rota.scheduler")
    instant = datetime(2027, 1, 4, 10, 0, 0, 500_000, tzinfo=UTC)
    EventEmitter("rota.scheduler").emit(
        TaskRunStarted(task_name="a", scheduled_time=instant, actual_time=instant)
    )
    (record,) = caplog.records
    assert record.__dict__["event"] == "TaskRunStarted"
    assert record.__dict__["fields"] == {
        "taskName": "a",
        "scheduledTime": "2027-01-04T10:00:00.500000Z",
        "actualTime": "2027-01-04T10:00:00.500000Z",
    }
    assert (record.name, record.levelno) == ("rota.scheduler", logging.INFO)


def test_a_record_carries_event_and_fields_and_is_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "rota.worker")
    EventEmitter("rota.worker").emit(STARTED)
    (record,) = caplog.records
    assert record.__dict__["event"] == "WorkerStarted"
    assert record.__dict__["fields"] == STARTED.fields()
    assert record.getMessage().startswith('WorkerStarted worker="host:1:ab" kinds=')
    assert "\n" not in record.getMessage()


def test_a_failing_subscriber_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    journal = EventEmitter("rota.scheduler")
    found: list[Event] = []

    def fail(_: object) -> None:
        raise RuntimeError("broken")

    journal.subscribe(fail)
    journal.subscribe(found.append)
    journal.emit(SKIPPED)
    assert found == [SKIPPED]
    assert "A subscriber failed on TaskSkipped" in caplog.text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", '"plain"'),
        ("a\nb", '"a\\nb"'),
        ("\x1b[0m", '"\\u001b[0m"'),
        ("\u202eevil", '"\\u202eevil"'),
        ("half \udcff", '"half \\udcff"'),
        ("naïve 🌍", '"naïve 🌍"'),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (1.5, "1.5"),
        (None, "null"),
    ],
)
def test_every_value_fits_on_one_safe_line(value: object, shown: str) -> None:
    assert Something(field=value).describe() == f"Something field={shown}"
