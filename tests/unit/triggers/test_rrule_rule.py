"""What a rule promises: answers, added and excluded dates, limits, equality."""

import pickle
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.triggers import Trigger
from rota.triggers.rrule import RecurrenceRule, parse_rrule
from rota.triggers.rrule_parts import Budget, complete_parts
from rota.triggers.rrule_walls import make_series
from rota.triggers.zone import wall_time

LONDON = ZoneInfo("Europe/London")
START = datetime.fromisoformat("2024-01-01T09:00")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def _rule(text: str, zone: ZoneInfo = LONDON, start: datetime = START) -> RecurrenceRule:
    return parse_rrule(text, zone=zone, start=start)


def _all(rule: RecurrenceRule, limit: int = 20) -> list[str]:
    return [f"{at:%m-%d %H:%M}" for at in rule.between(LONG_AGO, FAR, limit=limit)]


def test_a_rule_is_a_trigger() -> None:
    trigger: Trigger = _rule("FREQ=DAILY")
    assert trigger.next_after(LONG_AGO) == datetime(2024, 1, 1, 9, tzinfo=UTC)


def test_next_is_strictly_after_and_previous_may_be_the_instant_itself() -> None:
    rule = _rule("FREQ=DAILY")
    noon = datetime(2024, 7, 1, 8, tzinfo=UTC)
    assert rule.next_after(noon - SECOND) == noon
    assert rule.next_after(noon) == noon + timedelta(days=1)
    assert rule.next_after(noon + SECOND / 2) == noon + timedelta(days=1)
    assert rule.next_after(noon - SECOND / 2) == noon
    assert rule.previous_at(noon) == noon
    assert rule.previous_at(noon - SECOND / 2) == noon - timedelta(days=1)


def test_an_instant_may_be_given_in_any_zone() -> None:
    tokyo = timezone(timedelta(hours=9))
    found = _rule("FREQ=DAILY").next_after(datetime(2024, 1, 2, 18, tzinfo=tokyo))
    assert found == datetime(2024, 1, 3, 9, tzinfo=UTC)
    assert found.tzinfo is UTC


def test_naive_instants_are_refused_by_name() -> None:
    rule = _rule("FREQ=DAILY")
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        rule.next_after(START)
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        rule.previous_at(START)
    with pytest.raises(InvalidInputError, match="start must be an aware datetime"):
        rule.between(START, FAR)
    with pytest.raises(InvalidInputError, match="end must be an aware datetime"):
        rule.between(FAR, START)


def test_between_leaves_out_its_start_and_includes_its_end() -> None:
    rule = _rule("FREQ=DAILY")
    found = list(rule.between(rule.start, rule.start + timedelta(days=2)))
    assert found == [rule.start + timedelta(days=1), rule.start + timedelta(days=2)]
    assert list(rule.between(rule.start, rule.start)) == []
    assert list(rule.between(rule.start, FAR, limit=0)) == []
    assert len(list(rule.between(rule.start, FAR, limit=3))) == 3
    with pytest.raises(InvalidInputError, match="limit must not be negative, got -1"):
        rule.between(rule.start, FAR, limit=-1)


def test_the_start_is_an_occurrence_only_if_the_rule_allows_it() -> None:
    assert _all(_rule("FREQ=DAILY;COUNT=1")) == ["01-01 09:00"]
    assert _all(_rule("FREQ=DAILY;BYHOUR=10;COUNT=1")) == ["01-01 10:00"]
    assert _all(_rule("FREQ=WEEKLY;BYDAY=TU;COUNT=1")) == ["01-02 09:00"]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20240103", "01-03 09:00"),
        ("20240103T090000", "01-03 09:00"),
        ("20240103T085959", "01-02 09:00"),
        ("20240103T090000Z", "01-03 09:00"),
        ("20240103T085959Z", "01-02 09:00"),
    ],
)
def test_until_is_inclusive(until: str, last: str) -> None:
    rule = _rule(f"FREQ=DAILY;UNTIL={until}")
    assert _all(rule)[-1] == last
    final = rule.previous_at(FAR)
    assert final is not None
    assert f"{final:%m-%d %H:%M}" == last
    assert rule.next_after(final) is None


def test_until_before_the_start_leaves_nothing() -> None:
    rule = _rule("FREQ=DAILY;UNTIL=20231231")
    assert _all(rule) == []
    assert rule.previous_at(FAR) is None


def test_until_in_wall_time_is_in_the_zone_of_the_rule() -> None:
    rule = _rule(
        "FREQ=HOURLY;UNTIL=20240701T100000", start=datetime.fromisoformat("2024-07-01T08:00")
    )
    assert _all(rule) == ["07-01 07:00", "07-01 08:00", "07-01 09:00"]


def test_until_in_a_fold_lets_both_showings_pass() -> None:
    start = datetime.fromisoformat("2024-10-27T00:30")
    rule = _rule("FREQ=HOURLY;UNTIL=20241027T013000", start=start)
    assert _all(rule) == ["10-26 23:30", "10-27 00:30", "10-27 01:30"]


@pytest.mark.parametrize(
    ("zone", "day", "last"),
    [
        ("America/Sao_Paulo", date(2018, 11, 3), "11-04 02:59"),  # midnight is skipped
        ("America/Sao_Paulo", date(2018, 2, 17), "02-18 02:59"),  # 23:00 comes twice
        ("Pacific/Apia", date(2011, 12, 29), "12-30 09:59"),  # the next day is skipped
        ("Pacific/Apia", date(2011, 12, 30), "12-30 09:59"),  # the day itself is skipped
        ("America/Toronto", date(1919, 3, 30), "03-31 04:29"),  # 23:30 became 00:30
    ],
)
def test_until_a_date_lasts_until_the_clock_shows_the_next(zone: str, day: date, last: str) -> None:
    start = datetime.combine(day, datetime.min.time()) - timedelta(days=2)
    rule = _rule(f"FREQ=MINUTELY;UNTIL={day:%Y%m%d}", ZoneInfo(zone), start)
    found = rule.previous_at(FAR)
    assert found is not None
    assert f"{found:%m-%d %H:%M}" == last


def test_added_dates_join_the_others_in_order() -> None:
    rule = _rule(
        "RRULE:FREQ=DAILY;COUNT=2\n"
        "RDATE:20240101T120000,20240101T090000,20231201T080000Z\n"
        "RDATE;VALUE=DATE:20240702"
    )
    assert _all(rule) == [
        *("12-01 08:00", "01-01 09:00", "01-01 12:00", "01-02 09:00", "07-02 08:00"),
    ]
    assert rule.previous_at(FAR) == datetime(2024, 7, 2, 8, tzinfo=UTC)
    assert rule.previous_at(datetime(2024, 1, 1, 13, tzinfo=UTC)) == datetime(
        2024, 1, 1, 12, tzinfo=UTC
    )
    assert rule.previous_at(datetime(2023, 12, 5, tzinfo=UTC)) == datetime(
        2023, 12, 1, 8, tzinfo=UTC
    )
    assert rule.previous_at(datetime(2023, 1, 5, tzinfo=UTC)) is None


def test_a_step_over_years_may_land_on_the_last_day_a_rule_may_use() -> None:
    last = datetime(9998, 12, 31, 9)  # noqa: DTZ001 - a wall time
    rule = _rule("FREQ=DAILY;INTERVAL=1000", start=last - timedelta(days=1000))
    begin = last.replace(tzinfo=UTC) - timedelta(days=999)
    assert rule.next_after(begin) == last.replace(tzinfo=UTC)
    assert rule.next_after(last.replace(tzinfo=UTC)) is None


def test_an_added_date_at_the_very_end_of_a_list_is_in_it() -> None:
    rule = _rule("RRULE:FREQ=DAILY;COUNT=1\nRDATE:20240105T120000")
    added = datetime(2024, 1, 5, 12, tzinfo=UTC)
    day = timedelta(days=1)
    assert list(rule.between(added - day, added)) == [added]
    assert list(rule.between(added - day, added - SECOND)) == []
    assert list(rule.between(added, added + day)) == []
    assert rule.previous_at(added) == added
    assert rule.previous_at(added - SECOND) == datetime(2024, 1, 1, 9, tzinfo=UTC)


def test_excluded_dates_are_taken_away_and_still_counted() -> None:
    rule = _rule(
        "RRULE:FREQ=DAILY;COUNT=5\n"
        "EXDATE:20240101T090000,20240103T090000Z\n"
        "EXDATE;VALUE=DATE:20240105\n"
        "RDATE:20240105T130000,20240106T090000"
    )
    assert _all(rule) == ["01-02 09:00", "01-04 09:00", "01-06 09:00"]
    assert rule.previous_at(datetime(2024, 1, 3, 10, tzinfo=UTC)) == datetime(
        2024, 1, 2, 9, tzinfo=UTC
    )


def test_an_excluded_wall_time_in_a_fold_takes_both_showings_away() -> None:
    start = datetime.fromisoformat("2024-10-26T01:30")
    rule = parse_rrule(
        "FREQ=DAILY;COUNT=3\nEXDATE:20241027T013000", zone=LONDON, start=start, fold="both"
    )
    assert _all(rule) == ["10-26 00:30", "10-28 01:30"]


def test_excluded_days_are_passed_over_whole() -> None:
    days = ",".join(f"{date(2024, 1, 1) + timedelta(days=day):%Y%m%d}" for day in range(900))
    rule = _rule(f"FREQ=SECONDLY\nEXDATE:{days}")
    assert rule.next_after(LONG_AGO) == datetime(2026, 6, 18, 23, tzinfo=UTC)  # midnight in summer


def test_rules_that_say_the_same_are_equal() -> None:
    one = _rule("FREQ=WEEKLY;BYDAY=MO,FR;INTERVAL=1")
    other = _rule("RRULE:freq=weekly;byday=FR,MO")
    assert one == other
    assert hash(one) == hash(other)
    assert one.text != other.text
    assert one != _rule("FREQ=WEEKLY;BYDAY=MO")
    assert one != _rule("FREQ=WEEKLY;BYDAY=MO,FR\nEXDATE:20240101")
    assert one != parse_rrule(one.text, zone=LONDON, start=START, gap="skip")
    assert one != _rule(one.text, ZoneInfo("Europe/Paris"))


def test_a_rule_cannot_be_changed_and_survives_a_copy() -> None:
    rule = _rule("FREQ=DAILY")
    with pytest.raises(AttributeError):
        rule.text = "FREQ=WEEKLY"  # type: ignore[misc] # refused at run time too
    assert rule.next_after(FAR) is not None
    assert pickle.loads(pickle.dumps(rule)) == rule  # noqa: S301 - our own bytes


def test_a_rule_shows_what_it_is() -> None:
    rule = _rule("FREQ=DAILY;COUNT=3")
    assert repr(rule) == (
        "RecurrenceRule('FREQ=DAILY;COUNT=3', start=2024-01-01T09:00:00+00:00, zone=Europe/London)"
    )
    assert (rule.text, rule.zone) == ("FREQ=DAILY;COUNT=3", LONDON)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;INTERVAL=3;BYHOUR=1,9,17",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;BYMONTH=2,3;BYSETPOS=2,-1",
        "FREQ=MONTHLY;BYMONTHDAY=1,15;BYHOUR=8,20;BYSETPOS=1,-1",
        "FREQ=WEEKLY;BYDAY=MO,FR,SU;BYSETPOS=2;WKST=SU",
        "FREQ=DAILY;BYHOUR=1,2;BYSETPOS=9",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=1",
        "FREQ=MONTHLY;BYMONTHDAY=1;BYSETPOS=2",
    ],
)
def test_counting_ahead_gives_what_walking_does(text: str) -> None:
    parts = complete_parts(_rule(text).parts, START)
    series = make_series(parts, START)
    wall = date(2024, 1, 1).toordinal() * 86_400 + 10 * 3600
    walked = series.first_from(wall)
    for number in range(1, 40):
        assert series.nth_from(wall, number, Budget.for_count(text)) == walked
        walked = None if walked is None else series.first_from(walked + 1)


def test_a_count_that_the_calendar_cannot_fill_limits_nothing() -> None:
    rule = _rule("FREQ=YEARLY;COUNT=10000")
    last = rule.previous_at(datetime.max.replace(tzinfo=UTC))
    assert last is not None
    assert last.year == 9998


@pytest.mark.parametrize("gap", ["skip", "shift"])
@pytest.mark.parametrize("fold", ["first", "both"])
@pytest.mark.parametrize("zone", [UTC, ZoneInfo("America/New_York"), ZoneInfo("Africa/Casablanca")])
def test_a_list_has_what_one_question_after_the_other_finds(zone: Any, gap: Any, fold: Any) -> None:
    texts = [
        "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=30",
        "FREQ=DAILY;COUNT=700",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;BYHOUR=2;BYMINUTE=30",
        "FREQ=MONTHLY;BYDAY=2SU,-1SU;BYHOUR=1,2",
        "FREQ=MONTHLY;BYDAY=SU;BYSETPOS=2;UNTIL=20290101T000000Z",
    ]
    start = datetime.fromisoformat("2026-01-01T02:30")
    begin, end = datetime(2025, 12, 1, tzinfo=UTC), datetime(2029, 6, 1, tzinfo=UTC)
    for text in texts:
        rule = parse_rrule(text, zone=zone, start=start, gap=gap, fold=fold)
        found, at = [], rule.next_after(begin)
        while at is not None and at <= end:
            found.append(at)
            at = rule.next_after(at)
        assert list(rule.between(begin, end)) == found


@pytest.mark.parametrize("interval", [*range(2, 41), 47, 48, 49, 119, 120, 121])
@pytest.mark.parametrize("month", [1, 2, 6, 11, 12])
def test_months_between_occurrences_are_as_many_as_the_interval(interval: int, month: int) -> None:
    rule = _rule(f"FREQ=MONTHLY;INTERVAL={interval}", start=datetime(2024, month, 1, 9))  # noqa: DTZ001 - a wall time
    months = [month - 1 + interval * number for number in range(6)]
    found = [wall_time(at, LONDON) for at in rule.between(LONG_AGO, FAR, limit=6)]
    expected = [datetime(2024 + each // 12, each % 12 + 1, 1, 9) for each in months]  # noqa: DTZ001 - wall times
    assert found == [each for each in expected if each.year < FAR.year]


class Nameless(tzinfo):
    """London's time in a zone that cannot be a key."""

    __hash__ = None  # type: ignore[assignment]

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return LONDON.utcoffset(None if moment is None else moment.replace(tzinfo=LONDON))

    def dst(self, moment: datetime | None) -> timedelta | None:
        return LONDON.dst(None if moment is None else moment.replace(tzinfo=LONDON))

    def tzname(self, moment: datetime | None) -> str:  # noqa: ARG002 - given by tzinfo
        return "nameless"

    def fromutc(self, moment: datetime) -> datetime:
        return LONDON.fromutc(moment.replace(tzinfo=LONDON)).replace(tzinfo=self)


@pytest.mark.parametrize("text", ["FREQ=DAILY", "FREQ=HOURLY;BYHOUR=1;BYMONTH=3", "FREQ=YEARLY"])
def test_a_zone_need_not_be_hashable(text: str) -> None:
    own, usual = (parse_rrule(text, zone=zone, start=START) for zone in (Nameless(), LONDON))
    assert list(own.between(LONG_AGO, FAR, limit=400)) == list(
        usual.between(LONG_AGO, FAR, limit=400)
    )


@pytest.mark.parametrize("week_start", range(7))
def test_positions_in_a_week_count_from_the_day_that_it_begins_with(week_start: int) -> None:
    names = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
    rule = _rule(f"FREQ=WEEKLY;WKST={names[week_start]};BYDAY=MO,TH,SA;BYSETPOS=1")
    first = min((0, 3, 5), key=lambda day: (day - week_start) % 7)
    found = list(rule.between(FAR - timedelta(days=70), FAR))
    assert len(found) == 10
    assert {at.weekday() for at in found} == {first}


@pytest.mark.parametrize(
    "text",
    ["FREQ=DAILY;BYHOUR=23;BYMINUTE=59;BYSECOND=59", "FREQ=HOURLY;BYMINUTE=59;BYSECOND=59"],
)
def test_the_last_second_that_a_rule_may_use_can_occur(text: str) -> None:
    rule = parse_rrule(text, zone=UTC, start=START)
    last, end = datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(9999, 6, 1, tzinfo=UTC)
    assert rule.next_after(last - SECOND) == last
    assert rule.previous_at(end) == last
    assert list(rule.between(last - SECOND, end)) == [last]
    assert rule.next_after(last) is None
