"""What may be relied on: the reference lists exactly the names that the packages export."""

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.architecture.source_tree import ROOT

INDEX = (ROOT / "docs/reference/index.md").read_text(encoding="utf-8")
DETAILS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs/reference").glob("*.md"))
    if path.name != "index.md"
}
ERRORS = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")


def listed_names(page: str) -> dict[str, set[str]]:
    """Package to names, as the tables under its headings list them in their first column."""
    sections = re.split(r"^## `([\w.]+)`$", page, flags=re.MULTILINE)
    return {
        package: set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))
        for package, text in zip(sections[1::2], sections[2::2], strict=True)
    }


def exported(package: str) -> set[str]:
    module: ModuleType = importlib.import_module(package)
    return {name for name in module.__all__ if not name.startswith("__")}


def test_the_reference_lists_the_packages_users_import() -> None:
    assert {"rota", "rota.testing"} <= listed_names(INDEX).keys()


@pytest.mark.parametrize("package", sorted(listed_names(INDEX)))
def test_the_reference_lists_what_a_package_exports(package: str) -> None:
    assert listed_names(INDEX)[package] == exported(package)


def test_every_exported_name_exists() -> None:
    missing = [
        f"{package}.{name}"
        for package in listed_names(INDEX)
        for name in exported(package)
        if not hasattr(importlib.import_module(package), name)
    ]
    assert missing == []


@pytest.mark.parametrize("stub", sorted(ROOT.glob("src/**/__init__.pyi")))
def test_type_checkers_read_the_names_that_a_package_imports_when_they_are_used(stub: Path) -> None:
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imported = {
        it.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for it in node.names
    }
    assert imported == exported(".".join(stub.parent.relative_to(ROOT / "src").parts))


def test_every_public_name_is_described_on_a_page_of_the_reference() -> None:
    text = "\n".join(DETAILS.values())
    undescribed = [
        f"{package}.{name}"
        for package, names in listed_names(INDEX).items()
        for name in names
        if not re.search(rf"\b{name}\b", text)
    ]
    assert sorted(undescribed) == []


def test_the_reference_describes_every_error_with_its_base_class() -> None:
    groups = dict.fromkeys(re.findall(r"^\| `(\w+)` \| [^`]", ERRORS, re.MULTILINE), "RotaError")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", ERRORS, re.MULTILINE)
    described = groups | dict(rows) | {"RotaError": "Exception"}
    errors = importlib.import_module("rota.errors")
    found = [it for it in vars(errors).values() if isinstance(it, type)]
    assert described == {
        it.__name__: it.__mro__[1].__name__ for it in found if issubclass(it, errors.RotaError)
    }


def test_names_are_read_from_the_first_column() -> None:
    page = "## `a`\n| name | x |\n|---|---|\n| `b` | `c` |\n| `d(e)` | f |\n\n## `g.h`\n"
    assert listed_names(page) == {"a": {"b", "d"}, "g.h": set()}
