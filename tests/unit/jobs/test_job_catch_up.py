"""Missed occurrences: covered by one run, skipped, or run one by one; and the jitter of starts."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace
from tests.unit.jobs.arbitrary import START

from rota.errors import InvalidJobError
from rota.jobs import (
    CatchUp,
    Job,
    JobRequest,
    JobStatus,
    Lease,
    Overlap,
    Recurrence,
    admit_job,
    assess_punctuality,
    begin_beside,
    decide_complete,
    decide_skip,
    is_missed,
    make_job_id,
    start_at,
)
from rota.jobs.recurrence import CATCH_UP_LIMIT, parse_jitter
from rota.testing import a_job

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
LONDON = ZoneInfo("Europe/London")


def running(
    catch_up: CatchUp,
    *,
    at: datetime = START,
    started_at: datetime | None = None,
    overlap: Overlap = "skip",
    **rule: object,
) -> Job:
    fields = {"interval": "1h", "start": START} | rule
    recurrence = Recurrence(catch_up=catch_up, overlap=overlap, **fields)  # type: ignore[arg-type] # each test gives valid fields
    taken_at = started_at or at
    lease = Lease(token=1, worker="w", taken_at=taken_at, until=taken_at + HOUR)
    return a_job(
        status=JobStatus.RUNNING,
        lease=lease,
        last_token=1,
        recurrence=recurrence,
        occurrence_at=at,
        due_at=at,
        created_at=at - HOUR,
    )


def follow(job: Job, now: datetime) -> Job:
    successor = decide_complete(job, now).successor
    assert successor is not None
    lease = Lease(token=1, worker="w", taken_at=now, until=now + HOUR)
    return replace(successor, status=JobStatus.RUNNING, lease=lease, last_token=1)


def test_all_runs_each_missed_occurrence_in_order_and_then_waits() -> None:
    now = START + 3.5 * HOUR
    job, found = running("all", started_at=now), []
    for _ in range(4):
        job = follow(job, now)
        found.append(job.occurrence_at)
    assert found == [START + HOUR, START + 2 * HOUR, START + 3 * HOUR, START + 4 * HOUR]
    assert job.due_at > now


def test_all_tells_no_handler_of_missed_occurrences_that_run_themselves() -> None:
    now = START + 3.5 * HOUR
    told = assess_punctuality(running("all", started_at=now), now)
    assert (told.missed_count, told.is_catch_up, told.late_for) == (0, False, 3.5 * HOUR)


def test_all_queues_what_comes_due_during_a_run() -> None:
    job = running("all", started_at=START)
    assert follow(job, START + 2.5 * HOUR).occurrence_at == START + HOUR


def test_all_in_parallel_begins_the_next_missed_occurrence_at_once() -> None:
    now = START + 3.5 * HOUR
    beside = begin_beside(running("all", started_at=now, overlap="allow"), now)
    assert beside is not None
    assert beside.successor is not None
    assert beside.successor.due_at == START + HOUR


@pytest.mark.parametrize(
    "rule", [{"interval": "1h"}, {"interval": None, "cron": "0 * * * *"}], ids=["interval", "cron"]
)
def test_all_is_bounded_and_counts_what_it_drops(rule: dict[str, Any]) -> None:
    assert CATCH_UP_LIMIT == 1000
    now = START + (CATCH_UP_LIMIT + 500) * HOUR + MINUTE
    change = decide_complete(running("all", started_at=now, **rule), now)
    assert change.successor is not None
    assert change.successor.occurrence_at == START + 501 * HOUR
    assert change.missed_count == change.successor.missed_count == 500


def test_all_counts_every_run_towards_the_count() -> None:
    now = START + 3.5 * HOUR
    job = running("all", started_at=now, count=3)
    job = follow(follow(job, now), now)
    assert job.occurrence_at == START + 2 * HOUR
    change = decide_complete(job, now)
    assert change.successor is None
    assert change.series_end == "it has occurred as often as its count says"


def test_all_runs_each_day_of_a_week_with_a_clock_change() -> None:
    start = datetime(2026, 3, 27, 1, 30, tzinfo=UTC)
    rule: dict[str, Any] = {
        "interval": None,
        "cron": "30 1 * * *",
        "zone": "Europe/London",
        "start": start,
    }
    now = start + timedelta(days=4)
    job = running("all", at=start, started_at=now, gap="shift", **rule)
    days = []
    while job.due_at <= now:
        days.append(job.due_at.astimezone(LONDON))
        job = follow(job, now)
    assert [f"{at:%d %H:%M}" for at in days] == [
        "27 01:30",
        "28 01:30",
        "29 02:30",  # 01:30 does not exist that day
        "30 01:30",
        "31 01:30",
    ]


def test_skip_runs_an_occurrence_only_within_a_minute_of_its_time() -> None:
    job = running("skip")
    assert not is_missed(job, START + MINUTE)
    assert is_missed(job, START + MINUTE + timedelta(microseconds=1))
    assert not is_missed(running("once"), START + HOUR)
    assert not is_missed(running("all"), START + HOUR)


def test_skip_does_not_skip_a_retry_or_what_was_moved() -> None:
    late = START + 2 * HOUR
    assert not is_missed(replace(running("skip"), attempt_count=1), late)
    assert not is_missed(replace(running("skip"), due_at=late), late)


def test_a_skipped_occurrence_ends_and_the_next_one_reports_it() -> None:
    now = START + 3.5 * HOUR
    change = decide_skip(replace(running("skip", started_at=now), missed_count=2), "late", now)
    assert (change.job.status, change.job.ending, change.attempt) == ("FAILED", "cancelled", None)
    assert change.successor is not None
    assert change.successor.due_at == START + 4 * HOUR
    # Two from before, the skipped one, and those at 1, 2 and 3.
    assert (change.missed_count, change.successor.missed_count) == (4, 6)


def test_a_queued_occurrence_is_not_skipped_as_late() -> None:
    now = START + 90 * MINUTE
    successor = follow(running("skip", started_at=START, overlap="queue"), now)
    assert successor.occurrence_at == START + HOUR
    assert not is_missed(successor, now)


def test_a_series_that_skips_does_not_begin_in_the_past() -> None:
    now = START + 90 * MINUTE
    for catch_up, first in (("skip", START + 2 * HOUR), ("once", START), ("all", START)):
        rule = Recurrence(interval="1h", start=START, catch_up=catch_up)  # type: ignore[arg-type] # the three choices
        assert admit(rule, now).due_at == first


def admit(rule: Recurrence | dict[str, object], now: datetime = START, number: int = 1) -> Job:
    request = JobRequest(name="n", queue="q", recurrence=rule)  # type: ignore[arg-type] # admission reads mappings, too
    return admit_job(request, job_id=make_job_id(now, number), now=now)


def test_jitter_moves_the_start_and_keeps_the_occurrence() -> None:
    job = admit({"cron": "0 * * * *", "jitter": "5m", "start": START})
    occurrence_at = job.occurrence_at
    assert occurrence_at is not None
    assert occurrence_at < job.due_at <= occurrence_at + 5 * MINUTE
    recurrence = job.recurrence
    assert recurrence is not None
    assert job.due_at == start_at(recurrence, job.id, occurrence_at)


def test_jitter_is_the_same_for_every_computation_and_differs_between_series() -> None:
    rule = Recurrence(interval="1h", start=START, jitter="10m")
    offsets = [start_at(rule, f"series {number}", START) - START for number in range(200)]
    assert offsets == [start_at(rule, f"series {number}", START) - START for number in range(200)]
    assert len(set(offsets)) > 190
    assert all(timedelta(0) <= offset <= 10 * MINUTE for offset in offsets)
    assert sum(offsets, timedelta(0)) / len(offsets) == pytest.approx(5 * MINUTE, rel=0.2)


def test_an_occurrence_is_not_missed_before_its_jittered_start() -> None:
    job = running("once", jitter="50m")
    recurrence = job.recurrence
    assert recurrence is not None
    second = START + HOUR
    second_start = start_at(recurrence, job.id, second)
    assert second_start > second
    just_before = second_start - timedelta(seconds=1)
    successor = follow(job, just_before)
    assert (successor.occurrence_at, successor.due_at) == (second, second_start)
    assert follow(job, second_start + timedelta(seconds=1)).occurrence_at == START + 2 * HOUR


def test_jitter_does_not_count_as_lateness() -> None:
    job = running("once", jitter="30m")
    recurrence = job.recurrence
    assert recurrence is not None
    start = start_at(recurrence, job.id, START)
    assert assess_punctuality(job, start).late_for == timedelta(0)


def test_skip_measures_lateness_from_the_jittered_start() -> None:
    job = admit({"interval": "1h", "jitter": "30m", "catch_up": "skip", "start": START}, number=7)
    assert job.due_at > START + MINUTE
    assert not is_missed(job, job.due_at + MINUTE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"jitter": "soon"}, 'jitter must be a duration such as 30s or 5m, got "soon"'),
        ({"jitter": "25h"}, 'jitter must be at most 24h, got "25h"'),
        ({"jitter": "1h"}, "jitter must be shorter than the time between occurrences, which is"),
        ({"jitter": 5}, "jitter must be a duration such as 30s or 5m, got int"),
        ({"catch_up": "never"}, "catch_up must be one of once, skip, all"),
    ],
)
def test_bad_choices_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidJobError, match=message):
        admit({"interval": "1h", "start": START} | fields)


def test_a_jitter_is_read_like_an_interval() -> None:
    assert parse_jitter("1m30s") == 90 * timedelta(seconds=1)
