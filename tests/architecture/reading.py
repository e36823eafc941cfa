"""What the architecture refuses, found by reading the code: names, imports and calls."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath

from tests.architecture.counting import classes, functions
from tests.architecture.source_tree import Module, nodes_of, statements_of

EMPTY_MODULE_NAMES = frozenset(
    {
        *("base", "common", "data", "helper", "helpers", "info", "lib", "manager"),
        *("misc", "stuff", "tools", "types", "util", "utils"),
    }
)
"""Names that say where something was put, not what it is."""

EMPTY_CLASS_WORDS = ("Manager", "Helper", "Base", "Impl", "Service")
EMPTY_VARIABLE_NAMES = frozenset({"data", "info"})

FORBIDDEN_MODULES = frozenset({"dill", "marshal", "pickle", "shelve"})
"""They turn bytes from outside into running code; what Rota reads is JSON."""

FORBIDDEN_CALLS = frozenset(
    {
        *("__import__", "compile", "eval", "exec", "yaml.load", "yaml.unsafe_load"),
        *("asyncio.create_subprocess_shell", "os.popen", "os.system"),
    }
)

_WORDS = re.compile(r"[A-Z][a-z0-9]*|[A-Z]+(?![a-z])")


def empty_module_names(path: str) -> list[str]:
    """The parts of a path that are refused as the name of a module or folder."""
    parts = PurePosixPath(path).with_suffix("").parts
    return [part for part in parts if part.strip("_") in EMPTY_MODULE_NAMES]


def empty_class_names(tree: ast.Module) -> list[str]:
    return [
        node.name
        for node in classes(tree)
        if any(word in _WORDS.findall(node.name) for word in EMPTY_CLASS_WORDS)
    ]


def empty_variable_names(tree: ast.Module) -> list[str]:
    """Parameters, variables and functions called ``data`` or ``info``, also as the last word."""
    return [name for name in _bound_names(tree) if name.rsplit("_", 1)[-1] in EMPTY_VARIABLE_NAMES]


def type_checking_blocks(tree: ast.Module) -> list[int]:
    return [
        node.lineno
        for node in statements_of(tree)
        if isinstance(node, ast.If) and _dotted(node.test).endswith("TYPE_CHECKING")
    ]


def imports_inside_functions(tree: ast.Module) -> list[int]:
    found = {
        node.lineno
        for function in functions(tree)
        for node in statements_of(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return sorted(found)


def forbidden_calls(tree: ast.Module) -> list[str]:
    """Everything that could run text or bytes from outside as code, with its line."""
    return [
        f"line {getattr(node, 'lineno', 0)}: {reason}"
        for node in nodes_of(tree)
        for reason in (*_forbidden_import(node), *_forbidden_call(node))
    ]


def _forbidden_import(node: ast.AST) -> Iterator[str]:
    for name in _imported_modules(node):
        if name.split(".")[0] in FORBIDDEN_MODULES:
            yield f"import of {name}"


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module]
    return []


def _forbidden_call(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    called = _dotted(node.func)
    if called in FORBIDDEN_CALLS:
        yield f"call of {called}"
    for keyword in node.keywords:
        if keyword.arg == "shell" and _is(keyword.value, value=True):
            yield f"{called} with a shell"


def _is(node: ast.expr, *, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _dotted(node: ast.expr) -> str:
    """``os.path.join`` for the expression that says so; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}".lstrip(".")
    return ""


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def identifiers(tree: ast.Module) -> set[str]:
    """Every name a file gives to something: classes, functions, parameters and variables."""
    return {*_bound_names(tree), *(node.name for node in classes(tree))}


def folder_imports(modules: Iterable[Module]) -> set[tuple[str, str]]:
    """Pairs of packages: the first has a module that imports from the second."""
    by_name = {_dotted_name(module.path): module for module in modules}
    packages = {name for name, module in by_name.items() if module.path.endswith("/__init__.py")}
    return {
        (_package_of(name, packages), _package_of(target, packages))
        for name, module in by_name.items()
        for target in _imported_names(module.tree, by_name.keys())
        if _package_of(name, packages) != _package_of(target, packages)
    }


def _dotted_name(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(part for part in parts[1:] if part != "__init__")


def _package_of(name: str, packages: Collection[str]) -> str:
    return name if name in packages else name.rpartition(".")[0]


def _imported_names(tree: ast.Module, known: Collection[str]) -> Iterator[str]:
    for node in statements_of(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module in known:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module
