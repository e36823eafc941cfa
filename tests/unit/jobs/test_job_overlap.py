"""Occurrences that fall due while the one before them runs."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.unit.jobs.arbitrary import START

from rota.jobs import (
    PAUSED_UNTIL,
    Job,
    JobStatus,
    Lease,
    NextOccurrence,
    Overlap,
    Recurrence,
    begin_beside,
    count_missed,
    decide_cancel,
    decide_complete,
    derive_job_id,
    next_occurrence,
)
from rota.testing import a_job

HOUR = timedelta(hours=1)


def hourly(overlap: Overlap = "skip", count: int | None = None) -> Recurrence:
    return Recurrence(interval="1h", start=START, overlap=overlap, count=count)


def running(overlap: Overlap, started_at: datetime, count: int | None = None) -> Job:
    lease = Lease(token=1, worker="w", taken_at=started_at, until=started_at + HOUR)
    return a_job(
        status=JobStatus.RUNNING,
        lease=lease,
        recurrence=hourly(overlap, count),
        occurrence_at=START,
        due_at=START,
    )


def ended(job: Job, now: datetime) -> tuple[Job, int]:
    change = decide_complete(job, now)
    assert change.successor is not None
    return change.successor, change.missed_count


def follow_beside(job: Job, now: datetime) -> Job:
    change = begin_beside(job, now)
    assert change is not None
    assert change.successor is not None
    return change.successor


def test_skip_drops_occurrences_during_the_run_and_reports_them_to_the_next() -> None:
    successor, missed_count = ended(running("skip", START), START + 2.5 * HOUR)
    assert (successor.due_at, missed_count, successor.missed_count) == (START + 3 * HOUR, 2, 2)


def test_a_stop_before_the_run_applies_to_that_run_only() -> None:
    job = running("skip", START + 3.5 * HOUR)
    successor, missed_count = ended(job, START + 4.5 * HOUR)
    assert (successor.due_at, missed_count, successor.missed_count) == (START + 5 * HOUR, 4, 1)


def test_queue_starts_the_first_that_came_during_the_run_at_once() -> None:
    successor, missed_count = ended(running("queue", START), START + 2.5 * HOUR)
    assert successor.due_at == successor.occurrence_at == START + HOUR
    assert (missed_count, successor.missed_count) == (0, 0)


def test_queue_does_not_run_twice_for_what_was_missed_before_it_began() -> None:
    job = running("queue", START + 3.5 * HOUR)
    assert ended(job, START + 3.6 * HOUR)[0].due_at == START + 4 * HOUR
    successor, missed_count = ended(job, START + 5.5 * HOUR)
    assert (successor.due_at, missed_count) == (START + 4 * HOUR, 3)


def test_queued_and_missed_ones_count() -> None:
    job = running("queue", START + 3.5 * HOUR, count=10)
    successor, _ = ended(job, START + 5.5 * HOUR)
    assert successor.recurrence == hourly("queue", count=6)


def test_without_a_run_there_is_nothing_to_queue() -> None:
    job = a_job(recurrence=hourly("queue"), occurrence_at=START, due_at=START)
    change = decide_cancel(job, "passed over", START + 2.5 * HOUR, ends_series=False)
    assert change.successor is not None
    assert change.successor.due_at == START + 3 * HOUR
    assert change.successor.missed_count == 0


def test_a_rule_that_has_ended_queues_nothing() -> None:
    rule = Recurrence(rrule="FREQ=HOURLY;COUNT=2", start=START, overlap="queue")
    assert next_occurrence(rule, START, START + 3 * HOUR, START) == NextOccurrence(
        START + HOUR, 0, rule
    )
    after_the_last = next_occurrence(rule, START, START + 3 * HOUR, START + 2 * HOUR)
    assert not isinstance(after_the_last, NextOccurrence)


def test_allow_makes_the_next_when_the_present_one_starts() -> None:
    job = running("allow", START)
    beside = follow_beside(job, START + timedelta(minutes=1))
    assert (beside.id, beside.due_at) == (derive_job_id(job.id, START), START + HOUR)
    assert ended(job, START + 5 * HOUR)[0].id == beside.id


def test_a_continued_job_creates_no_second_successor() -> None:
    job = running("allow", START)
    continued = replace(job, recurrence=replace(hourly("allow"), is_continued=True))
    assert begin_beside(continued, START) is None
    assert decide_complete(continued, START + HOUR).successor is None
    beside = follow_beside(job, START)
    assert beside.recurrence == hourly("allow")


def test_missed_occurrences_are_skipped_with_overlap_allow_too() -> None:
    beside = follow_beside(running("allow", START), START + 5.5 * HOUR)
    assert beside.due_at == START + 6 * HOUR


@pytest.mark.parametrize(
    "job", [a_job(), running("skip", START), running("queue", START), running("allow", START, 1)]
)
def test_nothing_else_begins_beside_a_run(job: Job) -> None:
    assert begin_beside(job, START) is None


def test_the_next_of_a_paused_series_waits_until_it_is_resumed() -> None:
    job = replace(running("skip", START), is_paused=True)
    successor, _ = ended(job, START + HOUR / 2)
    assert (successor.is_paused, successor.due_at) == (True, PAUSED_UNTIL)
    assert successor.occurrence_at == START + HOUR


def test_a_series_that_cannot_be_computed_has_missed_nothing_that_is_known() -> None:
    nowhere = Recurrence(cron="0 * * * *", zone="Nowhere/Land", start=START)
    assert count_missed(nowhere, START, START + 9 * HOUR) == 0
    assert count_missed(hourly(), START, START + 9 * HOUR) == 9
