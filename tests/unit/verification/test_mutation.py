"""The small mistakes that the tests of a package are to notice."""

import ast
import gc
import os
import resource
import sys
from pathlib import Path
from time import process_time
from types import ModuleType

import pytest
from tests import cpu
from tests.verification.mutation.changes import list_changes, make_change
from tests.verification.mutation.plugin import (
    LONGEST_SECONDS,
    MISSED,
    NOTICED,
    CachedResults,
    ChangedFunctions,
    ChangedModules,
    await_child,
    install,
    limit_resources,
    limit_seconds,
)
from tests.verification.mutation.reaches import Reaches

from rota.triggers.rrule_days import _month_starts

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
    programs = {ast.unparse(make_change(SOURCE, change.number)) for change in changes}
    assert len(programs) == len(changes)


def test_annotations_are_left_alone() -> None:
    assert list_changes("def f(x: Literal[1], y: 'int | None') -> Literal[True]: ...") == []


def test_a_loaded_function_gets_its_change_and_loses_it_again() -> None:
    file = cpu.__file__
    assert file is not None
    source = Path(file).read_text()
    number = next(each.number for each in list_changes(source) if each.what == "return None")
    functions = ChangedFunctions()
    changed = functions.change(file, number)
    assert cpu.least_cpu_seconds(lambda: int, 9.0) is None
    functions.restore(changed)
    assert cpu.least_cpu_seconds(lambda: int, 9.0) < 9.0


def test_cached_results_of_the_product_are_forgotten() -> None:
    _month_starts(365)
    gc.freeze()
    assert _month_starts.cache_info().currsize
    CachedResults().forget()
    assert not _month_starts.cache_info().currsize


def test_a_child_that_fails_or_dies_has_noticed() -> None:
    for status, verdict in ((0, MISSED), (5, MISSED), (1, NOTICED)):
        child = os.fork()
        if not child:
            os._exit(status)
        assert await_child(child) == verdict


def test_a_test_gets_a_time_of_its_own_within_that_of_its_process() -> None:
    child = os.fork()
    if not child:
        limit_resources()
        limit_seconds(5.0)
        allowed, most = resource.getrlimit(resource.RLIMIT_CPU)
        is_right = 5.0 < allowed - process_time() < 7.0 and most == LONGEST_SECONDS
        os._exit(0 if is_right else 1)
    assert await_child(child) == MISSED


def test_a_recorded_test_has_its_time_and_another_has_none(tmp_path: Path) -> None:
    Reaches({"slow": 2.0, "quick": 1.0}, {"file": {1: ["slow"], 2: [""]}}).write(tmp_path / "r")
    reaches = Reaches.read(tmp_path / "r")
    assert sorted(["slow", "quick", "new"], key=reaches.find_seconds) == ["new", "quick", "slow"]
    assert reaches.find_tests("file", 1, 1) == {"slow"}
    assert reaches.find_tests("file", 1, 2) is None


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
