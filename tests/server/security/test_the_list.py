"""The security list of the guide: every rule has a test, and every test of a rule is listed."""

import re

import pytest
from tests.architecture.source_tree import ROOT

PAGE = (ROOT / "docs/guide/security.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (S\d+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def list_tests(cell: str) -> list[str]:
    return re.findall(r"`(tests/[\w/]+\.py)`", cell)


def test_the_list_is_complete_and_in_order() -> None:
    assert [number for number, _, _ in ROWS] == [f"S{number}" for number in range(1, 23)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_rule_has_a_test_that_exists(row: tuple[str, str, str]) -> None:
    number, _, cell = row
    paths = list_tests(cell)
    assert paths
    for path in paths:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(r"^(?:async )?def test_", text, re.MULTILINE), path
        if path.startswith("tests/server/security/"):
            assert f"test_s{int(number[1:]):02d}_" in path
            assert text.startswith(f'"""{number}: ')


def test_every_module_here_is_in_the_list() -> None:
    listed = {path for _, _, cell in ROWS for path in list_tests(cell)}
    here = ROOT / "tests/server/security"
    written = {path.relative_to(ROOT).as_posix() for path in here.rglob("test_s[0-9]*.py")}
    assert written <= listed
