"""A line of text with carets under the part that is wrong."""

from rich.cells import cell_len
from rich.text import Text

from rota.escape import escape

LONGEST_SHOWN = 100
"""How much of a line is shown around the bad part; the rest is an ellipsis."""


def underline(text: str, position: tuple[int, int], indent: str = "  ") -> Text:
    """Two lines: ``text``, and carets under the half-open span ``position``, at least one.

    What the terminal would not show as it is, is written out, and the carets make up for that. Of
    a text too long to read, the part around the span is shown.
    """
    start, end = position
    window_start = max(0, min(start, len(text)) - LONGEST_SHOWN // 2)
    window_end = min(len(text), window_start + LONGEST_SHOWN)
    before = ("…" if window_start else "") + escape(text[window_start:start])
    bad = escape(text[start : min(end, window_end)])
    after = escape(text[min(end, window_end) : window_end]) + (
        "…" if window_end < len(text) else ""
    )
    carets = "^" * max(1, cell_len(bad))
    return Text.assemble(
        f"{indent}{before}",
        (bad, "bold"),
        f"{after}\n{indent}{' ' * cell_len(before)}",
        (carets, "bold red"),
    )
