"""What commands print of the service's answers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rota.cli.rendering.tables import Row, print_table
from rota.cli.rendering.terminal import Terminal
from rota.client.client import Listed
from rota.escape import escape


def done(terminal: Terminal, document: Mapping[str, Any], *lines: str, as_json: bool) -> None:
    """Print what was done: the whole answer for programs, a sentence or a few for people."""
    if as_json:
        terminal.print_document(document)
        return
    for line in lines:
        terminal.print_text(escape(line))


def print_items(
    terminal: Terminal,
    listed: Listed,
    header: Sequence[str],
    make_row: Callable[[Any], Row],
    *,
    as_json: bool,
    noun: str = "job",
) -> None:
    """Print a list, and whether there is more of it."""
    if as_json:
        more = listed.next_cursor is not None
        terminal.print_document(
            {"items": listed.items, "next_cursor": listed.next_cursor, "has_more": more}
        )
        return
    if listed.items:
        print_table(terminal.out, header, [make_row(item) for item in listed.items])
    count = len(listed.items)
    ending = "; there are more, see --limit" if listed.next_cursor is not None else ""
    word = noun if count == 1 or noun.endswith("s") else f"{noun}s"
    terminal.print_text(f"{count} {word}{ending}", "bold")


def tell_replacements(answer: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about each job that was to be retried: by which other one it is, or was."""
    for old, new in answer["replacements"].items():
        if old in answer["earlier_ids"]:
            yield f"{old} had been retried already, by {new}"
        else:
            yield f"{old} is tried again by {new}"
