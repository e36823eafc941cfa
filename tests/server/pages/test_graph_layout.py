"""The drawing of a graph: no clipping, no edge through a node, every name in full."""

from itertools import combinations, pairwise
from random import Random

import pytest

from rota.server.pages import graph_layout
from rota.server.pages.graph_layout import NODE_WIDTH, Layout, lay_out, wrap

Edges = list[tuple[str, str]]


def draw(edges: Edges) -> Layout:
    ids = dict.fromkeys(each for edge in edges for each in edge)
    return lay_out({each: f"Job {each}" for each in ids}, edges)


def check(layout: Layout, edges: Edges) -> None:
    """Nothing overlaps, nothing is outside, and no edge touches a node but at its ends."""
    for node in layout.nodes:
        assert 0 <= node.x <= layout.width - NODE_WIDTH
        assert 0 <= node.y <= layout.height - node.height
    columns: dict[float, list[tuple[float, float]]] = {}
    for node in layout.nodes:
        columns.setdefault(node.x, []).append((node.y, node.y + node.height))
    for spans in columns.values():
        assert all(upper[1] < lower[0] for upper, lower in pairwise(sorted(spans)))
    for lane in layout.lanes:
        assert 0 <= lane.y1 == lane.y2 <= layout.height
        assert not any(top < lane.y1 < bottom for top, bottom in columns.get(lane.x1, ()))
    lefts = sorted({each.x for each in layout.nodes})
    for bend in layout.bends:
        assert any(
            left + NODE_WIDTH <= bend.x1 <= bend.x2 <= after for left, after in pairwise(lefts)
        )
    places = {node.id: node for node in layout.nodes}
    assert all(places[first].x < places[second].x for first, second in edges)


def ladder(count: int) -> Edges:
    """Two long branches with rungs, and edges that pass many columns."""
    edges = [(f"{side}{at}", f"{side}{at + 1}") for side in "ab" for at in range(count)]
    edges += [(f"a{at}", f"b{at + 1}") for at in range(0, count, 3)]
    return [*edges, ("a0", f"a{count}"), ("a0", f"b{count}"), ("b1", f"b{count}")]


def chance(count: int) -> Edges:
    draw_number = Random(17)
    return [
        (f"n{draw_number.randrange(max(0, at - 60), at)}", f"n{at}")
        for at in range(1, count)
        for _ in range(draw_number.choice((1, 1, 2, 3)))
    ]


FAN_OUT_AND_IN: Edges = [
    edge for at in range(998) for edge in (("start", f"n{at}"), (f"n{at}", "end"))
]


@pytest.mark.parametrize(
    "edges",
    [
        [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d"), ("d", "e")],
        [("a", "b"), ("b", "c"), ("c", "d"), ("x", "d")],
        ladder(12),
        ladder(499),
        chance(1_000),
        FAN_OUT_AND_IN,
    ],
    ids=["diamond", "late source", "ladder", "long ladder", "chance", "fan"],
)
def test_no_edge_crosses_a_node_and_nothing_is_clipped(edges: Edges) -> None:
    layout = draw(edges)
    check(layout, edges)
    assert (layout.left_out, len(layout.nodes)) == (0, len({it for edge in edges for it in edge}))


def test_every_edge_leads_from_its_dependency_to_its_dependent() -> None:
    edges = ladder(12)
    layout = draw(edges)
    places = {node.id: node for node in layout.nodes}
    ways: dict[tuple[float, float], set[tuple[float, float]]] = {}
    for bend in (*layout.bends, *layout.lanes):
        ways.setdefault((bend.x1, bend.y1), set()).add((bend.x2, bend.y2))
    for first, second in edges:
        source, target = places[first], places[second]
        middle = source.y + source.height / 2
        starts = [at for at in ways if at[0] == source.x + NODE_WIDTH]
        reached = [at for at in starts if abs(at[1] - middle) <= 1]
        seen = set(reached)
        while reached:
            for each in ways.get(reached.pop(), set()) - seen:
                seen.add(each)
                reached.append(each)
        ends = [at for at in seen if abs(at[1] - target.y - target.height / 2) <= 1]
        assert any(target.x - 6 <= x <= target.x for x, _ in ends), (first, second)


def test_a_rank_of_a_thousand_jobs_is_drawn_about_as_high_as_wide() -> None:
    layout = draw(FAN_OUT_AND_IN)
    assert layout.height < layout.width < 9_000


def test_lines_that_cross_are_untangled() -> None:
    layout = draw([("a", "y"), ("b", "x"), ("c", "z")])
    rows = {node.id: node.y for node in layout.nodes}
    pairs = {"a": "y", "b": "x", "c": "z"}
    for first, second in combinations("abc", 2):
        assert (rows[first] < rows[second]) == (rows[pairs[first]] < rows[pairs[second]])


def test_a_graph_with_a_circle_or_strange_edges_is_drawn_all_the_same() -> None:
    names = {"a": "A", "b": "B"}
    layout = lay_out(names, [("a", "b"), ("b", "a"), ("a", "a"), ("a", "unknown")])
    assert (len(layout.nodes), len(layout.bends)) == (2, 1)
    assert lay_out({}, []).nodes == ()


def test_edges_that_would_need_too_many_lanes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_layout, "MOST_LANES", 5)
    layout = draw([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), *ladder(12)])
    assert layout.left_out > 0
    assert layout.path.startswith("M")


@pytest.mark.parametrize(
    "name",
    ["Short", "Send the weekly report to every customer", "x" * 255, "日本語" * 20, "a\x1bb"],
)
def test_a_name_is_shown_in_full_in_lines_that_fit(name: str) -> None:
    lines = wrap(name)
    assert "".join(lines).replace(" ", "") == name.replace("\x1b", "\\x1b").replace(" ", "")
    assert all(sum(graph_layout._width(it) for it in line) <= 29 for line in lines)
