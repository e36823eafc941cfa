"""Jobs and series at the edges of their rules."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInputError, InvalidJobError
from rota.jobs import (
    PAUSED_UNTIL,
    Deferral,
    Ending,
    JobStatus,
    NextOccurrence,
    Recurrence,
    RetryPolicy,
    decide_complete,
    decide_discard,
    decide_fail,
    decide_lost,
    next_occurrence,
)
from rota.jobs.fields import read_encoded_payload
from rota.jobs.job_state import parse_states
from rota.jobs.recurrence import (
    MISSED,
    alert_at,
    begin_beside,
    is_missed,
    is_same_timing,
    is_skipped,
    planned_start,
    reschedule,
    series_of,
    start_at,
)
from rota.jobs.transitions import LONGEST_REPORT, follow_policy, shorten_report
from rota.jobs.validation import read_retry
from rota.testing import a_job

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
TICK = timedelta(microseconds=1)
HOURLY = Recurrence(interval="1h", start=START)


def test_an_alert_counts_from_the_last_success_else_from_the_occurrence() -> None:
    rule = replace(HOURLY, alert_after="2h")
    job = a_job(recurrence=rule, due_at=START + HOUR)
    assert alert_at(a_job()) is None
    assert alert_at(a_job(recurrence=HOURLY)) is None
    assert alert_at(job) == START + 3 * HOUR
    assert alert_at(replace(job, occurrence_at=START)) == START + 2 * HOUR
    unmet = replace(rule, unmet_since=START - HOUR)
    assert alert_at(replace(job, recurrence=unmet)) == START + HOUR


def test_rules_have_the_same_timing_if_all_that_says_when_is_equal() -> None:
    assert is_same_timing(HOURLY, replace(HOURLY, catch_up="all"))
    assert not is_same_timing(None, HOURLY)
    for other in ({"interval": "2h"}, {"until": START}, {"jitter": "5m"}):
        assert not is_same_timing(HOURLY, replace(HOURLY, **other))


def test_an_occurrence_that_starts_at_this_very_instant_is_past() -> None:
    rule = replace(HOURLY, jitter="30m")
    third = START + 3 * HOUR
    now = start_at(rule, "id", third)
    assert third < now < third + HOUR
    found = next_occurrence(rule, START, now, series_id="id")
    assert isinstance(found, NextOccurrence)
    assert (found.at, found.missed_count) == (START + 4 * HOUR, 3)


def test_a_series_goes_on_beside_a_job_from_its_occurrence_else_from_when_it_is_due() -> None:
    rule = replace(HOURLY, overlap="allow")
    first = a_job(status=JobStatus.RUNNING, recurrence=rule, due_at=START)
    moved = replace(first, occurrence_at=START + HOUR, due_at=START + 5 * HOUR)
    expected = ((first, START + HOUR), (moved, START + 2 * HOUR))
    for job, occurrence_at in expected:
        change = begin_beside(job, START)
        assert change is not None
        assert change.successor is not None
        assert change.successor.occurrence_at == occurrence_at
    assert begin_beside(replace(first, recurrence=HOURLY), START) is None


def test_a_job_is_planned_for_its_occurrence_with_the_jitter_of_its_series() -> None:
    rule = replace(HOURLY, jitter="30m")
    single = a_job(due_at=START + HOUR)
    assert planned_start(single) == START + HOUR
    assert planned_start(replace(single, occurrence_at=START)) == START
    assert planned_start(replace(single, recurrence=rule)) == START + HOUR
    of_series = replace(single, recurrence=rule, occurrence_at=START, origin="first")
    assert series_of(of_series) == "first"
    assert planned_start(of_series) == start_at(rule, "first", START) != START


def test_a_job_is_skipped_only_if_it_was_cancelled_for_being_missed() -> None:
    skipped = a_job(status=JobStatus.FAILED, ending=Ending.CANCELLED, last_error=MISSED)
    assert is_skipped(skipped)
    assert not is_skipped(replace(skipped, last_error="no"))
    assert not is_skipped(replace(skipped, ending=Ending.EXHAUSTED))


def test_a_job_is_missed_a_minute_after_it_could_start() -> None:
    rule = replace(HOURLY, catch_up="skip")
    job = a_job(recurrence=rule, due_at=START, created_at=START)
    minute = timedelta(minutes=1)
    assert not is_missed(job, START + minute)
    assert is_missed(job, START + minute + timedelta.resolution)
    assert not is_missed(replace(job, attempt_count=1), START + HOUR)
    assert not is_missed(replace(job, recurrence=HOURLY), START + HOUR)
    assert not is_missed(replace(job, created_at=START + HOUR), START + HOUR)


def test_a_retry_is_a_policy_its_fields_or_a_number_of_attempts() -> None:
    assert read_retry(3).max_attempts == 3
    assert read_retry({"max_attempts": 4}).max_attempts == 4
    assert read_retry(RetryPolicy(max_attempts=5)) == RetryPolicy(max_attempts=5)
    for bad, field in ((True, "retry"), (0, "retry.max_attempts")):
        with pytest.raises(InvalidJobError) as refusal:
            read_retry(bad)
        assert refusal.value.field == field


def test_a_report_that_is_too_long_keeps_its_ends_within_the_limit() -> None:
    whole = "a" * LONGEST_REPORT
    assert shorten_report(whole) == whole
    cut = shorten_report(f"begin{whole}end")
    assert cut is not None
    assert LONGEST_REPORT - 2 <= len(cut) <= LONGEST_REPORT
    assert (cut[:5], cut[-3:]) == ("begin", "end")
    assert shorten_report("") is None


@pytest.mark.parametrize("payload", [{"a": 1}, {"a": {"b": [1, None]}}, {"a": "x\0y"}, {}])
def test_a_payload_in_json_is_read_like_any_other(payload: dict[str, Any]) -> None:
    encoded = json.dumps(payload).encode()
    if "\0" in str(payload.get("a")):
        with pytest.raises(InvalidJobError, match="NUL"):
            read_encoded_payload(encoded)
        return
    assert read_encoded_payload(encoded) == payload


def test_a_word_that_is_not_a_state_is_named_up_to_forty_characters() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_states("due," + "x" * 99)
    assert refusal.value.message.endswith(f'got "{"x" * 40}"')


def test_a_job_that_was_held_back_was_so_once_unless_it_says_more() -> None:
    assert Deferral(until=START, reason="quiet").count == 1


def test_an_alert_or_a_start_beyond_the_calendar_does_not_come_later() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    rule = replace(HOURLY, alert_after="2h", jitter="24h")
    assert alert_at(a_job(recurrence=rule, due_at=last)) is None
    assert start_at(rule, "s", last) == last


def test_hosts_of_all_versions_agree_on_the_jitter_of_an_occurrence() -> None:
    rule = replace(HOURLY, jitter="1s")
    delays = [(start_at(rule, series, START) - START) / MILLISECOND for series in "abcdefgh"]
    assert delays == [661, 469, 364, 481, 811, 889, 552, 631]
    assert start_at(rule, "a", START + HOUR) - START - HOUR != delays[0] * MILLISECOND
    assert start_at(HOURLY, "s", START) == START


def test_the_last_occurrence_of_a_series_has_no_job_beside_it() -> None:
    rule = replace(HOURLY, overlap="allow")
    job = a_job(status=JobStatus.RUNNING, recurrence=rule, due_at=START)
    beside = begin_beside(job, START)
    assert beside is not None
    assert beside.successor is not None
    assert beside.successor.due_at == START + HOUR
    assert (beside.path, beside.expected_token) == ((JobStatus.RUNNING,), job.last_token)
    assert begin_beside(replace(job, recurrence=replace(rule, count=1)), START) is None
    assert begin_beside(replace(job, recurrence=replace(rule, is_continued=True)), START) is None
    assert begin_beside(replace(job, recurrence=HOURLY), START) is None


def test_a_job_that_has_begun_or_is_due_keeps_its_occurrence_under_a_new_rule() -> None:
    rule = Recurrence(interval="2h", start=START)
    waiting = a_job(recurrence=HOURLY, due_at=START + HOUR, created_at=START)
    kept = {"recurrence": rule}
    assert reschedule(replace(waiting, status=JobStatus.RUNNING), rule, START) == kept
    assert reschedule(replace(waiting, attempt_count=1), rule, START) == kept
    assert reschedule(waiting, rule, START + HOUR) == kept
    moved = {**kept, "occurrence_at": START + 2 * HOUR, "due_at": START + 2 * HOUR}
    assert reschedule(waiting, rule, START + TICK) == moved
    paused = replace(waiting, is_paused=True)
    assert reschedule(paused, rule, START + TICK) == {**moved, "due_at": PAUSED_UNTIL}
    over = replace(rule, until=START)
    assert reschedule(waiting, over, START + TICK) == {"recurrence": over}


def test_a_new_rule_keeps_what_the_series_has_come_to() -> None:
    old = replace(HOURLY, is_continued=True, unmet_since=START)
    job = a_job(recurrence=old, due_at=START)
    watched = replace(HOURLY, alert_after="2h")
    assert reschedule(job, HOURLY, START) == {"recurrence": replace(HOURLY, is_continued=True)}
    assert reschedule(job, watched, START) == {"recurrence": replace(old, alert_after="2h")}
    assert reschedule(a_job(due_at=START), watched, START) == {"recurrence": watched}


def test_the_stored_policy_decides_about_a_failed_or_lost_attempt() -> None:
    leased = a_job(status=JobStatus.RUNNING, retry_policy=RetryPolicy(max_attempts=1))
    stored = replace(leased, retry_policy=RetryPolicy(max_attempts=2))
    for dead in (decide_fail(leased, "boom", START), decide_lost(leased, START)):
        assert dead.job.status is JobStatus.FAILED
        again = follow_policy(dead, stored)
        assert again.job.status is JobStatus.READY
        assert again.job.retry_policy == stored.retry_policy
        assert again.job.last_error == dead.job.last_error
        assert again.attempt is dead.attempt
        assert follow_policy(dead, leased) is dead
    discarded = decide_discard(leased, "bad", START)
    assert follow_policy(discarded, stored) is discarded
    completed = decide_complete(leased, START)
    assert follow_policy(completed, stored) is completed


def test_a_completion_knows_how_long_it_lasted() -> None:
    leased = a_job(status=JobStatus.RUNNING)
    completion = decide_complete(leased, START + HOUR, started_at=START).job.completion
    assert completion is not None
    assert completion.lasted_for == HOUR
