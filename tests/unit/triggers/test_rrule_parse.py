"""What is read, and what is refused: by name, with a reason, and with its place in the text."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError, InvalidRecurrenceRuleError
from rota.triggers.rrule import parse_rrule
from rota.triggers.rrule_parts import Frequency, NthWeekday, Parts

LONDON = ZoneInfo("Europe/London")
START = datetime.fromisoformat("2024-01-01T09:30:15")
LONG = ",".join(["1"] * 1001)


def _parse(text: str, **given: Any) -> Parts:
    return parse_rrule(text, zone=LONDON, **{"start": START, **given}).parts


def test_every_part_is_read() -> None:
    assert _parse(
        "FREQ=YEARLY;INTERVAL=2;COUNT=3;BYMONTH=12,1;BYYEARDAY=-1,1;BYMONTHDAY=31,-31"
        ";BYDAY=TU,-1MO,+2FR,1SU;BYHOUR=9,9,8;BYMINUTE=0;BYSECOND=59;BYSETPOS=-1,1;WKST=SU"
    ) == Parts(
        frequency=Frequency.YEARLY,
        interval=2,
        count=3,
        months=(1, 12),
        year_days=(-1, 1),
        month_days=(-31, 31),
        weekdays=(NthWeekday(0, -1), NthWeekday(1), NthWeekday(4, 2), NthWeekday(6, 1)),
        hours=(8, 9),
        minutes=(0,),
        seconds=(59,),
        positions=(-1, 1),
        week_start=6,
    )
    assert _parse("FREQ=YEARLY;BYWEEKNO=-1,20").week_numbers == (-1, 20)


@pytest.mark.parametrize("frequency", Frequency)
def test_every_frequency_is_read_in_either_case(frequency: Frequency) -> None:
    assert _parse(f"freq={frequency.name.lower()}").frequency is frequency


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("20251231", date(2025, 12, 31)),
        ("20251231T235959", datetime.fromisoformat("2025-12-31T23:59:59")),
        ("20251231T235959Z", datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("20251231t235959z", datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_until_is_a_date_a_wall_time_or_an_instant(text: str, until: date) -> None:
    assert _parse(f"FREQ=DAILY;UNTIL={text}").until == until


def test_lines_may_be_in_any_order_and_end_in_either_way() -> None:
    rule = parse_rrule(
        "EXDATE:20240102T093015\r\nRRULE:FREQ=DAILY;COUNT=3\r\n\r\nDTSTART:20240101T093015\n",
        zone=LONDON,
    )
    assert [f"{at:%d}" for at in rule.between(rule.start - timedelta(1), _far(rule.start))] == [
        "01",
        "03",
    ]


def _far(start: datetime) -> datetime:
    return start + timedelta(days=100)


@pytest.mark.parametrize(
    "line",
    [
        "DTSTART:20240701T080000Z",
        "DTSTART:20240701T090000",
        "DTSTART;TZID=Europe/London:20240701T090000",
        "dtstart;value=date-time;tzid=Europe/London:20240701T090000",
    ],
)
def test_a_start_in_the_text_is_used(line: str) -> None:
    rule = parse_rrule(f"{line}\nRRULE:FREQ=DAILY", zone=LONDON)
    assert rule.start == datetime(2024, 7, 1, 8, tzinfo=UTC)
    beside = datetime(2024, 7, 1, 10, tzinfo=timezone(timedelta(hours=2)))
    assert parse_rrule(f"{line}\nRRULE:FREQ=DAILY", zone=LONDON, start=beside) == rule


def test_a_start_that_is_a_date_is_midnight() -> None:
    rule = parse_rrule("DTSTART;VALUE=DATE:20240701\nRRULE:FREQ=DAILY", zone=LONDON)
    assert rule.start == datetime(2024, 6, 30, 23, tzinfo=UTC)


def test_the_fraction_of_a_second_of_a_start_is_dropped() -> None:
    rule = parse_rrule("FREQ=DAILY", zone=UTC, start=START.replace(microsecond=999_999))
    assert rule.start == START.replace(tzinfo=UTC)


REFUSED = [
    ("", "RRULE", "is missing", ""),
    ("\r\n\n", "RRULE", "is missing", "\r\n\n"),
    ("EXDATE:20240101", "RRULE", "is missing", "EXDATE:20240101"),
    ("INTERVAL=2", "FREQ", "is missing", "INTERVAL=2"),
    ("FREQ", "RRULE", 'has "FREQ" where NAME=VALUE is expected', "FREQ"),
    ("=DAILY", "", "is not a part of a rule", "=DAILY"),
    (":FREQ=DAILY", "", "is none of RRULE, DTSTART", ":FREQ=DAILY"),
    ("FREQ=DAILY;;", "RRULE", 'has "" where NAME=VALUE is expected', ""),
    ("FREQ=DAILY; COUNT=2", " COUNT", "is not a part of a rule", " COUNT=2"),
    ("FREQ=DAILY;BYEASTER=1", "BYEASTER", "is not a part of a rule", "BYEASTER=1"),
    ("FREQ=DAILY;count=1;COUNT=2", "COUNT", "is given twice", "COUNT=2"),
    ("FREQ=FORTNIGHTLY", "FREQ", 'must be one of YEARLY, MONTHLY, .* got "FORTN', "FORTNIGHTLY"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL", "must be between 1 and 100000000, got 0", "0"),
    ("FREQ=DAILY;INTERVAL=100000001", "INTERVAL", "must be between", "100000001"),
    ("FREQ=DAILY;INTERVAL=-1", "INTERVAL", 'must be a whole number, got "-1"', "-1"),
    ("FREQ=DAILY;INTERVAL=", "INTERVAL", 'must be a whole number, got ""', ""),
    ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL", "must be a whole number", "1.5"),
    ("FREQ=DAILY;INTERVAL=٣", "INTERVAL", "must be a whole number", "٣"),
    ("FREQ=DAILY;COUNT=0", "COUNT", "must be between 1 and 100000, got 0", "0"),
    ("FREQ=DAILY;COUNT=1000000000000", "COUNT", "must be a whole number", "1000000000000"),
    ("FREQ=DAILY;BYMONTH=13", "BYMONTH", "must be between 1 and 12, got 13", "13"),
    ("FREQ=DAILY;BYMONTH=1,,2", "BYMONTH", 'must be a whole number, got ""', ""),
    ("FREQ=DAILY;BYMONTHDAY=32", "BYMONTHDAY", "must be between 1 and 31, or betw", "32"),
    ("FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY", "must be between 1 and 31", "0"),
    ("FREQ=DAILY;BYMONTHDAY=1,x", "BYMONTHDAY", 'must be a whole number, got "x"', "x"),
    ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY", "must be between 1 and 366", "367"),
    ("FREQ=YEARLY;BYWEEKNO=-54", "BYWEEKNO", "must be between 1 and 53", "-54"),
    ("FREQ=MINUTELY;INTERVAL=7;BYHOUR=25", "BYHOUR", "must be between 0 and 23, got 25", "25"),
    ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE", "must be between 0 and 59", "60"),
    ("FREQ=DAILY;BYSECOND=0,60", "BYSECOND", "must be between 0 and 59: no leap sec", "60"),
    ("FREQ=DAILY;BYSECOND=61", "BYSECOND", "must be between 0 and 59, got 61", "61"),
    ("FREQ=DAILY;BYSECOND=160", "BYSECOND", "must be between 0 and 59, got 160", "160"),
    ("FREQ=DAILY;BYDAY=XX", "BYDAY", "must be a day such as MO, 1MO or -1FR", "XX"),
    ("FREQ=MONTHLY;BYDAY=54MO", "BYDAY", "must be between 1 and 53", "54"),
    ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY", "must be between 1 and 53", "0"),
    ("FREQ=DAILY;WKST=1MO", "WKST", "must be one of MO, TU, .* got ", "1MO"),
    ("FREQ=DAILY;BYHOUR=1;BYSETPOS=367", "BYSETPOS", "must be between 1 and 366", "367"),
    (f"FREQ=DAILY;BYHOUR={LONG}", "BYHOUR", "lists 1001 values, more than 1000", LONG),
    ("FREQ=DAILY;UNTIL=2025-12-31", "UNTIL", "must be written as 20250131, ", "2025-12-31"),
    ("FREQ=DAILY;UNTIL=20251231Z", "UNTIL", "must be written as", "20251231Z"),
    ("FREQ=DAILY;UNTIL=20250231", "UNTIL", "is not a date and time", "20250231"),
    ("FREQ=DAILY;UNTIL=20250201T250000", "UNTIL", "is not a date and", "20250201T250000"),
    ("FREQ=DAILY;UNTIL=00010101", "UNTIL", "must be in the years 2 to 9998", "00010101"),
    ("FREQ=DAILY;UNTIL=2025-01-31T10:00:00", "UNTIL", "must be written", "2025-01-31T10:00:00"),
    ("FREQ=DAILY;COUNT=1;UNTIL=20250101", "UNTIL", "cannot stand beside COUNT", "UNTIL=20250101"),
    ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO", "is for FREQ=YEARLY only", "BYWEEKNO=1"),
    ("FREQ=DAILY;BYYEARDAY=1", "BYYEARDAY", "cannot stand beside FREQ=DAILY", "BYYEARDAY=1"),
    ("FREQ=WEEKLY;BYYEARDAY=1", "BYYEARDAY", "cannot stand beside FREQ=WEEKLY", "BYYEARDAY=1"),
    ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY", "cannot stand beside FREQ=MONTHL", "BYYEARDAY=1"),
    ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY", "cannot stand beside FREQ=WEEK", "BYMONTHDAY=1"),
    ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY", "may have an ordinal with FREQ=MONTHLY or", "BYDAY=1MO"),
    ("FREQ=HOURLY;BYDAY=-1MO", "BYDAY", "may have an ordinal with FREQ=MONTHLY ", "BYDAY=-1MO"),
    ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "BYDAY", "cannot have an ordinal beside", "BYDAY=1MO"),
    ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS", "needs another BY part to choose", "BYSETPOS=1"),
    ("RRULE:FREQ=DAILY\nFREQ=DAILY", "RRULE", "is given twice", "FREQ=DAILY"),
    ("RRULE;X=1:FREQ=DAILY", "RRULE", "has no parameters", "RRULE;X=1:FREQ=DAILY"),
    ("FREQ=DAILY\nEXRULE:FREQ=DAILY", "EXRULE", "is none of RRULE, DTSTART", "EXRULE:FREQ=DAILY"),
    ("FREQ=DAILY\nRDATE;X:20240101", "parameter", '"X" has no value', "X"),
    ("FREQ=DAILY\nRDATE;VALUE=PERIOD:2024", "RDATE", 'cannot have VALUE "PERIOD"', "PERIOD"),
    ("FREQ=DAILY\nEXDATE;X=1:2024", "EXDATE", 'cannot have X "1"', "1"),
    ("FREQ=DAILY\nEXDATE;TZID=UTC:2024", "EXDATE", 'has TZID "UTC" where the rule ', "UTC"),
    ("FREQ=DAILY\nEXDATE:20240101,2024", "EXDATE", "must be written as", "2024"),
    (f"FREQ=DAILY\nEXDATE:{LONG}", "EXDATE", "names 1001 dates, more than 1000", LONG),
    ("DTSTART:20240101,20240102\nFREQ=DAILY", "DTSTART", "must be one", "20240101,20240102"),
    ("DTSTART:20240101T0930\nFREQ=DAILY", "DTSTART", "must be written as", "20240101T0930"),
    (
        "DTSTART:20240101T093014\nFREQ=DAILY",
        "DTSTART",
        "is not the start that is given beside the text",
        "DTSTART:20240101T093014",
    ),
    ("DTSTART:20240101\nDTSTART:20240101\nFREQ=DAILY", "DTSTART", "is given", "DTSTART:20240101"),
]


@pytest.mark.parametrize(("text", "part", "reason", "at"), REFUSED)
def test_bad_text_is_refused_by_part_reason_and_place(
    text: str, part: str, reason: str, at: str
) -> None:
    with pytest.raises(InvalidRecurrenceRuleError, match=reason) as refused:
        _parse(text)
    error = refused.value
    assert (error.part, error.text) == (part, text)
    assert text[slice(*error.position)] == at
    assert error.details == {"rule": text, "part": part, "reason": error.reason}


def test_a_text_too_long_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidRecurrenceRuleError, match="has 40000 characters") as refused:
        _parse("FREQ=DAILY;" + "X" * 39_989)
    assert len(refused.value.message) < 200
    assert refused.value.text == "FREQ=DAILY;" + "X" * 49 + "…"
    with pytest.raises(InvalidRecurrenceRuleError, match="has 32769 characters, more than 32768"):
        _parse("FREQ=DAILY" + "\n" * 32_759)
    assert _parse("FREQ=DAILY" + "\n" * 32_758) == _parse("FREQ=DAILY")


@pytest.mark.parametrize(
    "rest",
    [
        *("DAILY;INTERVAL=1", "DAILY;INTERVAL=100000000", "DAILY;COUNT=1", "DAILY;COUNT=100000"),
        *("DAILY;BYMONTH=1,12", "MONTHLY;BYMONTHDAY=1,31,-1,-31", "YEARLY;BYYEARDAY=1,366,-1,-366"),
        *("YEARLY;BYWEEKNO=1,53,-1,-53", "DAILY;BYHOUR=0,23", "DAILY;BYMINUTE=0,59"),
        *("DAILY;BYSECOND=0,59", "YEARLY;BYDAY=1MO,53MO,-1TU,-53TU", "DAILY;UNTIL=99981231"),
        *("DAILY;UNTIL=00020101", "YEARLY;BYDAY=MO;BYSETPOS=1,366,-1,-366"),
        f"DAILY;BYHOUR={','.join(['1'] * 1000)}",
    ],
)
def test_numbers_at_their_limits_are_read(rest: str) -> None:
    assert _parse(f"FREQ={rest}").frequency.name == rest.partition(";")[0]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"zone": "Europe/London"}, "zone"),
        ({"gap": "ignore"}, "gap"),
        ({"fold": "second"}, "fold"),
        ({"start": None}, "start"),
        ({"start": "2024-01-01"}, "start"),
        ({"start": datetime(1, 6, 1, tzinfo=UTC)}, "start"),
        ({"start": datetime(9999, 6, 1, tzinfo=UTC)}, "start"),
    ],
)
def test_other_bad_arguments_are_refused_by_name(given: dict[str, Any], field: str) -> None:
    arguments = {"zone": LONDON, "start": START, **given}
    with pytest.raises(InvalidInputError, match=f"^{field} must be") as refused:
        parse_rrule("FREQ=DAILY", **arguments)
    assert refused.value.details["field"] == field


def test_a_trailing_semicolon_and_folded_lines_are_read() -> None:
    plain = parse_rrule("FREQ=WEEKLY;BYDAY=MO,TU", zone=LONDON, start=START)
    assert parse_rrule("FREQ=WEEKLY;BYDAY=MO,TU;", zone=LONDON, start=START) == plain
    for fold in ("\r\n ", "\n\t"):
        folded = f"RRULE:FREQ=WEEKLY;BY{fold}DAY=MO,{fold}TU"
        assert parse_rrule(folded, zone=LONDON, start=START) == plain


def test_times_of_day_are_ignored_when_the_start_is_a_date() -> None:
    text = "DTSTART;VALUE=DATE:20240701\nRRULE:FREQ=DAILY"
    plain = parse_rrule(text, zone=LONDON)
    timed = parse_rrule(f"{text};BYHOUR=9,10;BYMINUTE=5;BYSECOND=1", zone=LONDON)
    assert timed == plain


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("DTSTART;TZID=Europe/London:20240701T090000Z", "cannot have a TZID beside the Z"),
        ("DTSTART;VALUE=DATE:20240701T090000", "has VALUE=DATE, and"),
        ("DTSTART;VALUE=DATE-TIME:20240701", "has VALUE=DATE-TIME, and"),
    ],
)
def test_forms_that_contradict_each_other_are_refused(line: str, reason: str) -> None:
    with pytest.raises(InvalidRecurrenceRuleError, match=reason):
        parse_rrule(f"{line}\nRRULE:FREQ=DAILY", zone=LONDON)
