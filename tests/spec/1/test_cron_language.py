"""Specification 1, the cron language: what is accepted, what it means, and what is refused how."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import pytest

from rota.errors import (
    CronCalculationError,
    FieldParseError,
    InvalidCronExpressionError,
    NoOccurrenceError,
)
from rota.triggers.cron import parse_cron

LONDON = ZoneInfo("Europe/London")
NEW_YORK = ZoneInfo("America/New_York")
FRIDAY = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)

SLASH = "slash syntax not supported (POSIX violation)"
NAMES = "names not supported, use numbers only (POSIX violation)"
MACRO = "macro syntax not supported (POSIX violation)"
WRAP = "wrap-around ranges not supported (POSIX violation)"
RANGE = "invalid range format"
NUMBER = "invalid number format"
DECIMAL = "decimal numbers not supported"
SUNDAY = "out of range (0-6): Sunday must be 0, not 7 (POSIX compliance)"


def quartz(token: str) -> str:
    return f"Quartz token '{token}' not supported (POSIX violation)"


def upcoming(text: str, count: int, start: datetime = FRIDAY) -> list[str]:
    end = start + timedelta(days=4000)
    found = parse_cron(text).between(start, end, UTC, limit=count)
    return [f"{instant:%Y-%m-%d %H:%M}" for instant in found]


@pytest.mark.parametrize(
    "text",
    [
        "0 0 * * *",
        "15 3 * * 1-5",
        "0,30 * * * *",
        "0 12 14 2 *",
        "  0\t0   1,15 * \t1  ",
        "00 09 01 01 0",
        "0000000000000000000000000000059 * * * *",
        "5-5 * * * *",
        "5,5,1,59,1-3 * * * *",
        "0-59 0-23 1-31 1-12 0-6",
    ],
)
def test_every_sentence_of_the_grammar_is_accepted(text: str) -> None:
    assert parse_cron(text).text == text


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0 * * *", ["2026-05-02 00:00", "2026-05-03 00:00"]),
        ("15 3 * * 1-5", ["2026-05-04 03:15", "2026-05-05 03:15"]),  # not on the weekend
        ("0,30 * * * *", ["2026-05-01 13:00", "2026-05-01 13:30"]),
        ("0 12 14 2 *", ["2027-02-14 12:00", "2028-02-14 12:00"]),
    ],
)
def test_the_examples_of_the_document_mean_what_it_says(text: str, first: list[str]) -> None:
    assert upcoming(text, 2) == first


@pytest.mark.parametrize(
    "text",
    ["1," * 200_000 + "1 * * * *", "* " * 200_000, "9" * 200_000 + " * * * *", "-" * 200_000],
    ids=["list", "fields", "number", "range"],
)
def test_an_expression_of_any_length_is_answered_at_once(text: str) -> None:
    began = process_time()
    with suppress(InvalidCronExpressionError):
        assert parse_cron(text) == parse_cron("1 * * * *")
    assert process_time() - began < 2


def test_lists_ranges_and_leading_zeros_mean_their_numbers() -> None:
    assert parse_cron("5,5,3-4,01 * * * *") == parse_cron("1,3-5 * * * *")
    assert parse_cron("5-5 * * * *") == parse_cron(" 05\t*  * * * ")
    assert parse_cron("001-0005 * * * *") == parse_cron("1-5 * * * *")


@pytest.mark.parametrize(
    ("place", "field", "low", "high"),
    [
        (0, "minute", 0, 59),
        (1, "hour", 0, 23),
        (2, "day", 1, 31),
        (3, "month", 1, 12),
        (4, "weekday", 0, 6),
    ],
)
def test_each_field_has_its_range(place: int, field: str, low: int, high: int) -> None:
    def with_field(text: str) -> str:
        fields = ["*"] * 5
        fields[place] = text
        return " ".join(fields)

    for accepted in (f"{low}", f"{high}", f"{low}-{high}", f"{low},{high}"):
        parse_cron(with_field(accepted))
    for value in (low, high):
        found = parse_cron(with_field(f"{value}")).next_after(FRIDAY, UTC)
        assert found is not None
        shown = (found.minute, found.hour, found.day, found.month, found.isoweekday() % 7)
        assert shown[place] == value
    beyond = [f"{high + 1}", f"{low}-{high + 1}", f"{high + 1}-{high + 2}", f"{low},{high + 1}"]
    beyond += [f"{low - 1}"] if low else []
    beyond += ["99999", "9" * 1000]
    for refused in beyond:
        with pytest.raises(InvalidCronExpressionError) as refusal:
            parse_cron(with_field(refused))
        assert refusal.value.field == field
        assert refusal.value.reason.startswith(f"out of range ({low}-{high})")


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "expression", "must have exactly 5 fields, got 0"),
        (" \t ", "expression", "must have exactly 5 fields, got 0"),
        ("* * * *", "expression", "must have exactly 5 fields, got 4"),
        ("* * * * * *", "expression", "must have exactly 5 fields, got 6"),
        ("@daily", "expression", MACRO),
        (" @reboot", "expression", MACRO),
        ("@every 5m", "expression", MACRO),
        ("* * * * @x", "weekday", MACRO),
        ("*/15 * * * *", "minute", SLASH),
        ("* 1-5/2 * * *", "hour", SLASH),
        ("* mon/2 * * *", "hour", SLASH),
        ("1,x/y * * * *", "minute", SLASH),
        ("0 0 * * mon", "weekday", NAMES),
        ("0 0 * * MON-FRI", "weekday", NAMES),
        ("0 0 * * WED", "weekday", NAMES),
        ("0 0 * jul *", "month", NAMES),
        ("0 0 * * sunday", "weekday", NAMES),
        ("0 0 ? * *", "day", quartz("?")),
        ("0 0 L * *", "day", quartz("L")),
        ("0 0 LW * *", "day", quartz("L")),
        ("0 0 L-3 * *", "day", quartz("L")),
        ("0 0 15W * *", "day", quartz("W")),
        ("0 0 * * 5L", "weekday", quartz("L")),
        ("0 0 * * 5#3", "weekday", quartz("#")),
        ("0 0 * * MON#2", "weekday", quartz("#")),
        ("0 0 * * 7", "weekday", SUNDAY),
        ("0 0 * * 5-7", "weekday", SUNDAY),
        ("0 0 * * 0,7", "weekday", SUNDAY),
        ("0 0 * * 8", "weekday", "out of range (0-6)"),
        ("50-10 * * * *", "minute", WRAP),
        ("0 22-2 * * *", "hour", WRAP),
        ("0 0 * 11-2 *", "month", WRAP),
        ("0 0 * * 5-1", "weekday", WRAP),
        ("60 * * * *", "minute", "out of range (0-59)"),
        ("* 24 * * *", "hour", "out of range (0-23)"),
        ("* * 0 * *", "day", "out of range (1-31)"),
        ("* * 32 * *", "day", "out of range (1-31)"),
        ("* * * 13 *", "month", "out of range (1-12)"),
        ("+5 * * * *", "minute", NUMBER),
        ("-5 * * * *", "minute", RANGE),
        ("0x10 * * * *", "minute", NUMBER),
        ("1e1 * * * *", "minute", NUMBER),
        ("1_0 * * * *", "minute", NUMBER),
        ("1.5 * * * *", "minute", DECIMAL),
        ("1.0-2 * * * *", "minute", RANGE),
        ("1- * * * *", "minute", RANGE),
        ("1--2 * * * *", "minute", RANGE),
        ("1-2-3 * * * *", "minute", RANGE),
        ("*-5 * * * *", "minute", RANGE),
        (", * * * *", "minute", NUMBER),
        ("1,,2 * * * *", "minute", NUMBER),
        ("1, * * * *", "minute", NUMBER),
        ("*,5 * * * *", "minute", NUMBER),
        ("5,* * * * *", "minute", NUMBER),
        ("** * * * *", "minute", NUMBER),
        ("$ * * * *", "minute", NUMBER),
        ("٣ * * * *", "minute", NUMBER),
        ("１ * * * *", "minute", NUMBER),  # noqa: RUF001 - a digit that is not ASCII
        ("* x 99 * 7", "hour", NAMES),
    ],
)
def test_everything_else_is_refused_with_its_leftmost_field_and_reason(
    text: str, field: str, reason: str
) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(text)
    error = refusal.value
    assert (error.field, error.reason) == (field, reason)
    assert error.message == f'Invalid cron expression "{text}": {field} field {reason}'
    assert error.details == {"expression": text, "field": field, "reason": reason}
    assert str(error) == error.message


@pytest.mark.parametrize("blank", ["\n", "\r", "\v", "\f", "\u00a0", "\u2003", "\x1c", "\x85"])
def test_only_space_and_tab_separate_fields(blank: str) -> None:
    with pytest.raises(InvalidCronExpressionError):
        parse_cron(f"0{blank}0 * * *")
    with pytest.raises(InvalidCronExpressionError):
        parse_cron(f"0 0 * * *{blank}")


@pytest.mark.parametrize("value", [None, 5, 1.5, b"* * * * *", ["*"], object()])
def test_a_value_that_is_not_a_string_is_refused(value: object) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(value)  # type: ignore[arg-type]  # the point of the test
    assert refusal.value.field == "expression"
    assert refusal.value.reason == f"must be a string, got {type(value).__name__}"


def test_the_cause_is_the_field_and_its_whole_text() -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron("0  1,24 * * *")
    cause = refusal.value.__cause__
    assert isinstance(cause, FieldParseError)
    assert cause.message == "out of range (0-23)"
    assert cause.details == {"fieldValue": "1,24", "fieldName": "hour"}


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("0 0 0 * *", "    ^"),
        ("  1  1  1 13  1", "          ^^"),
        ("1 1 1 1 11", "        ^^"),
        ("* * *", "^^^^^"),
    ],
)
def test_an_error_says_where_the_bad_field_stands(text: str, marked: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(text)
    start, end = refusal.value.position
    assert " " * start + "^" * (end - start) == marked


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 * * *", ["2026-05-02", "2026-05-03", "2026-05-04"]),
        ("0 0 * * 1", ["2026-05-04", "2026-05-11", "2026-05-18"]),
        ("0 0 15 * *", ["2026-05-15", "2026-06-15", "2026-07-15"]),
        ("0 0 1,15 * 1", ["2026-05-04", "2026-05-11", "2026-05-15"]),
        ("0 0 1-31 * 1", ["2026-05-02", "2026-05-03", "2026-05-04"]),
        ("0 0 13 * 0-6", ["2026-05-02", "2026-05-03", "2026-05-04"]),
        ("0 0 13 2 5", ["2027-02-05", "2027-02-12", "2027-02-13"]),
    ],
)
def test_two_restricted_day_fields_mean_either(text: str, days: list[str]) -> None:
    assert upcoming(text, 3) == [f"{day} 00:00" for day in days]


def test_restricted_is_what_is_not_written_as_a_star() -> None:
    assert parse_cron("0-59 0-23 1-31 1-12 0-6") != parse_cron("* * * * *")
    assert upcoming("0 12 1-31 * 1", 2) == ["2026-05-02 12:00", "2026-05-03 12:00"]


@pytest.mark.parametrize(
    "text",
    ["0 0 31 2 *", "0 0 30,31 2 *", "0 0 31 4,6,9,11 *", "0 0 31 4 *", "* * 30-31 2 *"],
)
def test_dates_that_no_year_has_are_refused(text: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(text)
    assert refusal.value.field == "expression"
    assert refusal.value.reason.startswith("no valid execution times: ")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0 31 4 1", "2027-04-05 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 31 2,3 *", "2027-03-31 00:00"),
        ("0 0 30 2,4 *", "2027-04-30 00:00"),
        ("0 0 31 2 0", "2027-02-07 00:00"),
    ],
)
def test_dates_that_some_year_has_are_accepted(text: str, first: str) -> None:
    assert upcoming(text, 1) == [first]


def test_a_leap_day_is_found_across_a_century_without_one() -> None:
    leap_day = parse_cron("0 0 29 2 *")
    assert leap_day.next_after(datetime(2096, 2, 29, tzinfo=UTC), UTC).year == 2104
    assert leap_day.previous_at(datetime(2104, 2, 28, tzinfo=UTC), UTC).year == 2096


def test_the_next_occurrence_is_strictly_later_and_the_previous_one_is_not() -> None:
    cron = parse_cron("0 14 * * *")
    exactly = datetime(2026, 5, 1, 14, tzinfo=UTC)
    tomorrow = exactly + timedelta(days=1)
    for late in (timedelta(0), timedelta(milliseconds=1), timedelta(seconds=30)):
        assert cron.next_after(exactly + late, UTC) == tomorrow
        assert cron.previous_at(exactly + late, UTC) == exactly
        assert cron.matches(exactly + late, UTC)
    just_before = exactly - timedelta(milliseconds=1)
    assert cron.next_after(just_before, UTC) == exactly
    assert cron.previous_at(just_before, UTC) == exactly - timedelta(days=1)
    assert not cron.matches(just_before, UTC)
    assert not cron.matches(exactly + timedelta(minutes=1), UTC)


def test_a_minute_that_does_not_exist_is_skipped_that_day() -> None:
    cron = parse_cron("30 2 * * *")
    before = datetime(2026, 3, 8, 6, tzinfo=UTC)
    assert cron.next_after(before, NEW_YORK) == datetime(2026, 3, 9, 6, 30, tzinfo=UTC)
    noon = datetime(2026, 3, 8, 16, tzinfo=UTC)
    assert cron.previous_at(noon, NEW_YORK) == datetime(2026, 3, 7, 7, 30, tzinfo=UTC)
    assert not cron.matches(datetime(2026, 3, 8, 7, 30, tzinfo=UTC), NEW_YORK)


def test_a_minute_shown_twice_runs_both_times() -> None:
    cron = parse_cron("30 1 * * *")
    first = cron.next_after(datetime(2026, 10, 24, 12, tzinfo=UTC), LONDON, fold="both")
    second = cron.next_after(first, LONDON, fold="both")
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert second == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert cron.next_after(second, LONDON) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    assert cron.previous_at(second, LONDON) == second
    assert cron.matches(first, LONDON)
    assert cron.matches(second, LONDON)


def test_the_end_of_the_calendar_is_a_calculation_error() -> None:
    cron = parse_cron("0 0 1 1 *")
    last = datetime(9999, 6, 1, tzinfo=UTC)
    with pytest.raises(CronCalculationError) as failure:
        cron.next_after(last, UTC)
    error = failure.value
    assert isinstance(error.cause, NoOccurrenceError)
    assert error.__cause__ is error.cause
    assert error.message == f"Failed to calculate next occurrence: {error.cause}"
    assert error.details == {
        "expression": "0 0 1 1 *",
        "currentTime": "9999-06-01T00:00:00+00:00",
        "cause": error.cause,
    }


def test_the_beginning_of_the_calendar_is_a_calculation_error() -> None:
    with pytest.raises(CronCalculationError):
        parse_cron("0 0 1 6 *").previous_at(datetime(1, 5, 1, tzinfo=UTC), UTC)
