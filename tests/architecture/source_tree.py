"""The files the architecture tests examine."""

import ast
import gc
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "bench", "examples")
BUILT_FOLDERS = {"__pycache__", "build", "dist", "node_modules", "site"}


@dataclass(frozen=True)
class Module:
    """One Python file, read and parsed once."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parse(self.text)

    @property
    def line_count(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")


@cache
def _parse(text: str) -> ast.Module:
    """The tree, kept for all tests; the garbage collector never looks at it again."""
    gc.disable()
    try:
        tree = ast.parse(text)
    finally:
        gc.enable()
    gc.freeze()
    return tree


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a tree, walked once for all tests."""
    return tuple(ast.walk(tree))


@cache
def statements_of(tree: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[ast.AST, ...]:
    """The statements at every depth, in the order of the file; no expressions."""
    return tuple(_statements(tree.body))


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                yield from _statements(inner)


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """Every Python file below these top folders, in order of path."""
    return tuple(
        Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in _files_below(ROOT / folder)
        if path.suffix == ".py"
    )


def source_modules() -> tuple[Module, ...]:
    return modules("src")


def all_modules() -> tuple[Module, ...]:
    return modules(*CODE_FOLDERS)


def folders_of_code() -> Iterator[Path]:
    """Every folder that holds code, at any depth; not the project's root."""
    for top in CODE_FOLDERS:
        if (ROOT / top).is_dir():
            yield ROOT / top
            yield from (path for path in sorted((ROOT / top).rglob("*")) if _is_folder(path))


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not _is_built(path))


@cache
def kept_files() -> tuple[Path, ...]:
    """Every file that is part of the project: what version control keeps, or would keep."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if listing.returncode != 0:  # an unpacked archive has no history to ask
        return tuple(_files_below(ROOT))
    found = (ROOT / name for name in sorted(listing.stdout.split("\0")) if name)
    return tuple(path for path in found if path.is_file())


def _files_below(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _is_built(path))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not _is_built(path)


def _is_built(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in BUILT_FOLDERS or (part.startswith(".") and part != ".ci") for part in parts)
