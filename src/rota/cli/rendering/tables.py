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

Row = tuple[Sequence[str], str]
"""The cells of a row, and the style of all of them."""


def print_table(console: Console, header: Sequence[str], rows: Iterable[Row]) -> None:
    """Print rows, each with its style, under a header; all cells must be safe to show.

    On a terminal the last column is wrapped to fit, if it can be read so, and no other is ever
    cut. Elsewhere a row is a line, however long. No line ends in spaces.
    """
    table = Table(box=None, padding=(0, GUTTER, 0, 0), header_style="bold", pad_edge=False)
    for name in header[:-1]:
        table.add_column(name, no_wrap=True, overflow="ignore")
    table.add_column(header[-1], overflow="fold")
    shown = list(rows)
    for cells, style in shown:
        table.add_row(*(Text(cell) for cell in cells), style=style)
    options = console.options.update_width(_width(console, header, shown))
    for line in console.render_lines(table, options, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line))
        text.rstrip()
        print_verbatim(console, text)


def _width(console: Console, header: Sequence[str], rows: Sequence[Row]) -> int:
    """As wide as the terminal, but never so narrow that the last column is a ladder of letters."""
    if not console.is_terminal:
        return UNLIMITED_WIDTH
    columns = zip(*(header, *(cells for cells, _ in rows)), strict=True)
    widths = [max(map(cell_len, column)) + GUTTER for column in columns]
    return max(console.width, sum(widths[:-1]) + NARROWEST)
