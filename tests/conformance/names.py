"""Whether a test of that name exists: ``file::function`` or ``file::Class::function``."""

import ast
import importlib
from functools import cache
from pathlib import Path


def exists(name: str, root: Path) -> bool:
    path, *holders, function = name.split("::")
    if not function.startswith("test") or not (root / path).is_file():
        return False
    body = _body(root / path)
    for holder in holders:
        classes = [each for each in body if isinstance(each, ast.ClassDef) and each.name == holder]
        if any(each.bases for each in classes):
            return _inherits(path, holder, function)
        body = [inner for each in classes for inner in each.body]
    return any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == function
        for each in body
    )


@cache
def _body(path: Path) -> list[ast.stmt]:
    return ast.parse(path.read_text(encoding="utf-8")).body


def _inherits(path: str, holder: str, function: str) -> bool:
    """A class may take its tests from another: the contract suites of the stores do."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    return hasattr(getattr(module, holder, None), function)
