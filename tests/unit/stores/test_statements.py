"""Named statements in a file."""

import pytest

from rota.stores.sqlite.queries import QUERIES, Queries
from rota.stores.statements import load_statements, parse_statements


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


def test_a_statement_may_begin_as_one_above_it() -> None:
    text = "-- name: add\nINSERT INTO a;\n-- name: try\n-- begins as: add\nON CONFLICT DO NOTHING;"
    assert parse_statements(text)["try"] == "INSERT INTO a\nON CONFLICT DO NOTHING;"


def test_a_beginning_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no statement above is named add"):
        parse_statements("-- name: try\n-- begins as: add\nON CONFLICT DO NOTHING;")


def test_the_statements_of_sqlite_are_those_its_code_names() -> None:
    statements = load_statements("rota.stores.sqlite", "queries.sql")
    assert sorted(statements) == sorted(Queries.__slots__)
    assert all(statements.values())
    assert QUERIES.commit == "COMMIT;"
