"""The page about faults names each of them, and tests that exist."""

import ast
import re
from functools import cache

from tests.docs.environment import ROOT

PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
FAULT_COUNT = 35
_FAULT = re.compile(r"^\*\*(\d+)\. ", re.MULTILINE)
_TEST = re.compile(r"`((?:tests|src)/[\w/]+\.py)(?:::(test_\w+))?`")
_GAP = re.compile(r"^- .*?\bNot (?:tried|there): ", re.MULTILINE)


def split_faults(page: str) -> dict[int, str]:
    """The text about each fault, up to the next one or to a heading."""
    parts = _FAULT.split(page)[1:]
    return {
        int(number): text.partition("\n## ")[0]
        for number, text in zip(parts[::2], parts[1::2], strict=True)
    }


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def missing_tests(page: str) -> list[str]:
    """What is named and not there."""
    return [
        f"{path}::{name}"
        for path, name in _TEST.findall(page)
        if not (ROOT / path).is_file() or (name and name not in functions_of(path))
    ]


def test_every_fault_is_there_in_order() -> None:
    assert list(split_faults(PAGE)) == list(range(1, FAULT_COUNT + 1))


def test_every_fault_has_a_test_or_says_that_it_has_none() -> None:
    bare = [
        number
        for number, text in split_faults(PAGE).items()
        if not any(name for _, name in _TEST.findall(text)) and not _GAP.search(text)
    ]
    assert bare == []


def test_no_fault_is_without_a_test() -> None:
    """A fault without a test must be listed here."""
    untested = [number for number, text in split_faults(PAGE).items() if not _TEST.findall(text)]
    assert untested == []


def test_every_test_that_is_named_exists() -> None:
    assert len(_TEST.findall(PAGE)) > 2 * FAULT_COUNT
    assert missing_tests(PAGE) == []


def test_every_defect_names_tests_that_exist() -> None:
    page = (ROOT / "docs/defects.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [row for row in rows if not _TEST.search(row)] == []
    assert missing_tests(page) == []


def test_a_test_that_does_not_exist_is_noticed() -> None:
    here = "tests/docs/test_faults.py"
    there = f"`{here}::test_every_fault_is_there_in_order`"
    page = f"`{here}::test_that_was_renamed` {there} `tests/no.py`"
    assert missing_tests(page) == [f"{here}::test_that_was_renamed", "tests/no.py::"]
