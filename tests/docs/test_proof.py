"""The page about models names parts of the models and of the code that exist, and every check."""

import ast
import re
from functools import cache

from tests.docs.environment import ROOT

PAGE = (ROOT / "docs/proof.md").read_text(encoding="utf-8")
_CODE = re.compile(r"`(src/[\w/]+\.py)::([\w.]+)`")
_ROW = re.compile(r"^\| (?!in the model|check)([^|]+) \| [^|]*`src/", re.MULTILINE)
_MODEL = re.compile(r"^`proof/(\w+)\.pml`", re.MULTILINE)
_MUTANT = re.compile(r"MUTANT_(\w+)")


@cache
def names_in(path: str) -> frozenset[str]:
    """Functions and classes, and methods under the name of their class."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    top = {node.name for node in tree.body if isinstance(node, (*kinds, ast.ClassDef))}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = {
        f"{each.name}.{node.name}"
        for each in classes
        for node in each.body
        if isinstance(node, kinds)
    }
    return frozenset(top | methods)


def missing_code(page: str) -> list[str]:
    return [
        f"{path}::{name}"
        for path, name in _CODE.findall(page)
        if not (ROOT / path).is_file() or name not in names_in(path)
    ]


def missing_parts(page: str) -> list[str]:
    """What the first column names, and the model of the section does not have."""
    _, *sections = re.split(r"(?=^`proof/\w+\.pml`)", page, flags=re.MULTILINE)
    missing = []
    for section in sections:
        (model,) = _MODEL.findall(section)
        text = (ROOT / f"proof/{model}.pml").read_text(encoding="utf-8")
        words = set(re.findall(r"\w+", text))
        named = {name for row in _ROW.findall(section) for name in re.findall(r"`(\w+)`", row)}
        missing += [f"{model}: {name}" for name in sorted(named - words)]
    return missing


def mutants_of(model: str) -> set[str]:
    return set(_MUTANT.findall((ROOT / f"proof/{model}.pml").read_text(encoding="utf-8")))


def test_the_code_that_the_page_names_exists() -> None:
    assert len(_CODE.findall(PAGE)) > 30
    assert missing_code(PAGE) == []


def test_the_parts_of_models_that_the_page_names_exist() -> None:
    assert len(_ROW.findall(PAGE)) > 20
    assert missing_parts(PAGE) == []


def test_the_check_of_the_page_can_fail() -> None:
    assert missing_code("`src/rota/policy/once.py::Ledger.twice`") == [
        "src/rota/policy/once.py::Ledger.twice"
    ]
    page = "`proof/once.pml`: x\n| `nothing_like_it` | `src/rota/policy/once.py::Ledger` |"
    assert missing_parts(page) == ["once: nothing_like_it"]


def test_every_mutant_is_run() -> None:
    checks = (ROOT / "proof/checks.py").read_text(encoding="utf-8")
    for model in ("lease", "once", "move"):
        assert len(mutants_of(model)) >= 5
        assert {name for name in mutants_of(model) if f'"{name}"' not in checks} == set()
