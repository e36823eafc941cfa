"""The small mistakes that the tests of a package are to notice."""

import sys
from types import ModuleType

import pytest
from tests.verification.mutation.changes import list_changes, make_change
from tests.verification.mutation.plugin import ChangedModules, install

SOURCE = """
LIMIT: int = 3

def is_late(now, due, is_strict=False):
    if is_strict and now > due:
        return True
    return now - due >= LIMIT
"""


def test_each_change_is_one_place_and_another_program() -> None:
    changes = list_changes(SOURCE)
    assert [change.what for change in changes] == [
        "4", "True", "GtE", "Or", "False", "return None", "if not", "Add", "Gt", "return None",
    ]  # fmt: skip
    programs = {make_change(SOURCE, change.number) for change in changes}
    assert len(programs) == len(changes)


def test_annotations_are_left_alone() -> None:
    assert list_changes("def f(x: Literal[1], y: 'int | None') -> Literal[True]: ...") == []


def test_a_module_is_loaded_with_its_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "tests.cpu", raising=False)
    install("tests.cpu:0")
    finder = sys.meta_path[0]
    assert isinstance(finder, ChangedModules)
    assert finder.find_spec("json", None) is None


def test_a_module_that_is_loaded_cannot_be_changed() -> None:
    assert isinstance(sys.modules["sys"], ModuleType)
    with pytest.raises(RuntimeError, match="sys is loaded already"):
        install("sys:0")
