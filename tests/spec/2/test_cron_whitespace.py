"""Specification 2, the cron language: where it differs from specification 1."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidCronExpressionError
from rota.triggers.cron import parse_cron

LONDON = ZoneInfo("Europe/London")


@pytest.mark.parametrize(
    "text", ["0\n0\r\n*\t* *", "\r\n0 0 * * *\n", "\n\n0  0\n\n*\r*\t*", "0 0 * * *"]
)
def test_line_ends_separate_fields_too(text: str) -> None:
    assert parse_cron(text, "posix-multiline") == parse_cron("0 0 * * *")


@pytest.mark.parametrize("blank", ["\v", "\f", "\u00a0", "\u2003", "\u2028", "\x1c", "\x85"])
def test_no_other_blank_separates_fields(blank: str) -> None:
    with pytest.raises(InvalidCronExpressionError):
        parse_cron(f"0{blank}0 * * *", "posix-multiline")


@pytest.mark.parametrize(
    "text",
    [
        *("* * * *", "* * * * * *", "*/5 * * * *", "0 0 * * mon", "0 0 * jan *", "0 0 * * sunday"),
        *("@daily", "@hourly", "0 0 ? * *", "0 0 L * *", "0 0 15W * *", "0 0 * * 5#3", "0 0 * * 7"),
        *("50-10 * * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *"),
        *("1e1 * * * *", "0x1 * * * *", "+1 * * * *", "-1 * * * *"),
    ],
)
def test_expressions_that_specification_1_refuses_are_refused(text: str) -> None:
    reasons = []
    for dialect in ("posix", "posix-multiline"):
        with pytest.raises(InvalidCronExpressionError) as refusal:
            parse_cron(text, dialect)
        reasons.append((refusal.value.field, refusal.value.reason))
    assert reasons[0] == reasons[1]


def test_the_place_of_a_bad_field_counts_line_ends() -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron("0\r\n24 * * *", "posix-multiline")
    assert refusal.value.position == (3, 5)


def test_a_minute_shown_twice_runs_only_at_its_first_showing() -> None:
    cron = parse_cron("30 1 * * *")
    first = cron.next_after(datetime(2026, 10, 24, 12, tzinfo=UTC), LONDON, fold="first")
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    following = cron.next_after(first, LONDON, fold="first")
    assert following == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
    second_showing = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert not cron.matches(second_showing, LONDON, fold="first")
    assert cron.previous_at(second_showing, LONDON, fold="first") == first


def test_even_every_minute_is_silent_during_the_second_showing() -> None:
    cron = parse_cron("* * * * *")
    last_of_first = datetime(2026, 10, 25, 0, 59, tzinfo=UTC)
    after_second = datetime(2026, 10, 25, 2, tzinfo=UTC)
    assert cron.next_after(last_of_first, LONDON, fold="first") == after_second
    within_second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert cron.previous_at(within_second, LONDON, fold="first") == last_of_first
