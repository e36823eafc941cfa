"""A job in specification 3's words."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs import Deferral, Ending, JobStatus, Recurrence
from rota.rail.jobs import view_job
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ISO = "2026-05-01T12:00:00.000000Z"


def test_a_job_shows_the_fields_of_the_specification_by_their_names() -> None:
    job = a_job(
        id="job",
        tenant="guild-7",
        kind="reminder.send",
        payload={"a": [1]},
        priority=6,
        status=JobStatus.RUNNING,
        attempt_count=2,
        last_error="boom",
        idempotency_key="key",
        occurrence="bucket",
        created_at=NOW,
    )
    assert view_job(job).to_document() == {
        "jobId": "job",
        "guildId": "guild-7",
        "type": "reminder.send",
        "payload": {"a": [1]},
        "priority": 3,
        "runAt": ISO,
        "attempts": 2,
        "state": "processing",
        "lastError": "boom",
        "leaseUntil": "2026-05-01T12:01:00.000000Z",
        "workerId": "a worker",
        "idempotencyKey": "key",
        "runAtBucket": "bucket",
        "queue": "default",
        "createdAt": ISO,
        "updatedAt": ISO,
    }


def test_absent_fields_are_left_out() -> None:
    document = view_job(a_job(created_at=NOW)).to_document()
    assert document.keys() == {
        *("jobId", "guildId", "type", "payload", "priority", "runAt", "attempts", "state"),
        *("queue", "createdAt", "updatedAt"),
    }


def test_a_deferral_is_shown() -> None:
    held = Deferral(until=NOW, reason="quiet hours", count=2)
    shown = view_job(a_job(deferral=held))
    assert (shown.deferred_until, shown.deferred_reason, shown.deferred_count) == (
        NOW,
        "quiet hours",
        2,
    )


def test_a_series_is_shown_with_its_origin_and_its_rule() -> None:
    weekly = Recurrence(rrule="FREQ=WEEKLY", zone="Europe/London", start=NOW)
    late = NOW + timedelta(hours=1)
    job = a_job(recurrence=weekly, occurrence_at=NOW, due_at=late, origin="first", is_paused=True)
    document = view_job(job).to_document()
    assert document["runAt"] == "2026-05-01T13:00:00.000000Z"
    assert document["series"] == {
        "rrule": "FREQ=WEEKLY",
        "tz": "Europe/London",
        "startFrom": ISO,
        "scheduledFor": ISO,
        "originJobId": "first",
        "isPaused": True,
    }


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (Ending.EXHAUSTED, "dlq"),
        (Ending.LOST, "dlq"),
        (Ending.DISCARDED, "failed"),
        (Ending.CANCELLED, "failed"),
    ],
)
def test_failures_are_distinguished_by_how_they_ended(ending: Ending, state: str) -> None:
    assert view_job(a_job(status=JobStatus.FAILED, ending=ending)).state == state
