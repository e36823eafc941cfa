"""The limits on sizes; raising one needs a decision record."""

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.architecture import counting, source_tree
from tests.architecture.counting import Count
from tests.architecture.source_tree import Module

MODULE_LINES = 350
TEST_MODULE_LINES = 500
FUNCTION_LINES = 40
SHORT_FUNCTION_LINES = 20
SHORT_FUNCTION_SHARE = 0.9
PUBLIC_METHODS = 12
CONSTRUCTOR_PARAMETERS = 5
FOLDER_ENTRIES = 12
NESTING_LEVELS = 3

UNLIMITED_FOLDERS = {"src/rota", "tests/unit"}
"""The root of the package, and the folder that mirrors it."""

STORE_FOLDER = "src/rota/stores/"
"""A backend has all the verbs of the store's protocol, however many these are."""

_Counter = Callable[[ast.Module], list[Count]]


def _over(limit: int, modules: Iterable[Module], counter: _Counter) -> list[str]:
    return [
        f"{module.path}:{count.line} {count.name}: {count.number}, at most {limit}"
        for module in modules
        for count in counter(module.tree)
        if count.number > limit
    ]


def too_long_modules(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.path}: {module.line_count} lines"
        for module in modules
        if module.line_count > (TEST_MODULE_LINES if module.is_test else MODULE_LINES)
    ]


def share_of_short_functions(modules: Iterable[Module]) -> float:
    lengths = [
        count.number for module in modules for count in counting.function_lengths(module.tree)
    ]
    return sum(length < SHORT_FUNCTION_LINES for length in lengths) / len(lengths)


def too_full_folders(folders: Iterable[Path]) -> list[str]:
    sizes = {folder: len(source_tree.entries(folder)) for folder in folders}
    return [
        f"{folder.relative_to(source_tree.ROOT).as_posix()}: {size} entries"
        for folder, size in sizes.items()
        if size > FOLDER_ENTRIES
    ]


def test_no_module_is_too_long() -> None:
    assert too_long_modules(source_tree.all_modules()) == []


def test_no_function_is_too_long() -> None:
    assert _over(FUNCTION_LINES, source_tree.all_modules(), counting.function_lengths) == []


def test_nine_functions_in_ten_are_short() -> None:
    assert share_of_short_functions(source_tree.source_modules()) >= SHORT_FUNCTION_SHARE


def test_no_class_has_too_many_public_methods() -> None:
    ours = [m for m in source_tree.source_modules() if not m.path.startswith(STORE_FOLDER)]
    assert _over(PUBLIC_METHODS, ours, counting.public_method_counts) == []


def test_no_constructor_takes_too_many_parameters() -> None:
    found = _over(
        CONSTRUCTOR_PARAMETERS,
        source_tree.source_modules(),
        counting.constructor_parameter_counts,
    )
    assert found == []


def test_no_folder_is_too_full() -> None:
    limited = (
        folder
        for folder in source_tree.folders_of_code()
        if folder.relative_to(source_tree.ROOT).as_posix() not in UNLIMITED_FOLDERS
    )
    assert too_full_folders(limited) == []


def test_nothing_is_nested_too_deep() -> None:
    assert _over(NESTING_LEVELS, source_tree.all_modules(), counting.nesting_depths) == []
