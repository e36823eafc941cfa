"""How a run stands to the time it was meant for."""

from datetime import timedelta

from tests.unit.jobs.arbitrary import START

from rota.jobs import Overlap, Punctuality, Recurrence, assess_punctuality
from rota.testing import a_job

HOUR = timedelta(hours=1)


def hourly(overlap: Overlap = "skip") -> Recurrence:
    return Recurrence(interval="1h", start=START, overlap=overlap)


def test_a_run_on_time_is_not_a_catch_up() -> None:
    job = a_job(recurrence=hourly(), occurrence_at=START, due_at=START)
    assert assess_punctuality(job, START) == Punctuality(START, timedelta(0))
    late = assess_punctuality(job, START + HOUR / 2)
    assert (late.late_for, late.missed_count, late.is_catch_up) == (HOUR / 2, 0, False)


def test_after_downtime_one_run_hears_how_many_it_stands_for() -> None:
    job = a_job(recurrence=hourly(), occurrence_at=START, due_at=START)
    late = assess_punctuality(job, START + 5.5 * HOUR)
    assert (late.late_for, late.missed_count, late.is_catch_up) == (5.5 * HOUR, 5, True)


def test_occurrences_skipped_during_the_previous_run_are_reported_too() -> None:
    job = a_job(recurrence=hourly(), occurrence_at=START, due_at=START, missed_count=2)
    punctual = assess_punctuality(job, START)
    assert (punctual.missed_count, punctual.is_catch_up) == (2, False)
    assert assess_punctuality(job, START + HOUR).missed_count == 3


def test_a_deferral_does_not_move_what_the_run_was_meant_for() -> None:
    job = a_job(recurrence=hourly(), occurrence_at=START, due_at=START + HOUR / 2)
    assert assess_punctuality(job, START + HOUR / 2).scheduled_for == START


def test_where_runs_overlap_the_next_occurrence_has_a_job_of_its_own() -> None:
    job = a_job(recurrence=hourly("allow"), occurrence_at=START, due_at=START)
    late = assess_punctuality(job, START + 5 * HOUR)
    assert (late.missed_count, late.is_catch_up) == (0, False)


def test_a_single_job_was_meant_for_when_it_is_due() -> None:
    job = a_job(due_at=START)
    assert assess_punctuality(job, START + HOUR) == Punctuality(START, HOUR)
    assert assess_punctuality(job, START - HOUR).late_for == timedelta(0)
