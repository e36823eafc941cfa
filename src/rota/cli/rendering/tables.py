"""Tables that read well at 80 columns and in a pipe."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNLIMITED_WIDTH = 10_000


def print_table(
    console: Console, header: Sequence[str], rows: Iterable[tuple[Sequence[str], str]]
) -> None:
    """Print rows, each with its style, under a header; all cells must be safe to show.

    On a terminal the last column is wrapped to fit and no other is ever cut. Elsewhere a row is a
    line, however long. No line ends in spaces.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for name in header[:-1]:
        table.add_column(name, no_wrap=True, overflow="ignore")
    table.add_column(header[-1], overflow="fold")
    for cells, style in rows:
        table.add_row(*(Text(cell) for cell in cells), style=style)
    width = console.width if console.is_terminal else UNLIMITED_WIDTH
    options = console.options.update_width(width)
    for line in console.render_lines(table, options, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
