"""Log records as single lines of JSON."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.telemetry.test_counters import JOB, failed, settled

from rota.events import (
    Event,
    EventEmitter,
    JobDeferred,
    JobStarted,
    LeaseLost,
    TaskRunStarted,
    WorkerStarted,
)
from rota.telemetry.logs import JsonFormatter

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged by Rota, formatted."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("rota")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(before)


def tell(stream: io.StringIO, event: Event) -> dict[str, Any]:
    EventEmitter("rota.worker").emit(event)
    (line,) = stream.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_about_a_job_has_the_words_of_the_specification(stream: io.StringIO) -> None:
    line = tell(stream, failed("dlq"))
    assert line["event"] == "JobFailed"
    assert (line["level"], line["logger"]) == ("warning", "rota.worker")
    assert (line["guildId"], line["jobId"], line["type"]) == ("guild-7", "a", "reminder.send")
    assert (line["state"], line["attempts"], line["errCode"]) == ("dlq", 1, "ValueError")
    assert line["durationMs"] == 7.0
    assert not {"tenant", "kind", "attempt"} & line.keys()
    assert datetime.fromisoformat(line["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (settled(), "done"),
        (JobStarted(wait_ms=1.0, **JOB), "processing"),
        (JobDeferred(until=NOW, reason="quiet hours", **JOB), "queued"),
        (LeaseLost(token=1, reason="gone", **JOB), None),
    ],
)
def test_every_line_about_a_job_has_every_field(
    stream: io.StringIO, event: Event, state: str | None
) -> None:
    line = tell(stream, event)
    promised = {"guildId", "jobId", "type", "state", "attempts", "errCode", "durationMs"}
    assert promised <= line.keys()
    assert (line["state"], line["errCode"]) == (state, None)


def test_other_events_of_a_worker_keep_their_fields(stream: io.StringIO) -> None:
    line = tell(stream, WorkerStarted(worker="w", kinds=["a"], concurrency=3))
    assert (line["worker"], line["concurrency"], "guildId" in line) == ("w", 3, False)


def test_the_schedulers_events_have_the_same_form(stream: io.StringIO) -> None:
    event = TaskRunStarted(task_name="backup", scheduled_time=NOW, actual_time=NOW)
    EventEmitter("rota.scheduler").emit(event)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["logger"]) == ("TaskRunStarted", "rota.scheduler")
    assert (line["taskName"], line["scheduledTime"]) == ("backup", "2026-05-01T12:00:00Z")


NASTY = 'a"\\\r\n\t\x00\x1b[31m\x7f\x85\x9b\u2028\u2029\u202e\u2066\ufeff\U000e0041\ud800 é漢🙂'


def test_nothing_in_a_line_can_split_it_or_act_on_a_terminal() -> None:
    """Not logged for real: half of a surrogate pair cannot be part of a test's report."""
    record = logging.LogRecord("rota.worker", logging.WARNING, "", 1, "%s", (NASTY,), None)
    text = JsonFormatter().format(record)
    assert len(text.splitlines()) == 1
    unsafe = set(NASTY) - set('a"\\[31m é漢🙂')
    assert not unsafe & set(text)
    assert "é漢🙂" in text
    assert json.loads(text)["message"] == NASTY


def test_an_error_comes_with_its_traceback_on_the_same_line(stream: io.StringIO) -> None:
    try:
        int("a\nb")
    except ValueError:
        logging.getLogger("rota.worker").exception("it failed")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert line["message"] == "it failed"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("'a\\nb'")


def test_fields_of_another_programs_records_are_not_taken_for_an_event(
    stream: io.StringIO,
) -> None:
    logging.getLogger("rota.app").info("hello", extra={"event": "x", "fields": "none"})
    assert json.loads(stream.getvalue())["message"] == "hello"
