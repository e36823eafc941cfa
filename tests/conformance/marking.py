"""A pytest plugin that writes each test's clauses into its report.

It has no state and is named on the command line, so the processes of a parallel run load it too and
their reports carry the clauses home.
"""

import pytest
from tests.conformance.clauses import clause_names
from tests.conformance.evidence import PROPERTY


def pytest_itemcollected(item: pytest.Item) -> None:
    """Attach the clauses; refuse a mark that names none, or one that does not exist."""
    for mark in item.iter_markers(PROPERTY):
        if not mark.args or not set(mark.args) <= clause_names():
            raise pytest.UsageError(f"{item.nodeid} is marked with unknown clauses: {mark.args}")
        item.user_properties.extend((PROPERTY, name) for name in mark.args)
