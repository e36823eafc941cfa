"""What a worker tells, and to whom."""

import logging

import pytest

from rota.events import Event, JobDeferred, JobStarted, WorkerStarted
from rota.worker.journal import Journal

STARTED = WorkerStarted(worker="host:1:ab", kinds=["a\nb"], concurrency=3)


def test_nothing_is_wanted_below_the_level_unless_somebody_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal()
    caplog.set_level(logging.INFO, "rota.worker")
    assert journal.wants(JobDeferred)
    assert not journal.wants(JobStarted)
    end = journal.subscribe(lambda _: None)
    assert journal.wants(JobStarted)
    end()
    end()
    assert not journal.wants(JobStarted)


@pytest.mark.clause("T-28")
def test_a_record_carries_event_and_fields_and_is_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "rota.worker")
    Journal().tell(STARTED)
    (record,) = caplog.records
    assert record.__dict__["event"] == "WorkerStarted"
    assert record.__dict__["fields"] == STARTED.fields()
    assert record.getMessage().startswith('WorkerStarted worker="host:1:ab" kinds=')
    assert "\n" not in record.getMessage()


def test_a_subscriber_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    told: list[Event] = []

    def fail(_: object) -> None:
        raise RuntimeError("broken")

    journal.subscribe(fail)
    journal.subscribe(told.append)
    journal.tell(STARTED)
    assert told == [STARTED]
    assert "A subscriber failed on WorkerStarted" in caplog.text
