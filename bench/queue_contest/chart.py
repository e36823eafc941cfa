"""Bar charts as SVG, drawn by hand: no library, no script, readable in light and dark pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL_END, BAR_START, BAR_END = 760, 190, 200, 620
ROW, TITLE_HEIGHT, MARGIN = 24, 38, 16
OURS, THEIRS, INK, FAINT = "#00796b", "#b0bec5", "#212121", "#607d8b"


@dataclass(frozen=True)
class Bar:
    """A value, and between which values it lies."""

    name: str
    value: float
    low: float
    high: float
    is_ours: bool


@dataclass(frozen=True)
class Panel:
    """Bars of one measure; ``form`` shows a value."""

    title: str
    form: str
    bars: Sequence[Bar]


def draw_chart(title: str, panels: Sequence[Panel]) -> str:
    """The text of an SVG file, one panel below the other."""
    lines: list[str] = []
    top = MARGIN
    for panel in panels:
        lines += _draw_panel(panel, top)
        top += TITLE_HEIGHT + ROW * len(panel.bars) + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" '
        f'font-family="sans-serif" font-size="13">'
    )
    ground = f'<rect width="{WIDTH}" height="{top}" rx="8" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *lines, "</svg>", ""])


def _draw_panel(panel: Panel, top: int) -> list[str]:
    most = max((bar.high for bar in panel.bars), default=0.0) or 1.0
    title = f'<text x="{MARGIN}" y="{top + 16}" font-weight="bold" fill="{INK}">'
    lines = [f"{title}{escape(panel.title)}</text>"]
    for number, bar in enumerate(panel.bars):
        lines += _draw_bar(bar, panel.form, top + TITLE_HEIGHT + ROW * number, most)
    return lines


def _draw_bar(bar: Bar, form: str, top: int, most: float) -> list[str]:
    def across(value: float) -> float:
        return round(BAR_START + (BAR_END - BAR_START) * value / most, 1)

    middle, end = top + 8, across(bar.value)
    color = OURS if bar.is_ours else THEIRS
    weight = ' font-weight="bold"' if bar.is_ours else ""
    low, high = across(bar.low), across(bar.high)
    ink = f'fill="{INK}"{weight}'
    name = f'<text x="{LABEL_END}" y="{middle + 4}" text-anchor="end" {ink}>'
    box = f'x="{BAR_START}" y="{top}" width="{round(end - BAR_START, 1)}" height="16"'
    whisker = f"M{low} {middle}H{high}M{low} {middle - 4}v8M{high} {middle - 4}v8"
    value = f'<text x="{round(max(end, high) + 8, 1)}" y="{middle + 4}" {ink}>'
    return [
        f"{name}{escape(bar.name)}</text>",
        f'<rect {box} fill="{color}"/>',
        f'<path d="{whisker}" stroke="{FAINT}" fill="none"/>',
        f"{value}{bar.value:{form}}</text>",
    ]
