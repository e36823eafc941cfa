"""Tables that read well at 80 columns and in a pipe."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rota.cli.rendering.terminal import print_verbatim

UNLIMITED_WIDTH = 10_000
NARROWEST = 18
GUTTER = 2
INDENT = 4

Row = tuple[Sequence[str], str]
"""The cells of a row, and the style of all of them."""


def print_table(console: Console, header: Sequence[str], rows: Iterable[Row]) -> None:
    """Print rows, each with its style, under a header; all cells must be safe to show.

    On a terminal the last column is wrapped to fit, if it can be read so, and no other is ever
    cut. Where there is no room for that, the last columns stand below the others, indented.
    Elsewhere a row is a line, however long. No line ends in spaces.
    """
    shown = list(rows)
    if not console.is_terminal:
        _print_lines(console, header, shown, UNLIMITED_WIDTH)
        return
    widths = _measure(header, shown)
    count = _count_beside(widths, console.width)
    if count == len(widths):
        _print_lines(console, header, shown, max(console.width, sum(widths[:-1]) + NARROWEST))
        return
    for cells, style in ((header, "bold"), *shown):
        print_verbatim(console, Text(_pad(cells[:count], widths), style))
        _print_below(console, _pad(cells[count:], widths[count:]), style)


def _print_lines(console: Console, header: Sequence[str], rows: Iterable[Row], width: int) -> None:
    table = Table(box=None, padding=(0, GUTTER, 0, 0), header_style="bold", pad_edge=False)
    for name in header[:-1]:
        table.add_column(name, no_wrap=True, overflow="ignore")
    table.add_column(header[-1], overflow="fold")
    for cells, style in rows:
        table.add_row(*(Text(cell) for cell in cells), style=style)
    options = console.options.update_width(width)
    for line in console.render_lines(table, options, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line))
        text.rstrip()
        print_verbatim(console, text)


def _measure(header: Sequence[str], rows: Sequence[Row]) -> list[int]:
    columns = zip(*(header, *(cells for cells, _ in rows)), strict=True)
    return [max(map(cell_len, column)) + GUTTER for column in columns]


def _count_beside(widths: Sequence[int], width: int) -> int:
    """How many columns stand beside each other: all, or as many as there is room for.

    The last one needs no more than a width that can be read. Of a table that would not fit even
    if it were broken, nothing is: the terminal wraps it by itself.
    """
    every, readable = len(widths), min(widths[-1], NARROWEST) - GUTTER
    if sum(widths[:-1]) + readable <= width:
        return every
    fitting = [count for count in range(1, every) if sum(widths[:count]) - GUTTER <= width]
    count = max(fitting, default=every)
    return count if INDENT + sum(widths[count:-1]) + readable <= width else every


def _print_below(console: Console, text: str, style: str) -> None:
    for line in Text(text).wrap(console, console.width - INDENT) if text else ():
        line.rstrip()
        print_verbatim(console, Text(f"{' ' * INDENT}{line.plain}", style))


def _pad(cells: Sequence[str], widths: Sequence[int]) -> str:
    columns = zip(cells, widths, strict=False)
    return "".join(cell + " " * (width - cell_len(cell)) for cell, width in columns).rstrip()
