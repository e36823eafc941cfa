"""The words of specification 4 about the one job record."""

from tests.unit.poller.polling import HOUR, MINUTE, NOW, SECOND

from rota.jobs import JobStatus, Recurrence
from rota.poller import JobUpdate
from rota.poller.jobs import as_polled, is_locked_by, lock_job, update_job, wakes_at
from rota.testing import a_job


def test_a_job_sleeps_until_it_is_due_and_a_locked_one_until_the_lock_ends() -> None:
    job = a_job(due_at=NOW)
    assert wakes_at(job) == NOW
    locked = lock_job(job, "me", NOW + MINUTE, NOW + SECOND)
    assert wakes_at(locked) == NOW + MINUTE
    assert wakes_at(a_job(status=JobStatus.COMPLETED)) is None


def test_a_lock_has_a_greater_token_than_any_before() -> None:
    first = lock_job(a_job(due_at=NOW), "me", NOW + MINUTE, NOW)
    second = lock_job(first, "you", NOW + HOUR, NOW + MINUTE)
    assert (first.status, first.updated_at, first.due_at) == (JobStatus.RUNNING, NOW, NOW)
    assert (is_locked_by(first, 1), is_locked_by(second, 1), is_locked_by(second, 2)) == (
        True,
        False,
        True,
    )
    assert not is_locked_by(a_job(), 0)


def test_an_update_ends_the_lock_and_writes_what_is_given() -> None:
    locked = lock_job(a_job(due_at=NOW, auto_remove=True), "me", NOW + MINUTE, NOW)
    later = NOW + SECOND
    unchanged = update_job(locked, JobUpdate(), later)
    assert (unchanged.status, unchanged.lease, unchanged.due_at) == (JobStatus.READY, None, NOW)
    assert (unchanged.auto_remove, unchanged.updated_at) == (True, later)
    moved = update_job(locked, JobUpdate(sleep_until=NOW + HOUR, auto_remove=False), later)
    assert (moved.status, moved.due_at, moved.auto_remove) == (JobStatus.READY, NOW + HOUR, False)
    done = update_job(locked, JobUpdate(sleep_until=None), later)
    assert (done.status, done.lease, wakes_at(done)) == (JobStatus.COMPLETED, None, None)


def test_a_poller_is_given_the_job_as_it_was() -> None:
    recurrence = Recurrence(cron="0 9 * * *", zone="Europe/London", start=NOW, until=NOW + HOUR)
    job = as_polled(
        a_job(due_at=NOW, recurrence=recurrence, payload={"a": 1}, auto_remove=True), token=7
    )
    assert (job.sleep_until, job.interval, job.repeat_until) == (NOW, "0 9 * * *", NOW + HOUR)
    assert (job.zone, job.auto_remove, job.payload, job.lock) == (
        "Europe/London",
        True,
        {"a": 1},
        7,
    )


def test_a_job_that_does_not_recur_has_neither_interval_nor_zone() -> None:
    job = as_polled(a_job(due_at=NOW), token=1)
    assert (job.interval, job.repeat_until, job.zone) == (None, None, None)
