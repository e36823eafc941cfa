"""SQL is kept in files beside the code that runs it: every statement is used, and no other one."""

import ast
import re
from pathlib import Path

import pytest
from tests.architecture import source_tree
from tests.architecture.source_tree import ROOT

QUERY_FILES = sorted((ROOT / "src/rota/stores").rglob("queries.sql"))
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- (?:include|begins as): (\w+)(?: \(.+\))?$", re.MULTILINE)
_USE = re.compile(r"(?<![.\w])QUERIES\.(\w+)")  # those of another file are called by its name
_SHARED_USE = re.compile(r"queries\.(?!sql\b)(\w+)")
_STATEMENT = re.compile(
    r"\s*(?:SELECT\s.+\sFROM|INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM"
    r"|(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX|VIEW)|PRAGMA\s+\w+)\b",
    re.IGNORECASE | re.DOTALL,
)


def statements_in_strings(tree: ast.Module) -> list[str]:
    """Strings that are SQL; docstrings talk about it and are none."""
    return [
        node.value
        for node in source_tree.nodes_of(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _STATEMENT.match(node.value)
    ]


def named(text: str) -> list[str]:
    return _NAME.findall(text)


def used(folder: Path) -> set[str]:
    """What is used of a folder's file of statements, wherever they are imported.

    A dialect has every statement that the modules of ``rota.stores.sql`` ask for which it imports.
    """
    package = ".".join(folder.relative_to(ROOT / "src").parts)
    paths = (ROOT / "src/rota/stores").rglob("*.py")
    texts = (path.read_text(encoding="utf-8") for path in paths)
    users = (text for text in texts if f"from {package}.queries import QUERIES" in text)
    names = {name for text in users for name in _USE.findall(text)}
    own = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    reached = list(shared_modules(own))
    for module in reached:  # grows while it is walked
        text = (ROOT / f"src/rota/stores/sql/{module}.py").read_text(encoding="utf-8")
        names |= set(_SHARED_USE.findall(text))
        reached += shared_modules(text) - set(reached)
    return names


def shared_modules(text: str) -> set[str]:
    """The modules of ``rota.stores.sql`` that a text imports."""
    together = re.findall(r"^from rota\.stores\.sql import (.+)$", text, re.MULTILINE)
    alone = re.findall(r"^from rota\.stores\.sql\.(\w+) import", text, re.MULTILINE)
    return {name for names in together for name in names.split(", ")} | set(alone)


def test_no_statement_hides_in_a_string() -> None:
    found = {
        module.path: statements_in_strings(module.tree) for module in source_tree.source_modules()
    }
    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize("path", QUERY_FILES, ids=lambda path: path.parent.name)
def test_every_statement_of_a_backend_is_used_and_every_used_one_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    names = named(text)
    assert len(names) == len(set(names)) > 0
    assert set(names) == used(path.parent) | set(_INCLUDE.findall(text))


def test_migrations_are_numbered_without_gaps() -> None:
    for folder in sorted((ROOT / "src/rota/stores").rglob("migrations")):
        numbers = [int(path.name[:4]) for path in sorted(folder.glob("*.sql"))]
        assert numbers == list(range(1, len(numbers) + 1)), folder.name


def test_statements_in_strings_are_found() -> None:
    tree = ast.parse('a = "select x\\nfrom y"; b = "PRAGMA foreign_keys"; c = "update the page"')
    assert statements_in_strings(tree) == ["select x\nfrom y", "PRAGMA foreign_keys"]
