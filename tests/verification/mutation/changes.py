"""Small mistakes: an operator, constant or condition is another one, a statement is left out."""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}


class Change(NamedTuple):
    """The place of a change in its module, and what it does there."""

    number: int
    line: int
    what: str
    first_line: int
    """Where the statement begins, without the block that it may have."""
    last_line: int


class Changer(ast.NodeTransformer):
    """Makes the change with a number, or none, and lists all that there are."""

    def __init__(self, chosen: int | None = None) -> None:
        self.changes: list[Change] = []
        self._chosen = chosen
        self._lines = (0, 0)

    def visit(self, node: ast.AST) -> Any:
        around = self._lines
        if isinstance(node, ast.stmt):
            self._lines = _find_lines(node)
        try:
            return super().visit(node)
        finally:
            self._lines = around

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = _COMPARED.get(type(node.ops[0]))
        if other is not None and len(node.ops) == 1 and self._is_chosen(node, other.__name__):
            node.ops = [other()]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = _COUNTED.get(type(node.op))
        if other is not None and not _is_type(node) and self._is_chosen(node, other.__name__):
            node.op = other()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        if self._is_chosen(node, other.__name__):
            node.op = other()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._is_chosen(node, str(not value)):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int) and self._is_chosen(node, str(value + 1)):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if _is_type_checking(node.test):
            return node
        if self._is_chosen(node, "if not"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if self._is_chosen(node, "if not"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._is_chosen(node, "no not"):
            return node.operand
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        if node.value is None or (isinstance(node.value, ast.Constant) and not node.value.value):
            return node
        if self._is_chosen(node, "return None"):
            node.value = ast.Constant(None)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node
        return self._leave_out(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """A name that is not assigned is an error at once, which any test notices."""
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            return self._leave_out(node)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._leave_out(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self._leave_out(node)

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return self._leave_out(node)

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return self._leave_out(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """How a class is kept in memory, and that nothing sets its fields, is not behaviour."""
        return node if node.arg in {"gc", "slots", "frozen"} else self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Defaults count; annotations are no code."""
        node.defaults = [self.visit(each) for each in node.defaults]
        node.kw_defaults = [each and self.visit(each) for each in node.kw_defaults]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Not in ``Literal[1]``, nor anything else that may be a type."""
        if isinstance(node.value, ast.Name) and node.value.id[:1].isupper():
            return node
        return self.generic_visit(node)

    def _leave_out(self, node: ast.stmt) -> ast.AST:
        self.generic_visit(node)
        is_chosen = self._is_chosen(node, f"no {type(node).__name__}")
        return ast.copy_location(ast.Pass(), node) if is_chosen else node

    def _is_chosen(self, node: ast.expr | ast.stmt, what: str) -> bool:
        self.changes.append(Change(len(self.changes), node.lineno, what, *self._lines))
        return self._chosen == len(self.changes) - 1


def _find_lines(node: ast.stmt) -> tuple[int, int]:
    block = getattr(node, "body", None)
    last = block[0].lineno - 1 if isinstance(block, list) else node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, last)


def _is_type(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitOr)


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def list_changes(source: str) -> list[Change]:
    """Every change that can be made in a module."""
    changer = Changer()
    changer.visit(ast.parse(source))
    return changer.changes


def make_change(source: str, number: int) -> ast.Module:
    """The module with that change; lines keep their numbers."""
    tree: ast.Module = Changer(number).visit(ast.parse(source))
    return ast.fix_missing_locations(tree)


def walk(sources: dict[str, str]) -> Iterator[tuple[str, Change]]:
    """Every change of these modules, each with the name of its module."""
    for module, source in sources.items():
        for change in list_changes(source):
            yield module, change
