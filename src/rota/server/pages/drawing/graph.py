"""A dependency graph on a plane: what must end first stands further left."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

NODE_WIDTH = 154.0
NODE_HEIGHT = 44.0
_COLUMN = NODE_WIDTH + 40.0
_ROW = NODE_HEIGHT + 16.0
_MARGIN = 10.0
_SWEEPS = 4


class Placed(NamedTuple):
    """The upper left corner of a node."""

    id: str
    x: float
    y: float


class Curve(NamedTuple):
    """An edge as the path of SVG, from the right side of one node to the left of another."""

    path: str
    tip: str


class Layout(NamedTuple):
    """Where all of it goes, and how much room it takes."""

    width: float
    height: float
    nodes: tuple[Placed, ...]
    edges: tuple[Curve, ...]


def lay_out(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Columns by the longest way there, rows so that few edges cross.

    ``edges`` lead from what ends first to what waits for it. One that names a node that is not
    among ``ids``, and one that would lead back, is left out.
    """
    known = set(ids)
    kept = [(a, b) for a, b in dict.fromkeys(edges) if a in known and b in known and a != b]
    columns = _order(_rank(ids, kept), kept)
    places = _place(columns)
    height = max((len(column) for column in columns), default=0) * _ROW - (_ROW - NODE_HEIGHT)
    width = len(columns) * _COLUMN - (_COLUMN - NODE_WIDTH)
    return Layout(
        max(width, 0) + 2 * _MARGIN,
        max(height, 0) + 2 * _MARGIN,
        tuple(places[each] for column in columns for each in column),
        tuple(_curve(places[a], places[b]) for a, b in kept if places[a].x < places[b].x),
    )


def _rank(ids: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The nodes by column; a node stands right of everything it waits for."""
    level = dict.fromkeys(ids, 0)
    for _ in range(len(level)):
        is_settled = True
        for source, target in edges:
            if level[target] <= level[source] < len(level) - 1:
                level[target] = level[source] + 1
                is_settled = False
        if is_settled:
            break
    columns: dict[int, list[str]] = {}
    for each in ids:
        columns.setdefault(level[each], []).append(each)
    return [columns[at] for at in sorted(columns)]


def _order(columns: list[list[str]], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Each column by where its neighbours stand on average, to and fro a few times."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in edges:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        rows = {each: row for column in columns for row, each in enumerate(column)}
        for column in columns if forward else reversed(columns):
            column.sort(key=lambda each: _middle(each, neighbours, rows))
            rows.update({each: row for row, each in enumerate(column)})
    return columns


def _middle(each: str, neighbours: Mapping[str, list[str]], rows: Mapping[str, int]) -> float:
    found = [rows[other] for other in neighbours.get(each, ())]
    return sum(found) / len(found) if found else rows[each]


def _place(columns: Sequence[Sequence[str]]) -> dict[str, Placed]:
    """Every column is centred on the tallest one."""
    tallest = max((len(column) for column in columns), default=0)
    places = {}
    for at, column in enumerate(columns):
        top = _MARGIN + (tallest - len(column)) * _ROW / 2
        for row, each in enumerate(column):
            places[each] = Placed(each, _MARGIN + at * _COLUMN, top + row * _ROW)
    return places


def _curve(source: Placed, target: Placed) -> Curve:
    x1, y1 = source.x + NODE_WIDTH, source.y + NODE_HEIGHT / 2
    x2, y2 = target.x - 5, target.y + NODE_HEIGHT / 2
    bend = max((x2 - x1) / 2, 24)
    path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    return Curve(path, f"M{x2:.0f} {y2 - 4:.0f}l6 4l-6 4z")
