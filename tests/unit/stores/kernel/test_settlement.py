"""What a change writes, and when it holds."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from rota.jobs import (
    Failed,
    Interrupted,
    Job,
    JobStatus,
    Lost,
    Outcome,
    Recurrence,
    Snoozed,
    Succeeded,
    decide_cancel,
    decide_complete,
    decide_defer,
    decide_outcome,
)
from rota.stores.kernel.settlement import (
    MOVE_FIELDS,
    SERIES_FIELDS,
    is_current,
    make_successor,
    write_move,
)
from rota.testing import a_job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OUTCOMES: tuple[Outcome, ...] = (
    Succeeded(),
    Failed("no"),
    Snoozed(MINUTE),
    Lost(),
    Interrupted(),
)


@given(st.sampled_from(OUTCOMES), st.sampled_from([1, 3]), st.integers(0, 2))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_move_writes_every_field_that_its_decision_changed(
    outcome: Outcome, attempt_count: int, loss_count: int
) -> None:
    """Nothing a decision changes is outside of what is written."""
    job = a_job(status=JobStatus.RUNNING, attempt_count=attempt_count, loss_count=loss_count)
    changes = [
        decide_outcome(job, outcome, NOW + MINUTE),
        decide_defer(job, NOW + MINUTE, "quiet", NOW),
        decide_cancel(job, "no", NOW),
    ]
    for change in changes:
        assert write_move(change, job) == change.job


def test_amendments_made_meanwhile_are_kept() -> None:
    job = a_job(status=JobStatus.RUNNING)
    amended = a_job(id=job.id, status=JobStatus.RUNNING, payload={"new": 1}, priority=9, name="n")
    moved = write_move(decide_complete(job, NOW), amended)
    assert (moved.payload, moved.priority, moved.name) == ({"new": 1}, 9, "n")
    assert moved.status is JobStatus.COMPLETED


def test_the_two_lists_of_fields_are_fields_of_a_job() -> None:
    fields = set(asdict(a_job()))
    assert set(MOVE_FIELDS) | set(SERIES_FIELDS) <= fields
    assert set(MOVE_FIELDS).isdisjoint(SERIES_FIELDS)


def test_a_successor_equals_the_one_decided_when_nothing_was_amended() -> None:
    job = a_job(status=JobStatus.RUNNING, recurrence=Recurrence(interval="1h", start=NOW))
    change = decide_complete(job, NOW)
    assert change.successor is not None
    assert make_successor(change, job) == change.successor
    assert make_successor(decide_outcome(job, Interrupted(), NOW), job) is None


@pytest.mark.parametrize(
    "kept",
    [
        None,
        a_job(status=JobStatus.RUNNING, tenant="other"),
        a_job(status=JobStatus.READY, last_token=1),
        a_job(status=JobStatus.RUNNING, last_token=2),
    ],
)
def test_a_change_does_not_hold_for_a_job_that_moved_on(kept: Job | None) -> None:
    job = a_job(status=JobStatus.RUNNING)
    assert is_current(decide_complete(job, NOW), job, NOW)
    assert not is_current(decide_complete(job, NOW), kept, NOW)


def test_a_loss_holds_only_after_the_last_instant_of_the_lease() -> None:
    job = a_job(status=JobStatus.RUNNING)
    assert job.lease is not None
    change = decide_outcome(job, Lost(), job.lease.until)
    assert not is_current(change, job, job.lease.until)
    assert is_current(change, job, job.lease.until + timedelta(microseconds=1))
