"""What a table of the user's own may be called; no server is asked."""

from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.poller.sql import SqlTableStore, quote_table, read_columns, read_condition

COLUMNS = (
    "id_column",
    "sleep_until_column",
    "interval_column",
    "repeat_until_column",
    "auto_remove_column",
)


@pytest.mark.parametrize("option", COLUMNS)
@pytest.mark.parametrize("name", ["", "a\0b", "é" * 32, 5])
def test_a_name_that_is_not_valid_is_refused(option: str, name: Any) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        read_columns({option: name})
    assert refusal.value.details["field"] == option


@pytest.mark.parametrize("option", COLUMNS)
def test_a_table_may_lack_all_columns_but_two(option: str) -> None:
    if option in COLUMNS[2:]:
        assert read_columns({option: None}) == {option: None}
        return
    with pytest.raises(InvalidInputError, match=f"{option} None must be the name of a column"):
        read_columns({option: None})


@pytest.mark.parametrize(
    ("table", "quoted"),
    [("jobs", '"jobs"'), ("shop.jobs", '"shop"."jobs"'), ('a"; b', '"a""; b"')],
)
def test_the_name_of_a_table_is_quoted(table: str, quoted: str) -> None:
    assert quote_table(table) == quoted


@pytest.mark.parametrize("table", ["", "a.", ".a", "a.b.c", "a..b", None, 5, ["a"]])
def test_a_table_has_a_name_or_a_schema_and_a_name(table: Any) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        quote_table(table)
    assert refusal.value.details["field"] == "table"


@pytest.mark.parametrize(
    ("condition", "parameters", "field"),
    [
        ("", [], "condition"),
        (5, [], "condition"),
        ("a = $1", "x", "parameters"),
        ("a = $1", [], "parameters"),
        ("a = $2", [1, 2], "parameters"),
        ("a = 1", [1], "parameters"),
        (None, [1], "parameters"),
        ("a = '$1'", [1], "parameters"),
    ],
)
def test_a_condition_has_a_value_for_each_number(
    condition: Any, parameters: Any, field: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        read_condition(condition, parameters)
    assert refusal.value.details["field"] == field


def test_numbers_in_texts_are_not_values() -> None:
    assert read_condition("a = 'it''s $5' AND b = $1", [1]) == "(a = 'it''s $5' AND b = $1\n)"


@pytest.mark.parametrize("connection", [None, "postgresql://localhost", object()])
def test_a_connection_is_one_of_asyncpg(connection: object) -> None:
    with pytest.raises(InvalidInputError, match=r"connection must be .* asyncpg.create_pool"):
        SqlTableStore(connection, "jobs")


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="sleep_column"):
        read_columns({"sleep_column": "a"})
