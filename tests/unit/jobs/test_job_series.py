"""The next job of a series."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from tests.unit.jobs.arbitrary import INSTANTS, START, always, jobs

from rota.jobs import (
    Change,
    Deferral,
    Job,
    JobStatus,
    Recurrence,
    RetryPolicy,
    decide_cancel,
    decide_complete,
    decide_discard,
    decide_fail,
    decide_hand_back,
    decide_lost,
    decide_snooze,
    derive_job_id,
)
from rota.testing import a_job

DAY = timedelta(days=1)
NOW = START + timedelta(seconds=30)
DAILY = Recurrence(interval="24h", start=START, count=5)
ONCE = RetryPolicy(max_attempts=1)


def running(**fields: object) -> Job:
    told: dict[str, object] = {
        "id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "status": JobStatus.RUNNING,
        "created_at": START,
        "occurrence_at": START,
        "recurrence": DAILY,
        "retry_policy": ONCE,
    }
    return a_job(**(told | fields))


def successor_of(change: Change) -> Job:
    assert change.successor is not None
    return change.successor


@pytest.mark.parametrize(
    "change",
    [
        decide_complete(running(), NOW),
        decide_fail(running(), "boom", NOW),
        decide_discard(running(), "bad", NOW),
        decide_lost(running(), NOW),
        decide_lost(running(loss_count=2, retry_policy=RetryPolicy(max_attempts=9)), NOW),
        decide_cancel(running(), "skip this one", NOW, ends_series=False),
    ],
    ids=["completed", "failed", "discarded", "lost", "set aside", "skipped"],
)
def test_any_end_of_a_job_brings_the_next_of_its_series(change: Change) -> None:
    following = successor_of(change)
    assert following.status is JobStatus.READY
    assert following.due_at == following.occurrence_at == START + DAY
    assert change.series_end is None


@pytest.mark.parametrize(
    "change",
    [
        decide_fail(running(retry_policy=RetryPolicy()), "boom", NOW),
        decide_snooze(running(), DAY, NOW),
        decide_hand_back(running(), NOW),
        decide_lost(running(retry_policy=RetryPolicy()), NOW),
    ],
    ids=["retried", "snoozed", "handed back", "rescued"],
)
def test_a_job_that_goes_on_has_no_successor_yet(change: Change) -> None:
    assert change.successor is None
    assert change.series_end is None


def test_the_successor_begins_with_a_clean_slate() -> None:
    job = running(
        tenant="guild-7",
        queue="q",
        name="Digest",
        kind="digest.send",
        payload={"a": 1},
        priority=8,
        attempt_count=0,
        loss_count=1,
        last_error="earlier",
        last_token=9,
        deferral=Deferral(until=START, reason="quiet hours"),
        idempotency_key="key",
        dependencies=["01890a5d-ac96-774b-bcce-b302099a8058"],
        replaces="01890a5d-ac96-774b-bcce-b302099a8059",
        auto_remove=True,
    )
    assert successor_of(decide_complete(job, NOW)) == Job(
        id=derive_job_id(job.id, START),
        tenant="guild-7",
        queue="q",
        name="Digest",
        kind="digest.send",
        payload={"a": 1},
        priority=8,
        due_at=START + DAY,
        status=JobStatus.READY,
        retry_policy=ONCE,
        idempotency_key="key",
        occurrence="digest.send:24h:2026-01-02T00:00:00.000000Z",
        occurrence_at=START + DAY,
        origin=job.id,
        recurrence=Recurrence(interval="24h", start=START, count=4),
        auto_remove=True,
        created_at=NOW,
        updated_at=NOW,
    )


def test_all_jobs_of_a_series_name_the_first() -> None:
    second = successor_of(decide_complete(running(origin="first"), NOW))
    assert second.origin == "first"


def test_a_late_end_gives_the_successor_the_same_id() -> None:
    soon = successor_of(decide_complete(running(), NOW))
    late = decide_complete(running(), NOW + 3 * DAY)
    assert successor_of(late).id == soon.id
    assert successor_of(late).due_at == START + 4 * DAY
    assert late.missed_count == 3


def test_a_retry_or_a_deferral_does_not_move_the_series() -> None:
    moved = running(due_at=START + timedelta(hours=7))
    assert successor_of(decide_complete(moved, NOW)).due_at == START + DAY
    unknown = running(occurrence_at=None, due_at=START)
    assert successor_of(decide_complete(unknown, NOW)).due_at == START + DAY


def test_the_last_of_a_series_says_why_it_is_the_last() -> None:
    change = decide_complete(
        running(recurrence=Recurrence(interval="24h", start=START, count=1)), NOW
    )
    assert change.successor is None
    assert change.series_end == "it has occurred as often as its count says"
    assert decide_complete(running(recurrence=None), NOW).series_end is None


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING])
def test_calling_a_job_off_ends_its_series(status: JobStatus) -> None:
    change = decide_cancel(running(status=status), "enough", NOW)
    assert change.successor is None
    assert change.series_end == "it was cancelled"
    assert decide_cancel(running(status=status, recurrence=None), "x", NOW).series_end is None


@always
@given(jobs(JobStatus.RUNNING), INSTANTS)
def test_a_series_goes_on_or_says_why_not(job: Job, now: datetime) -> None:
    change = decide_complete(job, now)
    has_either = (change.successor is None) is not (change.series_end is None)
    assert has_either is (job.recurrence is not None)


def test_a_series_remembers_since_when_it_has_not_succeeded() -> None:
    watched = Recurrence(interval="24h", start=START, alert_after="2h")
    failed = successor_of(decide_fail(running(recurrence=watched), "boom", NOW))
    assert failed.recurrence is not None
    assert failed.recurrence.unmet_since == START
    again = decide_fail(
        running(recurrence=failed.recurrence, occurrence_at=START + DAY), "boom", NOW + DAY
    )
    kept = successor_of(again).recurrence
    assert kept is not None
    assert kept.unmet_since == START
    well = decide_complete(running(recurrence=failed.recurrence, occurrence_at=START + DAY), NOW)
    met = successor_of(well).recurrence
    assert met is not None
    assert met.unmet_since is None


def test_a_series_without_an_alert_remembers_no_failure() -> None:
    failed = successor_of(decide_fail(running(), "boom", NOW)).recurrence
    assert failed is not None
    assert failed.unmet_since is None
