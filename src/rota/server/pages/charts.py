"""Charts as numbers; the templates turn them into SVG that is stretched to fill its card.

Labels are text outside the drawing, evenly spaced, so that they are not stretched with it. Each
chart has a ``summary`` in words and its numbers as rows, so that people who cannot see it can
read it.
"""

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import NamedTuple

_STEPS = (1, 2, 5, 10)
_TICKS = 4

WIDTH = 600.0
HEIGHT = 160.0

_X_LABELS = 5
_GAP = 1.0


def choose_ticks(highest: float, *, whole: bool = True) -> list[float]:
    """Axis ticks from zero to at least ``highest``, in about four round steps."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / _TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in _STEPS if power * each >= rough * (1 - 1e-9))
    if whole:
        step = max(step, 1.0)
    count = -int(-(highest / step - 1e-9) // 1)
    return [step * index for index in range(max(count, 1) + 1)]


def format_number(number: float) -> str:
    """A short number for an axis: 950, 1.2k, 3M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            return f"{number / size:.1f}".removesuffix(".0") + letter
    return f"{number:.2f}".rstrip("0").rstrip(".")


def thin(labels: Sequence[str], most: int) -> tuple[str, ...]:
    """At most ``most`` evenly spaced labels, including the first and the last."""
    if len(labels) <= most:
        return tuple(labels)
    return tuple(labels[round(index * (len(labels) - 1) / (most - 1))] for index in range(most))


class Tick(NamedTuple):
    """A position on an axis and its label."""

    at: float
    label: str


class Box(NamedTuple):
    """A rectangle. ``look`` names its colour, ``title`` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    look: str
    title: str


class Line(NamedTuple):
    """A line with gaps between its ``parts``; ``dots`` are points without neighbours."""

    look: str
    parts: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]


class Series(NamedTuple):
    """The numbers of one colour; None where there is no value."""

    name: str
    look: str
    values: Sequence[float | None]


class Frame(NamedTuple):
    """The texts of a chart. ``zone`` is the name of the zone of its labels."""

    name: str
    title: str
    summary: str
    labels: Sequence[str] = ()
    format: Callable[[float], str] = format_number
    is_whole: bool = True
    zone: str = ""


Looks = Sequence[tuple[str, str]]
"""The colour and name of each series, or of each part of a bar."""

Row = tuple[str, ...]


class Chart(NamedTuple):
    """A chart over time, or of horizontal ``bars``; ``rows`` are its numbers below ``columns``."""

    frame: Frame
    legend: Looks
    columns: Row
    rows: Sequence[Row]
    y_ticks: Sequence[Tick] = ()
    x_labels: Sequence[str] = ()
    boxes: Sequence[Box] = ()
    lines: Sequence[Line] = ()
    bars: "Sequence[DrawnBar]" = ()


def stack_bars(frame: Frame, series: Sequence[Series]) -> Chart:
    """One bar per label, with the series stacked."""
    sums = [sum(each.values[at] or 0 for each in series) for at in range(len(frame.labels))]
    ticks = choose_ticks(max(sums, default=0), whole=frame.is_whole)
    boxes: list[Box] = []
    for at, label in enumerate(frame.labels):
        start = 0.0
        for each in series:
            value = each.values[at] or 0
            if value > 0:
                said = f"{label}: {frame.format(value)} {each.name}"
                span = _y(start, ticks[-1]), _y(start + value, ticks[-1])
                boxes.append(_bar(at, len(frame.labels), span, each.look, said))
            start += value
    return _complete(frame, series, ticks)._replace(boxes=boxes)


def draw_lines(frame: Frame, series: Sequence[Series]) -> Chart:
    """One line per series, with gaps where there is no value."""
    known = [value for each in series for value in each.values if value is not None]
    ticks = choose_ticks(max(known, default=0), whole=frame.is_whole)
    lines = [_line(each, len(frame.labels), ticks[-1]) for each in series]
    return _complete(frame, series, ticks)._replace(lines=lines)


def _complete(frame: Frame, series: Sequence[Series], ticks: Sequence[float]) -> Chart:
    return Chart(
        frame,
        legend=[(each.look, each.name) for each in series],
        columns=(frame.zone, *(each.name for each in series)),
        rows=_rows(frame, series),
        y_ticks=[Tick(_y(each, ticks[-1]), frame.format(each)) for each in ticks],
        x_labels=thin(frame.labels, _X_LABELS),
    )


def _rows(frame: Frame, series: Sequence[Series]) -> list[Row]:
    """A row for each label that has a value."""
    rows = []
    for at, label in enumerate(frame.labels):
        values = [each.values[at] for each in series]
        if any(values):
            rows.append((label, *("" if it is None else frame.format(it) for it in values)))
    return rows


def _bar(at: int, count: int, span: tuple[float, float], look: str, said: str) -> Box:
    bottom, top = span
    room = WIDTH / count
    x = round(at * room + _GAP / 2, 1)
    return Box(x, round(top, 1), round(room - _GAP, 1), round(bottom - top, 1), look, said)


def _line(series: Series, count: int, highest: float) -> Line:
    parts: list[list[tuple[float, float]]] = [[]]
    for at, value in enumerate(series.values):
        if value is None:
            parts.append([])
        else:
            parts[-1].append((round((at + 0.5) * WIDTH / count, 1), round(_y(value, highest), 1)))
    drawn = tuple(" ".join(f"{x},{y}" for x, y in part) for part in parts if len(part) > 1)
    alone = tuple(part[0] for part in parts if len(part) == 1)
    return Line(series.look, drawn, alone)


def draw_spark(values: Sequence[float]) -> str:
    """A line for a table's cell, as the points of a drawing of 60 by 16; nothing without values."""
    highest, room = max(values, default=0) or 1, 60 / max(len(values), 1)
    return " ".join(
        f"{(at + 0.5) * room:.1f},{15 - 14 * value / highest:.1f}"
        for at, value in enumerate(values)
    )


def _y(value: float, highest: float) -> float:
    return HEIGHT - HEIGHT * value / highest


class Bar(NamedTuple):
    """One horizontal bar: its name, the values of its parts, and where its name leads."""

    name: str
    values: tuple[float, ...]
    link: str = ""


class DrawnBar(NamedTuple):
    """A bar with its total and its boxes."""

    name: str
    link: str
    total: str
    boxes: tuple[Box, ...]


def lay_bars(frame: Frame, bars: Sequence[Bar], looks: Looks, heading: str = "Queue") -> Chart:
    """One row per bar; the longest takes the whole width."""
    highest = max((sum(each.values) for each in bars), default=0) or 1
    return Chart(
        frame,
        legend=looks,
        columns=(heading, *(name for _, name in looks)),
        rows=[(each.name, *(frame.format(it) for it in each.values)) for each in bars],
        bars=[_lay(frame, each, looks, highest) for each in bars],
    )


def _lay(frame: Frame, bar: Bar, looks: Looks, highest: float) -> DrawnBar:
    boxes: list[Box] = []
    x = 0.0
    for (look, name), value in zip(looks, bar.values, strict=True):
        width = WIDTH * value / highest
        if value:
            said = f"{bar.name}: {frame.format(value)} {name}"
            boxes.append(Box(round(x, 1), 0.0, round(max(width, 1.5), 1), 10.0, look, said))
        x += width
    return DrawnBar(bar.name, bar.link, frame.format(sum(bar.values)), tuple(boxes))
