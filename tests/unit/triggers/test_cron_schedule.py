"""What can be asked of a parsed expression; the answers around transitions are tested apart."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from rota.errors import CronCalculationError, InvalidCronExpressionError, InvalidInputError
from rota.triggers import Trigger
from rota.triggers.cron import CronTrigger, parse_cron, parse_stored_cron
from rota.triggers.zone import Fold

LONDON = ZoneInfo("Europe/London")
START = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAILY = parse_cron("0 9 * * *")


def test_instants_of_any_zone_go_in_and_utc_comes_out() -> None:
    found = DAILY.next_after(START.astimezone(ZoneInfo("Asia/Tokyo")), LONDON)
    assert found == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=45)), LONDON])
def test_any_tzinfo_is_a_zone(zone: timezone) -> None:
    assert DAILY.next_after(START, zone).astimezone(zone).hour == 9


def test_naive_instants_are_refused_by_name() -> None:
    naive = START.replace(tzinfo=None)
    for question in (DAILY.next_after, DAILY.previous_at, DAILY.matches):
        with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
            question(naive, LONDON)
    with pytest.raises(InvalidInputError, match="start must be an aware datetime"):
        DAILY.between(naive, START, LONDON)
    with pytest.raises(InvalidInputError, match="end must be an aware datetime"):
        DAILY.between(START, naive, LONDON)


def test_between_excludes_its_start_and_includes_its_end() -> None:
    nine = datetime(2026, 5, 1, 8, tzinfo=UTC)
    days = [nine + timedelta(days=count) for count in range(1, 4)]
    assert list(DAILY.between(nine, days[-1], LONDON)) == days
    assert list(DAILY.between(nine, days[-1], LONDON, limit=2)) == days[:2]
    assert list(DAILY.between(nine, days[-1], LONDON, limit=0)) == []
    assert list(DAILY.between(days[-1], nine, LONDON)) == []


def test_a_negative_limit_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        DAILY.between(START, START, LONDON, limit=-1)
    assert refusal.value.details == {"field": "limit", "value": -1}


def test_between_ends_with_the_calendar() -> None:
    start = datetime(9999, 12, 30, 12, tzinfo=UTC)
    assert len(list(DAILY.between(start, datetime.max.replace(tzinfo=UTC), UTC))) == 1
    east = timezone(timedelta(hours=14))
    last = datetime.max.replace(tzinfo=UTC)
    assert len(list(DAILY.between(start, last, east))) == 1
    assert list(DAILY.between(start + timedelta(days=1), last, east)) == []


def test_there_is_no_occurrence_beyond_the_ends_of_the_calendar() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    for zone in (UTC, east, west):
        with pytest.raises(CronCalculationError):
            DAILY.next_after(last, zone)
        with pytest.raises(CronCalculationError):
            DAILY.previous_at(first, zone)
        assert not DAILY.matches(first, zone)


def test_the_last_and_first_minutes_of_the_calendar_are_found() -> None:
    every_minute = parse_cron("* * * * *")
    last, first = datetime(9999, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
    assert every_minute.next_after(last - timedelta(seconds=1), UTC) == last
    assert every_minute.previous_at(first + timedelta(seconds=1), UTC) == first


def test_a_fold_at_the_end_of_the_calendar_is_shown_twice() -> None:
    new_york = ZoneInfo("America/New_York")
    cron = parse_cron("30 1 7 11 *")
    first = cron.next_after(datetime(9999, 11, 1, tzinfo=UTC), new_york)
    assert cron.next_after(first, new_york) == first + timedelta(hours=1)
    with pytest.raises(CronCalculationError):
        cron.next_after(first, new_york, fold="first")


def test_a_shift_at_the_end_of_the_calendar_is_found() -> None:
    """In 9999 New York's clocks go forward on 14 March, the last one there is."""
    new_york = ZoneInfo("America/New_York")
    cron = parse_cron("30 2 14 3 *")
    start = datetime(9999, 1, 1, tzinfo=UTC)
    shifted = datetime(9999, 3, 14, 7, 30, tzinfo=UTC)
    assert cron.next_after(start, new_york, gap="shift") == shifted
    with pytest.raises(CronCalculationError):
        cron.next_after(start, new_york)


def test_a_gap_at_the_beginning_of_a_zone_has_nothing_before_it() -> None:
    """New York's first transition, in 1883, skipped nothing; Apia's day of 2011 does."""
    apia = ZoneInfo("Pacific/Apia")
    noon = parse_cron("0 12 30 12 *")
    after = datetime(2012, 1, 5, tzinfo=UTC)
    assert noon.previous_at(after, apia).year == 2010
    assert noon.previous_at(after, apia, gap="shift") == datetime(2011, 12, 30, 22, tzinfo=UTC)


def test_equality_is_by_meaning() -> None:
    same = parse_cron(" 00 09 * * *")
    assert same == DAILY
    assert hash(same) == hash(DAILY)
    assert same.text != DAILY.text
    assert parse_cron("0 9 * * 1-5") != DAILY
    assert parse_cron("0 9 * * *", "extended") == DAILY


def test_it_shows_its_text() -> None:
    assert repr(DAILY) == "FieldCron(text='0 9 * * *')"


def test_a_bound_schedule_is_a_trigger() -> None:
    trigger: Trigger = CronTrigger(parse_cron("30 1 * * *"), LONDON, fold="first")
    first = trigger.next_after(datetime(2026, 10, 25, tzinfo=UTC))
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert trigger.next_after(first) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    assert trigger.next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_a_bound_schedule_also_looks_back() -> None:
    trigger = CronTrigger(parse_cron("30 1 * * *"), LONDON, fold="first")
    day = datetime(2026, 10, 26, tzinfo=UTC)
    assert trigger.previous_at(day) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert trigger.previous_at(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == trigger.previous_at(
        day
    )
    assert trigger.previous_at(datetime.min.replace(tzinfo=UTC)) is None


def test_a_stored_text_is_read_in_its_dialect_else_in_the_extended_one() -> None:
    assert parse_stored_cron("0 9 * * *") == parse_cron("0 9 * * *")
    assert parse_stored_cron("@daily") == parse_cron("@daily", "extended")
    with pytest.raises(InvalidCronExpressionError, match="exactly 5 fields"):
        parse_stored_cron("soon")


def test_a_day_that_february_lacks_is_in_march_also_in_a_leap_year() -> None:
    for year in (2023, 2024):
        found = parse_cron("0 0 30 * *").next_after(datetime(year, 2, 1, tzinfo=UTC), UTC)
        assert found == datetime(year, 3, 30, tzinfo=UTC)


def test_an_earlier_month_of_the_first_year_is_found() -> None:
    found = parse_cron("0 0 1 2 *").previous_at(datetime(1, 5, 15, tzinfo=UTC), UTC)
    assert found == datetime(1, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fold", "after_first", "at_second", "from_january", "from_december"),
    [
        ("both", "2026-10-25T01:30", "2026-10-25T00:30", "2026-10-25T00:30", "2026-10-25T01:30"),
        ("first", "2027-10-25T00:30", "2026-10-25T00:30", "2026-10-25T00:30", "2026-10-25T00:30"),
    ],
)
def test_a_yearly_time_within_a_fold_has_the_showings_that_the_rule_keeps(
    fold: Fold, after_first: str, at_second: str, from_january: str, from_december: str
) -> None:
    """Its neighbours are a year away, so a search must look at the fold before it leaves."""
    trigger = CronTrigger(parse_cron("30 1 25 10 *"), LONDON, fold=fold)
    in_first_showing = datetime(2026, 10, 25, 0, 45, tzinfo=UTC)
    in_second_showing = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)
    found = [
        trigger.next_after(in_first_showing),
        trigger.previous_at(in_second_showing),
        trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)),
        trigger.previous_at(datetime(2026, 12, 1, tzinfo=UTC)),
    ]
    expected = [after_first, at_second, from_january, from_december]
    assert [f"{at:%Y-%m-%dT%H:%M}" for at in found if at] == expected


def test_a_yearly_time_within_a_gap_is_skipped_or_moved_from_any_distance() -> None:
    cron = parse_cron("30 1 29 3 *")
    january, december = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    skipping, moving = CronTrigger(cron, LONDON), CronTrigger(cron, LONDON, gap="shift")
    assert skipping.next_after(january) == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)
    assert skipping.previous_at(december) == datetime(2025, 3, 29, 1, 30, tzinfo=UTC)
    moved = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert moving.next_after(january) == moving.previous_at(december) == moved
