"""The extended dialect: what it reads, and what it refuses."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import FieldParseError, InvalidCronExpressionError
from rota.triggers.cron import parse_cron
from rota.triggers.cron_dialects import MACROS

START = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("*/15 * * * *", "0,15,30,45 * * * *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("10-30/10 * * * *", "10,20,30 * * * *"),
        ("*/100 * * * *", "0 * * * *"),
        ("?/20 * * * *", "0,20,40 * * * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 ? * *", "0 0 * * *"),
        ("0 0 * jan-MAR,Dec *", "0 0 * 1-3,12 *"),
        ("0 0 * * Mon-FRI", "0 0 * * 1-5"),
        ("0 0 * * sun,sat", "0 0 * * 0,6"),
        ("0 0 * feb/5 *", "0 0 * 2,7,12 *"),
        (" 0\n0\t* * *\r\n", "0 0 * * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @hourly ", "0 * * * *"),
    ],
)
def test_it_means_what_the_strict_expression_means(text: str, same: str) -> None:
    assert parse_cron(text, "extended") == parse_cron(same)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 13 * *", [13, 13, 13]),
        ("0 0 13 * ?", [13, 13, 13]),
        ("0 0 13 * */1", [13, 13, 13]),
        ("0 0 13 * *,1", [13, 13, 13]),
        ("0 0 */1 * fri", [8, 15, 22]),
        ("0 0 13 * */6", [2, 3, 9]),
        ("0 0 */15 * sat", [2, 9, 16]),
        ("0 0 31 2 */6", [6, 7, 13]),
    ],
)
def test_a_star_leaves_a_day_field_free_unless_a_step_restricts_it(
    text: str, days: list[int]
) -> None:
    found = parse_cron(text, "extended").between(START, START + timedelta(days=400), UTC, limit=3)
    assert [instant.day for instant in found] == days


def test_six_fields_begin_with_seconds() -> None:
    cron = parse_cron("15,45 30 9 * * *", "extended")
    found = cron.between(START, START + timedelta(days=2), UTC, limit=3)
    assert [f"{at:%d %H:%M:%S}" for at in found] == ["01 09:30:15", "01 09:30:45", "02 09:30:15"]
    assert cron.matches(datetime(2026, 5, 1, 9, 30, 15, 999_999, tzinfo=UTC), UTC)
    assert not cron.matches(datetime(2026, 5, 1, 9, 30, 16, tzinfo=UTC), UTC)


def test_six_fields_at_second_zero_are_not_five() -> None:
    with_seconds = parse_cron("0 30 9 * * *", "extended")
    without = parse_cron("30 9 * * *", "extended")
    later_in_the_minute = datetime(2026, 5, 1, 9, 30, 20, tzinfo=UTC)
    assert with_seconds != without
    assert without.matches(later_in_the_minute, UTC)
    assert not with_seconds.matches(later_in_the_minute, UTC)


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "expression", "must have 5 fields, or 6 with seconds first, got 0"),
        ("* * * *", "expression", "must have 5 fields, or 6 with seconds first, got 4"),
        ("* * * * * * *", "expression", "must have 5 fields, or 6 with seconds first, got 7"),
        ("60 * * * *", "minute", "out of range (0-59)"),
        ("60 * * * * *", "second", "out of range (0-59)"),
        ("* * 0 * *", "day", "out of range (1-31)"),
        ("* * * * 7", "weekday", "out of range (0-6): Sunday is 0"),
        ("* * * * 5-7", "weekday", "out of range (0-6): Sunday is 0"),
        ("* * * 13/2 *", "month", "out of range (1-12)"),
        ("50-10 * * * *", "minute", "wrap-around ranges not supported"),
        ("* * * * fri-mon", "weekday", "wrap-around ranges not supported"),
        ("*/0 * * * *", "minute", "step must be at least 1"),
        ("*/ * * * *", "minute", "invalid step format"),
        ("*/-1 * * * *", "minute", "invalid step format"),
        ("*/5/2 * * * *", "minute", "invalid step format"),
        ("1-2-3 * * * *", "minute", "invalid number format, expected a number"),
        ("*-5 * * * *", "minute", "invalid number format, expected a number"),
        ("1,,2 * * * *", "minute", "invalid number format, expected a number"),
        ("+5 * * * *", "minute", "invalid number format, expected a number"),
        ("mon * * * *", "minute", "invalid number format, expected a number"),
        ("* * L * *", "day", "invalid number format, expected a number"),
        (
            "* * * * monday",
            "weekday",
            "invalid number format, expected a number or a name such as sun",
        ),
        ("* * * -3 *", "month", "invalid number format, expected a number or a name such as jan"),
        (
            "* * * mon *",
            "month",
            "invalid number format, expected a number or a name such as jan",
        ),
        (
            "@" + "x" * 20,
            "expression",
            f"has no macro @{'x' * 19}; there are {', '.join(MACROS)} and @every",
        ),
        (
            "@reboot",
            "expression",
            f"has no macro @reboot; there are {', '.join(MACROS)} and @every",
        ),
        (
            "TZ=Asia/Edo 0 9 * * *",
            "expression",
            'names the zone "Asia/Edo", which does not exist: write one like Europe/London',
        ),
        (
            "0 0 31 2 ?",
            "expression",
            "no valid execution times: none of the months has any of the days",
        ),
    ],
)
def test_the_rest_is_refused_by_field_and_reason(text: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(text, "extended")
    assert (refusal.value.field, refusal.value.reason) == (field, reason)


def test_a_bad_field_is_marked_and_kept_as_the_cause() -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron("0 0  1/0 * *", "extended")
    assert refusal.value.position == (5, 8)
    assert isinstance(refusal.value.__cause__, FieldParseError)
    assert refusal.value.__cause__.details == {"fieldValue": "1/0", "fieldName": "day"}


@pytest.mark.parametrize("text", ["@daily 5", "@Daily", "@ daily"])
def test_a_macro_stands_alone_and_in_lower_case(text: str) -> None:
    with pytest.raises(InvalidCronExpressionError, match="has no macro"):
        parse_cron(text, "extended")
