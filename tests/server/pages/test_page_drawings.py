"""Charts: where everything goes."""

from itertools import pairwise

import pytest

from rota.server.pages.charts import (
    HEIGHT,
    WIDTH,
    Bar,
    Frame,
    Series,
    choose_ticks,
    draw_lines,
    format_number,
    lay_bars,
    stack_bars,
    thin,
)

LABELS = [f"10:{minute:02}" for minute in range(60)]


@pytest.mark.parametrize("highest", [0, 0.3, 1, 3, 7, 10, 99, 100, 101, 12_345])
@pytest.mark.parametrize("whole", [True, False])
def test_an_axis_reaches_what_it_measures_in_a_few_even_steps(highest: float, whole: bool) -> None:
    ticks = choose_ticks(highest, whole=whole)
    assert ticks[0] == 0
    assert ticks[-1] >= highest
    assert 2 <= len(ticks) <= 6
    steps = {round(after - before, 9) for before, after in pairwise(ticks)}
    assert len(steps) == 1
    assert not whole or steps.pop() >= 1


def test_numbers_on_an_axis_are_short() -> None:
    assert [format_number(it) for it in (0, 0.25, 950, 1_200, 3_000_000)] == [
        "0",
        "0.25",
        "950",
        "1.2k",
        "3M",
    ]


def test_labels_are_thinned_out_and_the_first_and_the_last_stay() -> None:
    assert thin(LABELS, 5) == ("10:00", "10:15", "10:30", "10:44", "10:59")
    assert thin(LABELS[:3], 5) == ("10:00", "10:01", "10:02")


def test_bars_stand_one_upon_the_other_inside_the_chart() -> None:
    series = [Series("good", "good", [10] * 60), Series("bad", "bad", [0] * 59 + [5])]
    chart = stack_bars(Frame("x", "X", "words", LABELS, zone="BST"), series)
    assert chart.columns[0] == "BST"
    assert (chart.x_labels[0], chart.x_labels[-1]) == ("10:00", "10:59")
    assert len(chart.boxes) == 61
    for box in chart.boxes:
        assert 0 <= box.x <= box.x + box.width <= WIDTH
        assert 0 <= box.y <= box.y + box.height <= HEIGHT
    good, bad = chart.boxes[-2:]
    assert bad.y + bad.height == pytest.approx(good.y, abs=0.11)
    assert (chart.rows[-1], bad.title) == (("10:59", "10", "5"), "10:59: 5 bad")


def test_a_line_is_interrupted_where_nothing_is_known() -> None:
    values = [1.0, 2.0, None, 3.0, None, 4.0, 5.0]
    chart = draw_lines(Frame("x", "X", "", LABELS[:7]), [Series("a", "line-1", values)])
    (line,) = chart.lines
    assert [len(part.split()) for part in line.parts] == [2, 2]
    assert len(line.dots) == 1


def test_a_chart_of_nothing_is_drawn_too() -> None:
    nothing = Series("a", "line-1", [None] * 60)
    assert draw_lines(Frame("x", "X", "", LABELS), [nothing]).rows == []
    assert stack_bars(Frame("x", "X", "", LABELS), [nothing]).boxes == []
    assert lay_bars(Frame("x", "X", "", ()), [], [("good", "due")]).rows == []


def test_the_longest_row_takes_the_whole_width() -> None:
    shelves = [Bar("a", (3, 1)), Bar("b", (0, 2))]
    chart = lay_bars(Frame("x", "X", "", ()), shelves, [("good", "due"), ("bad", "dead")])
    widths = [[box.width for box in bar.boxes] for bar in chart.bars]
    assert widths == [[WIDTH * 3 / 4, WIDTH / 4], [WIDTH / 2]]
    assert [bar.total for bar in chart.bars] == ["4", "2"]
