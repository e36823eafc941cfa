"""What a job is: frozen records."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rota.jobs import (
    Attempt,
    BackoffStrategy,
    Change,
    Completion,
    Deferral,
    Job,
    JobFilter,
    JobRequest,
    JobStatus,
    Lease,
    Recurrence,
    RetryPolicy,
    Succeeded,
    decide_fail,
    detect_cycle,
    list_jobs,
)
from rota.jobs.retention import Keep, RetentionRule
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
CHANGE = decide_fail(a_job(status=JobStatus.RUNNING), "boom", NOW)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (a_job(), "status"),
        (a_job(status=JobStatus.RUNNING).lease, "token"),
        (Deferral(until=NOW, reason="quiet hours"), "count"),
        (Recurrence(cron="* * * * *", start=NOW), "start"),
        (RetryPolicy(), "max_attempts"),
        (JobRequest(name="n", queue="q"), "name"),
        (CHANGE, "job"),
        (CHANGE.attempt, "error"),
        (Succeeded(), "anything"),
        (detect_cycle("a", [], {}), "has_cycle"),
        (list_jobs([]), "items"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_record_cannot_be_changed(record: Any, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(record, field, None)


@pytest.mark.parametrize(
    "record",
    [
        Attempt,
        Change,
        Completion,
        Deferral,
        Job,
        JobFilter,
        JobRequest,
        Keep,
        Lease,
        Recurrence,
        RetentionRule,
        RetryPolicy,
    ],
    ids=lambda record: record.__qualname__,
)
def test_the_fields_of_a_record_are_given_by_name(record: Any) -> None:
    with pytest.raises(TypeError, match="positional"):
        record(None)


def test_two_requests_share_no_payload() -> None:
    one, other = JobRequest(name="n", queue="q"), JobRequest(name="n", queue="q")
    assert one.payload == other.payload == {}
    assert one.payload is not other.payload


@pytest.mark.parametrize(
    ("recurrence", "text"),
    [
        (Recurrence(cron="* * * * *", start=NOW), "* * * * *"),
        (Recurrence(rrule="FREQ=DAILY", start=NOW), "FREQ=DAILY"),
        (Recurrence(interval="1h", start=NOW), "1h"),
        (Recurrence(start=NOW), ""),
    ],
)
def test_a_recurrence_knows_what_was_written(recurrence: Recurrence, text: str) -> None:
    assert recurrence.text == text


def test_there_are_three_strategies_and_the_ladder_of_the_rail() -> None:
    assert [str(each) for each in BackoffStrategy] == ["FIXED", "LINEAR", "EXPONENTIAL", "LADDER"]
