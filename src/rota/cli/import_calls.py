"""Reads literals and calls from Python source without running it."""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rota.errors import InvalidInputError
from rota.ops.schedules import format_seconds


@dataclass(frozen=True)
class SourceCall:
    """A call such as ``crontab(hour=7)``: the last part of its name, and its literal arguments."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class SourceName:
    """A name such as ``reports.send``, as it stands in the source."""

    text: str


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def read_value(node: ast.AST) -> Any:
    """The value of a literal; calls and names become ``SourceCall`` and ``SourceName``.

    Raises InvalidInputError for anything that must be run to be known.
    """
    match node:
        case ast.Constant():
            return node.value
        case ast.Dict():
            keys = [read_value(key) for key in node.keys if key is not None]
            if len(keys) == len(node.keys):
                return dict(zip(keys, map(read_value, node.values), strict=True))
        case ast.List() | ast.Tuple() | ast.Set():
            items = [read_value(item) for item in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        case ast.Call():
            kwargs = {it.arg: read_value(it.value) for it in node.keywords if it.arg is not None}
            if len(kwargs) == len(node.keywords):
                return SourceCall(_last_name(node.func), [*map(read_value, node.args)], kwargs)
        case ast.Name() | ast.Attribute():
            return SourceName(ast.unparse(node))
    return _read_number(node)


def _read_number(node: ast.AST) -> Any:
    """The value of arithmetic on numbers, such as ``60 * 5``."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = read_value(node.left), read_value(node.right)
            if isinstance(left, int | float) and isinstance(right, int | float):
                return _compute(_OPERATORS[type(node.op)], left, right)
    source = ast.unparse(node)
    raise InvalidInputError(
        f"{source[:60]} must be run to be known; write it out", {"field": "schedule"}
    )


def _compute(compute: Callable[[float, float], float], left: float, right: float) -> float:
    try:
        return compute(left, right)
    except ZeroDivisionError as error:
        raise InvalidInputError("a division by zero", {"field": "schedule"}) from error
    except OverflowError as error:
        raise InvalidInputError("a number that is too large", {"field": "schedule"}) from error


def _last_name(function: ast.expr) -> str:
    return ast.unparse(function).rsplit(".", 1)[-1]


def parse_source(text: str) -> ast.Module:
    """The module; InvalidInputError if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise InvalidInputError(f"the file is not Python: {error}", {"field": "FILE"}) from error


def as_seconds(value: Any) -> float | None:
    """The seconds in a number or in ``timedelta(...)``; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, SourceCall) or value.name != "timedelta":
        return None
    try:
        return timedelta(*value.args, **value.kwargs).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None


def format_interval(seconds: float) -> str:
    """A duration as Rota writes it. Raises InvalidInputError for a fraction of a second."""
    if seconds < 1 or seconds % 1:
        raise InvalidInputError(
            f"every {seconds:g} s: Rota counts in whole seconds, from one on", {"field": "schedule"}
        )
    return format_seconds(timedelta(seconds=seconds), "schedule")


def format_arguments(args: Any, kwargs: Any) -> str:
    """The arguments of a call, as source. Raises InvalidInputError for what is not a literal."""
    words = [repr(_literal(value)) for value in args or ()]
    return ", ".join(words + [f"{name}={_literal(it)!r}" for name, it in (kwargs or {}).items()])


def _literal(value: Any) -> Any:
    match value:
        case SourceCall() | SourceName():
            reason = f"the argument {show(value)} is not a literal"
            raise InvalidInputError(reason, {"field": "args"})
        case dict():
            return {_literal(key): _literal(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(map(_literal, value))
    return value


def show(value: Any) -> str:
    """A value as it stands in the source."""
    if isinstance(value, SourceName):
        return value.text
    if isinstance(value, SourceCall):
        args = [show(each) for each in value.args]
        args += [f"{name}={show(each)}" for name, each in value.kwargs.items()]
        return f"{value.name}({', '.join(args)})"
    return repr(value)
