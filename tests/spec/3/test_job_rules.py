"""What the rail says about jobs that needs no store: states, backoff, stalls, recurrence."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.jobs import (
    RAIL_RETRIES,
    Change,
    Job,
    JobStatus,
    Recurrence,
    admit_job,
    decide_complete,
    decide_defer,
    decide_discard,
    decide_fail,
    decide_lease,
    decide_lost,
    is_due,
    is_stalled,
    make_job_id,
    rail_word,
    retry_after,
    retry_delay,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=60)
CHECK_IN = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0"


def word(job: Job) -> str:
    return rail_word(job.status, job.ending)


def taken(job: Job) -> Job:
    return decide_lease(job, "w", LEASE, job.due_at).job


def job_of_the_rail(**fields: object) -> Job:
    return a_job(retry_policy=RAIL_RETRIES, due_at=NOW, **fields)


def test_a_job_is_queued_then_processing_then_done() -> None:
    job = job_of_the_rail()
    running = taken(job)
    done = decide_complete(running, NOW).job
    assert [word(each) for each in (job, running, done)] == ["queued", "processing", "done"]


def test_a_failure_is_queued_again_and_the_fifth_is_dead() -> None:
    job = job_of_the_rail()
    words = []
    for _ in range(5):
        job = decide_fail(taken(job), "boom", NOW).job
        words.append((word(job), job.attempt_count))
    assert words == [("queued", 1), ("queued", 2), ("queued", 3), ("queued", 4), ("dlq", 5)]


def test_failed_is_what_the_handler_declared_hopeless() -> None:
    job = decide_discard(taken(job_of_the_rail()), "payload refused", NOW).job
    assert (word(job), job.last_error) == ("failed", "payload refused")


def test_the_waits_are_1_5_15_and_60_minutes() -> None:
    assert [retry_delay(RAIL_RETRIES, number) // 60 for number in range(1, 7)] == [
        *(1, 5, 15, 60, 60, 60)
    ]
    assert RAIL_RETRIES.max_attempts == 5


@pytest.mark.parametrize(("number", "exact", "most"), [(1, 60, 6), (2, 300, 30), (4, 3600, 30)])
def test_jitter_comes_on_top_and_is_never_early(number: int, exact: int, most: int) -> None:
    found = [
        retry_after(RAIL_RETRIES, number, chance / 100).total_seconds() for chance in range(100)
    ]
    assert found[0] == exact
    assert sorted(set(found)) == found
    assert exact <= min(found) <= max(found) < exact + most


def test_a_due_job_is_taken_with_a_lease_and_a_worker() -> None:
    job = job_of_the_rail()
    assert not is_due(job, NOW - timedelta(microseconds=1))
    assert is_due(job, NOW)
    lease = decide_lease(job, "worker-3", LEASE, NOW).job.lease
    assert lease is not None
    assert (lease.worker, lease.until) == ("worker-3", NOW + LEASE)


def test_a_stalled_job_is_queued_with_an_attempt_counted_and_a_delay() -> None:
    job = taken(job_of_the_rail())
    assert not is_stalled(job, NOW + LEASE)
    late = NOW + LEASE + timedelta(microseconds=1)
    assert is_stalled(job, late)
    rescued = decide_lost(job, late).job
    assert (word(rescued), rescued.attempt_count) == ("queued", 1)
    assert rescued.due_at == late + timedelta(minutes=1)
    assert rescued.lease is None


def series(now: datetime) -> Job:
    request = {
        "name": "mentor.checkin.ping",
        "queue": "default",
        "payload": {"pairId": 1},
        "recurrence": {"rrule": CHECK_IN, "zone": "Europe/London"},
    }
    return admit_job(request, job_id=make_job_id(now, 1), now=now)


def following(change: Change) -> Job:
    assert change.successor is not None
    return change.successor


def test_a_series_keeps_its_hour_and_its_fortnight_over_the_change_of_clocks() -> None:
    job = series(datetime(2026, 3, 2, tzinfo=UTC))
    dates = []
    for _ in range(4):
        dates.append(f"{job.due_at:%m-%d %H:%M}")
        job = following(decide_complete(taken(job), job.due_at))
    assert dates == ["03-02 18:00", "03-16 18:00", "03-30 17:00", "04-13 17:00"]


def test_the_next_job_of_a_series_carries_rule_zone_origin_and_its_own_name() -> None:
    first = series(NOW)
    second = following(decide_complete(taken(first), NOW + timedelta(days=30)))
    assert isinstance(second.recurrence, Recurrence)
    assert (second.recurrence.rrule, second.recurrence.zone) == (CHECK_IN, "Europe/London")
    assert second.recurrence.start == NOW
    assert second.origin == second.idempotency_key == first.id
    assert second.occurrence != first.occurrence
    assert second.payload == {"pairId": 1}


def test_a_dead_job_does_not_take_its_series_with_it() -> None:
    job = taken(series(NOW))
    change = decide_discard(job, "gone", job.due_at)
    assert word(change.job) == "failed"
    assert following(change).due_at == job.due_at + timedelta(days=14)


def test_a_deferred_job_keeps_its_attempts_and_its_occurrence() -> None:
    job = taken(series(NOW))
    until = job.due_at + timedelta(hours=13)
    deferred = decide_defer(job, until, "quiet hours", job.due_at).job
    assert (word(deferred), deferred.due_at, deferred.attempt_count) == ("queued", until, 0)
    assert deferred.occurrence_at == job.occurrence_at
    assert deferred.deferral is not None
    assert (deferred.deferral.until, deferred.deferral.reason) == (until, "quiet hours")


def test_a_status_of_the_record_is_one_state_of_the_rail() -> None:
    words = {rail_word(status) for status in JobStatus}
    assert words == {"queued", "processing", "done", "failed", "dlq"}
