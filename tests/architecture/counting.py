"""How sizes are counted. Each function takes a parsed file and returns what it found.

- The length of a function is the number of lines from ``def`` to its last statement. Its docstring
  is not counted: a longer promise must never be a reason to shorten the code that keeps it.
- Nesting counts the blocks one statement stands in, inside its function: ``if``, ``for``,
  ``while``, ``with``, ``try`` and ``match`` open a level; ``elif``, ``else``, ``except`` and
  ``case`` belong to the level of the statement they continue. A function inside a function begins
  at zero again.
- Public methods are those whose name has no leading underscore; properties count.
- Attributes of a class are those that its ``__init__`` sets on ``self``.
- Constructor parameters are those of ``__init__`` besides ``self``. A dataclass or msgspec record
  has none of its own: it is the settings record that a long parameter list should become.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.architecture.source_tree import statements_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
_BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


@dataclass(frozen=True)
class Count:
    """A number, and the name and line of what was counted."""

    name: str
    line: int
    number: int


def functions(tree: ast.Module) -> Iterator[Function]:
    for node in statements_of(tree):
        if isinstance(node, Function):
            yield node


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    for node in statements_of(tree):
        if isinstance(node, ast.ClassDef):
            yield node


def function_lengths(tree: ast.Module) -> list[Count]:
    return [Count(node.name, node.lineno, _length(node)) for node in functions(tree)]


def nesting_depths(tree: ast.Module) -> list[Count]:
    return [Count(node.name, node.lineno, _deepest(node.body, 0)) for node in functions(tree)]


def public_method_counts(tree: ast.Module) -> list[Count]:
    return [Count(node.name, node.lineno, len(_public_methods(node))) for node in classes(tree)]


def constructor_parameter_counts(tree: ast.Module) -> list[Count]:
    return [
        Count(owner.name, node.lineno, _parameter_count(node))
        for owner in classes(tree)
        for node in owner.body
        if isinstance(node, Function) and node.name == "__init__"
    ]


def attribute_counts(tree: ast.Module) -> list[Count]:
    return [
        Count(owner.name, owner.lineno, len(_attributes_set_by(node)))
        for owner in classes(tree)
        for node in owner.body
        if isinstance(node, Function) and node.name == "__init__"
    ]


def _attributes_set_by(constructor: Function) -> set[str]:
    return {
        node.attr
        for node in ast.walk(constructor)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def _length(function: Function) -> int:
    end = function.end_lineno or function.lineno
    return end - function.lineno + 1 - _docstring_length(function)


def _docstring_length(function: Function) -> int:
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def _deepest(statements: list[ast.stmt], level: int) -> int:
    return max((_depth_of(statement, level) for statement in statements), default=level)


def _depth_of(statement: ast.stmt, level: int) -> int:
    if not isinstance(statement, _BLOCKS):
        return level
    return max(_deepest(body, inner) for body, inner in _bodies(statement, level + 1))


def _bodies(statement: ast.stmt, level: int) -> Iterator[tuple[list[ast.stmt], int]]:
    """The blocks a statement opens, with their level; an ``elif`` stays on that of its ``if``."""
    yield getattr(statement, "body", []), level
    orelse: list[ast.stmt] = getattr(statement, "orelse", [])
    is_elif = isinstance(statement, ast.If) and len(orelse) == 1 and isinstance(orelse[0], ast.If)
    yield orelse, level - 1 if is_elif else level
    yield getattr(statement, "finalbody", []), level
    for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield part.body, level


def _public_methods(owner: ast.ClassDef) -> set[str]:
    """By name, so that the overloads of one method, or a property and its setter, count once."""
    return {
        node.name
        for node in owner.body
        if isinstance(node, Function) and not node.name.startswith("_")
    }


def _parameter_count(constructor: Function) -> int:
    given = constructor.args
    listed = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
    return listed + (given.vararg is not None) + (given.kwarg is not None)
