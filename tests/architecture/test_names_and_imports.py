"""What may be called what, and who may import whom."""

import ast
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.architecture import reading, source_tree
from tests.architecture.source_tree import Module

LAZY_IMPORTERS = (
    "src/rota/cli/",
    "src/rota/client.py",
    "src/rota/runtime/startup",
    "src/rota/runtime/watch",
    "src/rota/runtime/wiring",
)
"""May import inside a function: a driver loads when its store opens, a command when it runs."""


def _found(modules: Sequence[Module], look: Callable[[ast.Module], Sequence[object]]) -> list[str]:
    return [f"{module.path}: {thing}" for module in modules for thing in look(module.tree)]


def test_no_module_or_folder_has_an_empty_name() -> None:
    found = [
        module.path
        for module in source_tree.all_modules()
        if reading.empty_module_names(module.path)
    ]
    assert found == []


def test_no_class_has_an_empty_name() -> None:
    assert _found(source_tree.all_modules(), reading.empty_class_names) == []


def test_no_variable_is_called_data_or_info() -> None:
    assert _found(source_tree.source_modules(), reading.empty_variable_names) == []


def test_nothing_is_imported_for_type_checking_only() -> None:
    assert _found(source_tree.all_modules(), reading.type_checking_blocks) == []


def test_imports_stand_at_the_top_of_a_module() -> None:
    ours = [m for m in source_tree.source_modules() if not m.path.startswith(LAZY_IMPORTERS)]
    assert _found(ours, reading.imports_inside_functions) == []


def test_no_text_or_bytes_from_outside_can_become_code() -> None:
    ours = [m for m in source_tree.all_modules() if not m.is_test]
    assert _found(ours, reading.forbidden_calls) == []


def test_imports_point_downwards_only() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run(
        [str(program), "--no-cache"],
        cwd=source_tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
