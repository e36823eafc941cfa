"""Places the nodes of a dependency graph and routes its edges.

Columns run from dependencies to dependents. An edge bends between columns only. Where it passes a
column, it has a lane there, which takes room as a node does. So no edge ever crosses a node. Edges
with a common end share their lanes.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, sqrt
from typing import NamedTuple, TypeAlias, TypeVar
from unicodedata import east_asian_width

from rota.escape import escape

NODE_WIDTH = 232.0
LINE_HEIGHT = 15.0
_NODE_BASE = 29.0
_LANE_HEIGHT = 6.0
_BETWEEN_COLUMNS = 56.0
_BETWEEN_NODES = 14.0
_BETWEEN_LANES = 3.0
_MARGIN = 12.0
_TIP = 6.0

_LINE_ROOM = 29.0
_WIDE = frozenset("mwMW@%")
_SWEEPS = 6
_TALLEST = 16
_HEIGHT_SHARE = 1.2

MOST_LANES = 8_000
"""The longest edges are left out of a drawing that would need more lanes."""

Stop: TypeAlias = Hashable
"""Where an edge passes: the id of a node, or a lane in one column."""

First = TypeVar("First")
Second = TypeVar("Second")

Edge: TypeAlias = tuple[str, str]
Wire: TypeAlias = tuple[Stop, Stop]


class Placed(NamedTuple):
    """A node: its upper left corner, its height, and its name in lines."""

    id: str
    x: float
    y: float
    height: float
    lines: tuple[str, ...]


class Bend(NamedTuple):
    """A part of an edge between two columns, from left to right."""

    x1: float
    y1: float
    x2: float
    y2: float


class Layout(NamedTuple):
    """The positions of all nodes and edges, and the size of the drawing.

    ``lanes`` are the level parts of edges, ``tips`` the ends of arrows. ``left_out`` is the number
    of edges that are not drawn.
    """

    width: float
    height: float
    nodes: tuple[Placed, ...]
    bends: tuple[Bend, ...]
    lanes: tuple[Bend, ...]
    tips: tuple[tuple[float, float], ...]
    left_out: int = 0

    @property
    def path(self) -> str:
        """All edges as one SVG path."""
        bends = (
            f"M{x1:.0f} {y1:.0f}C{(x1 + x2) / 2:.0f} {y1:.0f} {(x1 + x2) / 2:.0f} {y2:.0f}"
            f" {x2:.0f} {y2:.0f}"
            for x1, y1, x2, y2 in self.bends
        )
        lanes = (f"M{x1:.0f} {y1:.0f}H{x2:.0f}" for x1, y1, x2, _ in self.lanes)
        return "".join((*bends, *lanes))

    @property
    def arrows(self) -> str:
        """All tips as one SVG path."""
        return "".join(f"M{x - _TIP:.0f} {y - 4:.0f}l6 4l-6 4z" for x, y in self.tips)


def lay_out(names: Mapping[str, str], edges: Iterable[Edge]) -> Layout:
    """Place the nodes, given as id and name, so that edges are short and few of them cross.

    ``edges`` lead from a dependency to its dependent. Edges to unknown nodes, and edges that would
    lead back, are left out.
    """
    kept = [(a, b) for a, b in dict.fromkeys(edges) if a in names and b in names and a != b]
    columns = _split(_rank(names, kept))
    at = {each: index for index, column in enumerate(columns) for each in column}
    forward = [(a, b) for a, b in kept if at[a] < at[b]]
    wires, left_out = _route(forward, at)
    lanes = _lanes_by_column(wires)
    stops = [_insert(column, lanes.get(index, [])) for index, column in enumerate(columns)]
    lines = {each: wrap(name) for each, name in names.items()}
    heights = {each: _NODE_BASE + LINE_HEIGHT * len(text) for each, text in lines.items()}
    middles = _settle(_order(stops, wires), wires, heights)
    return _draw(columns, wires, middles, lines)._replace(left_out=left_out)


def wrap(name: str) -> tuple[str, ...]:
    """The whole name in lines that fit into a node."""
    lines, room = [""], _LINE_ROOM
    for word in _cut_words(escape(name)):
        width = sum(_width(each) for each in word)
        if width > room and lines[-1]:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            room = _LINE_ROOM
        lines[-1] += word
        room -= width
    return tuple(lines)


def _cut_words(text: str) -> list[str]:
    """Words with the space after them; a word that fits in no line is cut."""
    words = [""]
    width = 0.0
    for each in text:
        if width + _width(each) > _LINE_ROOM or words[-1].endswith(" "):
            words.append("")
            width = 0.0
        words[-1] += each
        width += _width(each)
    return words


def _width(character: str) -> float:
    """In lower-case letters of usual width."""
    if east_asian_width(character) in "WF":
        return 2.0
    return 1.4 if character.isupper() or character in _WIDE else 1.0


def _rank(ids: Iterable[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The column of each node: right of its dependencies, and as near to its dependents as can be.

    A circle is opened at the node that comes first.
    """
    waits = Counter(target for _, target in edges)
    after = _group(edges)
    rank = dict.fromkeys(ids, 0)
    ready = [each for each in rank if not waits[each]]
    left = dict.fromkeys(each for each in rank if waits[each])
    while ready or left:
        if not ready:
            ready = [next(iter(left))]
            del left[ready[0]]
        each = ready.pop()
        for target in [it for it in after.get(each, ()) if it in left]:
            rank[target] = max(rank[target], rank[each] + 1)
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
                del left[target]
    sources = rank.keys() - {target for _, target in edges}
    for each in sources & after.keys():
        rank[each] = min(rank[target] for target in after[each]) - 1
    return rank


def _split(rank: Mapping[str, int]) -> list[list[str]]:
    """The nodes by column. A rank with very many nodes takes several columns."""
    ranks: dict[int, list[str]] = {}
    for each, at in rank.items():
        ranks.setdefault(at, []).append(each)
    tallest = max(_TALLEST, ceil(sqrt(len(rank)) * _HEIGHT_SHARE))
    columns = []
    for at in sorted(ranks):
        nodes = ranks[at]
        size = ceil(len(nodes) / ceil(len(nodes) / tallest))
        columns += [nodes[start : start + size] for start in range(0, len(nodes), size)]
    return columns


class Lane(NamedTuple):
    """The passage of one node's edges through a column; ``is_end``: of those that end there."""

    node: str
    is_end: bool
    column: int


def _route(edges: Sequence[Edge], at: Mapping[str, int]) -> tuple[dict[Wire, None], int]:
    """The edges in parts from column to column, and how many edges are left out."""
    out_count, in_count = Counter(a for a, _ in edges), Counter(b for _, b in edges)
    wires: dict[Wire, None] = {}
    lanes: set[Stop] = set()
    left_out = 0
    for a, b in sorted(edges, key=lambda edge: at[edge[1]] - at[edge[0]]):
        is_end = in_count[b] > out_count[a]
        passed = [Lane(b if is_end else a, is_end, it) for it in range(at[a] + 1, at[b])]
        if len(lanes) + len(passed) > MOST_LANES and not lanes.issuperset(passed):
            left_out += 1
            continue
        lanes.update(passed)
        wires.update(dict.fromkeys(pairwise([a, *passed, b])))
    return wires, left_out


def _lanes_by_column(wires: Iterable[Wire]) -> dict[int, list[Lane]]:
    found = dict.fromkeys(end for _, end in wires if isinstance(end, Lane))
    return _group((each.column, each) for each in found)


def _insert(column: Sequence[str], lanes: Sequence[Lane]) -> list[Stop]:
    """Lanes begin in the middle of their column: from the edge they would drag others away."""
    half = len(column) // 2
    return [*column[:half], *lanes, *column[half:]]


def _order(columns: list[list[Stop]], wires: Iterable[Wire]) -> list[list[Stop]]:
    """Sort each column by the mean row of its neighbours, in a few sweeps."""
    after, before = _group(wires), _group((b, a) for a, b in wires)
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        near = before if is_forward else after
        rows = {each: row for column in columns for row, each in enumerate(column)}
        for column in columns if is_forward else reversed(columns):
            wanted = {each: _mean(near.get(each, ()), rows, rows[each]) for each in column}
            column.sort(key=wanted.__getitem__)
            rows.update({each: row for row, each in enumerate(column)})
    return columns


def _settle(
    columns: Sequence[Sequence[Stop]], wires: Iterable[Wire], heights: Mapping[str, float]
) -> dict[Stop, float]:
    """The height of the middle of each stop: near its neighbours, and apart from others."""
    after, before = _group(wires), _group((b, a) for a, b in wires)
    middles: dict[Stop, float] = {}
    steps = [_steps(column, heights) for column in columns]
    half = max((sum(step) for step in steps), default=0.0) / 2
    for column, step in zip(columns, steps, strict=True):
        middles.update(zip(column, _spread([0.0] * len(column), step, half), strict=True))
    for sweep in range(_SWEEPS):
        is_forward = sweep % 2 == 0
        near = before if is_forward else after
        order = zip(columns, steps, strict=True)
        for column, step in order if is_forward else reversed(list(order)):
            wanted = [_mean(near.get(each, ()), middles, middles[each]) for each in column]
            middles.update(zip(column, _spread(wanted, step, half), strict=True))
    top = min((middles[each] - _height(each, heights) / 2 for each in middles), default=0.0)
    return {each: middle - top + _MARGIN for each, middle in middles.items()}


def _spread(wanted: Sequence[float], steps: Sequence[float], half: float) -> list[float]:
    """Positions as near as can be to those wanted, in order and at least ``steps`` apart.

    Each position that would be too near to the one before joins its group; a group moves as one.
    None is further than ``half`` from the axis, so no column drifts away from the others.
    """
    offsets = [0.0]
    for step in steps:
        offsets.append(offsets[-1] + step)
    groups: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=False):
        total, count = place - offset, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            last, last_count = groups.pop()
            total, count = total + last, count + last_count
        groups.append((total, count))
    highest = half - offsets[-1]
    starts = [
        min(max(total / count, -half), highest) for total, count in groups for _ in range(count)
    ]
    return [start + offset for start, offset in zip(starts, offsets, strict=False)]


def _steps(column: Sequence[Stop], heights: Mapping[str, float]) -> list[float]:
    """The least distance between the middles of neighbours in a column."""
    return [
        (_height(upper, heights) + _height(lower, heights)) / 2
        + (_BETWEEN_LANES if type(upper) is type(lower) is Lane else _BETWEEN_NODES)
        for upper, lower in pairwise(column)
    ]


def _height(stop: Stop, heights: Mapping[str, float]) -> float:
    return heights[stop] if isinstance(stop, str) else _LANE_HEIGHT


def _draw(
    columns: Sequence[Sequence[str]],
    wires: Iterable[Wire],
    middles: Mapping[Stop, float],
    lines: Mapping[str, tuple[str, ...]],
) -> Layout:
    lefts = [_MARGIN + at * (NODE_WIDTH + _BETWEEN_COLUMNS) for at in range(len(columns))]
    left_of: dict[Stop, float] = {
        each: left for left, column in zip(lefts, columns, strict=True) for each in column
    }
    lanes = [each for each in middles if isinstance(each, Lane)]
    left_of.update({each: lefts[each.column] for each in lanes})
    nodes = []
    for column in columns:
        for each in column:
            height = _NODE_BASE + LINE_HEIGHT * len(lines[each])
            top = middles[each] - height / 2
            nodes.append(Placed(each, left_of[each], round(top), height, lines[each]))
    bends = [
        Bend(left_of[a] + NODE_WIDTH, middles[a], left_of[b] - _gap_before(b), middles[b])
        for a, b in wires
    ]
    ends = dict.fromkeys(b for _, b in wires if isinstance(b, str))
    lowest = max((each.y + each.height for each in nodes), default=0.0)
    lowest = max([lowest, *(middles[each] for each in lanes)])
    return Layout(
        width=(lefts[-1] + NODE_WIDTH if lefts else 0.0) + _MARGIN,
        height=lowest + _MARGIN,
        nodes=tuple(nodes),
        bends=tuple(bends),
        lanes=tuple(
            Bend(left_of[each], middles[each], left_of[each] + NODE_WIDTH, middles[each])
            for each in lanes
        ),
        tips=tuple((left_of[each], middles[each]) for each in ends),
    )


def _gap_before(stop: Stop) -> float:
    """Room for the tip of an arrow before a node."""
    return _TIP - 1 if isinstance(stop, str) else 0.0


def _group(pairs: Iterable[tuple[First, Second]]) -> dict[First, list[Second]]:
    grouped: dict[First, list[Second]] = {}
    for first, second in pairs:
        grouped.setdefault(first, []).append(second)
    return grouped


def _mean(near: Sequence[Stop], places: Mapping[Stop, float], default: float) -> float:
    return sum(places[each] for each in near) / len(near) if near else default
