"""Which dialect is which."""

import pytest

from rota.errors import InvalidCronExpressionError, InvalidInputError
from rota.triggers.cron import Dialect, parse_cron

DIALECTS: list[Dialect] = ["posix", "posix-multiline", "extended"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_reads_the_plain_expression(dialect: Dialect) -> None:
    assert parse_cron("0 9 * * 1-5", dialect) == parse_cron("0 9 * * 1-5")


def test_the_default_is_strict() -> None:
    with pytest.raises(InvalidCronExpressionError):
        parse_cron("*/5 * * * *")


def test_an_unknown_dialect_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_cron("* * * * *", "quartz")  # type: ignore[arg-type]  # the point of the test
    assert refusal.value.message == (
        'dialect must be one of posix, posix-multiline, extended, got "quartz"'
    )
    assert refusal.value.details == {"field": "dialect", "value": "quartz"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text", ["9" * 10**6, "* " * 10**6, "1," * 10**6, "x" * 4097, " " * 10**6 + "* * * * *"]
)
def test_a_megabyte_is_refused_unread_and_not_repeated(dialect: Dialect, text: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron(text, dialect)
    assert refusal.value.field == "expression"
    assert refusal.value.reason == f"must have at most 4096 characters, got {len(text)}"
    assert len(refusal.value.message) < 200


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("element", ["9", "1-", "-", "/", "L", "a", "*", "@", "#", ",", "1e", "1."])
def test_the_longest_text_is_refused_at_once(dialect: Dialect, element: str) -> None:
    with pytest.raises(InvalidCronExpressionError) as refusal:
        parse_cron((element * 4088)[:4088] + " * * * *", dialect)
    assert refusal.value.field in {"minute", "expression"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_longest_text_is_accepted_if_it_is_right(dialect: Dialect) -> None:
    assert parse_cron("0" * 4087 + "5 * * * *", dialect) == parse_cron("5 * * * *")
