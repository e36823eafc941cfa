"""Named statements in a file."""

import pytest

from rota.stores.sqlite.queries import QUERIES
from rota.stores.statements import parse_statements


def test_statements_are_found_by_name_without_their_comments() -> None:
    text = """-- What this file is.
-- name: first
-- Does one thing.
SELECT 1
  -- a reason in between
  FROM one;

-- name: second
SELECT 2;
"""
    assert parse_statements(text) == {"first": "SELECT 1\n  FROM one;", "second": "SELECT 2;"}


@pytest.mark.parametrize("text", ["", "SELECT 1;", "SELECT 1;\n-- name: late\nSELECT 2;"])
def test_a_statement_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needs a line"):
        parse_statements(text)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="named twice: same, same"):
        parse_statements("-- name: same\nSELECT 1;\n-- name: same\nSELECT 2;")


def test_a_statement_may_include_one_above_it() -> None:
    text = "-- name: add\nINSERT INTO a;\n-- name: try\n-- include: add\nON CONFLICT DO NOTHING;"
    assert parse_statements(text)["try"] == "INSERT INTO a\nON CONFLICT DO NOTHING;"


def test_an_included_statement_may_be_given_values() -> None:
    text = "-- name: a\nSELECT :it::text, :item;\n-- name: b\n-- include: a (it = $1, item = 2)"
    assert parse_statements(text)["b"] == "SELECT $1::text, 2"


def test_a_statement_that_includes_an_unknown_one_is_refused() -> None:
    with pytest.raises(ValueError, match="no statement above is named add"):
        parse_statements("-- name: try\n-- include: add\nON CONFLICT DO NOTHING;")


def test_statements_are_attributes() -> None:
    assert QUERIES.commit == "COMMIT;"
    with pytest.raises(AttributeError, match="no statement is named nonsense"):
        _ = QUERIES.nonsense
