"""When a job that recurs occurs next."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import INSTANTS, always, recurrences

from rota.jobs import (
    NextOccurrence,
    Recurrence,
    SeriesEnd,
    first_occurrence,
    make_trigger,
    next_occurrence,
    occurrence_key,
)
from rota.jobs.recurrence import MISSED_LIMIT

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TICK = timedelta.resolution


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


START = at("2026-03-02T00:00")  # a Monday


def following(
    recurrence: Recurrence, occurrence_at: datetime, now: datetime | None = None
) -> NextOccurrence:
    found = next_occurrence(recurrence, occurrence_at, occurrence_at if now is None else now)
    assert isinstance(found, NextOccurrence)
    return found


def ending(recurrence: Recurrence, occurrence_at: datetime, now: datetime | None = None) -> str:
    found = next_occurrence(recurrence, occurrence_at, occurrence_at if now is None else now)
    assert isinstance(found, SeriesEnd)
    return found.reason


def walk(recurrence: Recurrence) -> list[datetime]:
    """The whole series, as jobs that end at once make it."""
    first = first_occurrence(recurrence)
    assert first is not None
    found = [first]
    left = recurrence
    while isinstance(step := next_occurrence(left, found[-1], found[-1]), NextOccurrence):
        found.append(step.at)
        left = step.recurrence
    return found


def test_the_next_is_strictly_after_the_jobs_own_occurrence() -> None:
    daily = Recurrence(cron="0 9 * * *", start=START)
    nine = START + 9 * HOUR
    assert following(daily, nine, nine + HOUR) == NextOccurrence(nine + DAY, 0, daily)
    assert following(daily, nine, nine - HOUR).at == nine + DAY


def test_missed_occurrences_are_counted_and_do_not_run() -> None:
    daily = Recurrence(cron="0 9 * * *", start=START)
    nine = START + 9 * HOUR
    assert following(daily, nine, nine + 3 * DAY + HOUR) == NextOccurrence(nine + 4 * DAY, 3, daily)


@pytest.mark.parametrize(
    ("late_by", "expected", "missed_count"),
    [(DAY - TICK, 1, 0), (DAY, 1, 0), (DAY + TICK, 2, 1), (2 * DAY, 3, 2)],
)
def test_an_occurrence_is_past_only_after_its_instant(
    late_by: timedelta, expected: int, missed_count: int
) -> None:
    daily = Recurrence(interval="24h", start=START)
    found = following(daily, START, START + late_by)
    assert (found.at, found.missed_count) == (START + expected * DAY, missed_count)


def test_nine_in_the_morning_stays_nine_in_the_morning() -> None:
    london = Recurrence(
        rrule="FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
        zone="Europe/London",
        start=START,
    )
    before = at("2026-03-23T09:00")
    assert following(london, before).at == at("2026-03-30T08:00")


def test_every_second_week_keeps_its_phase_over_missed_weeks() -> None:
    rule = Recurrence(rrule="FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", start=START)
    found = following(rule, START, START + 3 * 7 * DAY)
    assert (found.at, found.missed_count) == (START + 4 * 7 * DAY, 1)
    every = Recurrence(interval="90m", start=START)
    assert following(every, START, START + 2 * HOUR).at == START + 3 * HOUR


def test_the_count_of_a_rule_is_counted_from_its_start() -> None:
    rule = Recurrence(rrule="FREQ=DAILY;COUNT=3", start=START)
    assert walk(rule) == [START, START + DAY, START + 2 * DAY]
    assert ending(rule, START + 2 * DAY) == "its rule has no further occurrence"
    assert ending(rule, START, START + 9 * DAY) == "its rule has no further occurrence"


@pytest.mark.parametrize(
    "when", [{"cron": "0 0 * * *"}, {"rrule": "FREQ=DAILY"}, {"interval": "24h"}]
)
def test_a_series_ends_with_its_count_missed_ones_included(when: dict[str, str]) -> None:
    daily = Recurrence(start=START, count=4, **when)  # type: ignore[arg-type] # texts, as they should be
    assert walk(daily) == [START + step * DAY for step in range(4)]
    found = following(daily, START, START + DAY + HOUR)
    assert (found.at, found.missed_count, found.recurrence.count) == (START + 2 * DAY, 1, 2)
    assert ending(daily, START, START + 99 * DAY) == "it has occurred as often as its count says"


def test_a_series_ends_with_its_until_which_is_part_of_it() -> None:
    daily = Recurrence(interval="24h", start=START, until=START + 2 * DAY)
    assert walk(daily) == [START + step * DAY for step in range(3)]
    assert ending(daily, START + 2 * DAY) == "its next occurrence would be after its until"


def test_a_gap_or_a_fold_is_treated_as_asked() -> None:
    night = {"zone": "Europe/London", "start": at("2026-03-28T00:00")}
    shifted = Recurrence(rrule="FREQ=DAILY;BYHOUR=1;BYMINUTE=30", **night)  # type: ignore[arg-type] # as given
    skipped = Recurrence(cron="30 1 * * *", **night)  # type: ignore[arg-type] # as given
    before = at("2026-03-28T01:30")
    assert following(shifted, before).at == at("2026-03-29T01:30")
    assert following(skipped, before).at == at("2026-03-30T00:30")
    october = at("2026-10-25T00:30")
    assert following(skipped, october).at == october + HOUR
    once = Recurrence(cron="30 1 * * *", gap="shift", fold="first", **night)  # type: ignore[arg-type] # as given
    assert following(once, october).at == october + 25 * HOUR
    assert following(once, before).at == at("2026-03-29T01:30")


def test_real_time_is_counted_from_the_start_in_either_spelling() -> None:
    spelled = [Recurrence(cron="@every 90m", start=START), Recurrence(interval="90m", start=START)]
    assert make_trigger(spelled[0]) == make_trigger(spelled[1])
    assert first_occurrence(spelled[0]) == START


def test_a_year_of_missed_minutes_is_counted_only_so_far() -> None:
    minutely = Recurrence(cron="* * * * *", start=START)
    found = following(minutely, START, START + 365 * DAY)
    assert (found.at, found.missed_count) == (
        START + 365 * DAY + timedelta(minutes=1),
        MISSED_LIMIT,
    )
    assert following(Recurrence(interval="1m", start=START), START, START + 365 * DAY) == (
        NextOccurrence(found.at, MISSED_LIMIT, Recurrence(interval="1m", start=START))
    )


def test_a_series_that_cannot_be_computed_ends_with_the_reason() -> None:
    lost = Recurrence(cron="* * * * *", zone="Mars/Olympus", start=START)
    assert ending(lost, START) == (
        'its next occurrence cannot be computed: Unknown time zone "Mars/Olympus"'
    )
    nothing = Recurrence(start=START)
    assert "cannot be computed" in ending(nothing, START)


def test_there_may_be_no_first_occurrence() -> None:
    assert first_occurrence(Recurrence(interval="1h", start=START, until=START - DAY)) is None
    assert first_occurrence(Recurrence(rrule="FREQ=DAILY;UNTIL=20250101", start=START)) is None


def test_the_first_occurrence_may_be_the_start_itself() -> None:
    assert first_occurrence(Recurrence(cron="0 0 * * *", start=START)) == START
    assert first_occurrence(Recurrence(cron="0 0 * * *", start=START + TICK)) == START + DAY


@always
@given(recurrences(), INSTANTS, st.integers(0, 10**10))
def test_the_next_lies_after_the_own_occurrence_and_on_the_trigger(
    recurrence: Recurrence, occurrence_at: datetime, late: int
) -> None:
    now = occurrence_at + timedelta(microseconds=late)
    found = next_occurrence(recurrence, occurrence_at, now)
    if isinstance(found, NextOccurrence):
        assert found.at > occurrence_at
        assert found.at >= now or found.missed_count == 0
        assert make_trigger(recurrence).next_after(found.at - TICK) == found.at
        assert recurrence.until is None or found.at <= recurrence.until
        assert found.recurrence.start == recurrence.start


@always
@given(recurrences())
def test_a_series_only_moves_forward(recurrence: Recurrence) -> None:
    short = Recurrence(
        cron=recurrence.cron,
        rrule=recurrence.rrule,
        interval=recurrence.interval,
        zone=recurrence.zone,
        start=recurrence.start,
        count=10,
    )
    series = walk(short)
    assert series[0] >= short.start
    assert all(earlier < later for earlier, later in pairwise(series))
    assert len(series) == (3 if "COUNT=3" in short.text else 10)


def test_an_occurrence_is_named_by_kind_rule_and_instant() -> None:
    weekly = Recurrence(rrule="FREQ=WEEKLY", start=START)
    key = occurrence_key("digest.send", weekly, START)
    assert key == "digest.send:FREQ=WEEKLY:2026-03-02T00:00:00.000000Z"
    assert occurrence_key("digest.send", weekly, START + TICK) != key


def test_a_rule_too_long_for_an_index_is_named_by_its_digest() -> None:
    dates = [f"20260{month}{day:02}" for month in range(1, 10) for day in range(1, 28)]
    long = [
        Recurrence(rrule=f"RRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:{','.join(chosen)}", start=START)
        for chosen in (dates, dates[1:])
    ]
    keys = {occurrence_key("digest.send", each, START) for each in long}
    assert len(keys) == 2
    assert all(len(key) < 200 for key in keys)
