"""Where a command prints and what time it is there; everything else it gets as arguments."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from rota.clock.protocol import Clock


class PipeConsole(Console):
    """A console that leaves it to its caller what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Let the BrokenPipeError that is being handled go on."""
        raise  # noqa: PLE0704 - rich calls this inside its handler, to be told what to do


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a command is given to work with: results go to ``out``, all else to ``err``."""

    clock: Clock
    out: Console
    err: Console

    def print_text(self, text: Text | str = "", style: str = "") -> None:
        """Print a piece of the result; nothing in it is markup.

        Text from outside must have gone through ``rota.escape.escape``.
        """
        print_prose(self.out, Text(text, style) if isinstance(text, str) else text)

    def print_item(self, text: str) -> None:
        """Print one item of a list; on a terminal it is wrapped beside its dash."""
        if not self.out.is_terminal:
            print_verbatim(self.out, Text(f"- {text}"))
            return
        for number, line in enumerate(Text(text).wrap(self.out, self.out.width - 2)):
            line.rstrip()
            print_verbatim(self.out, Text("  " if number else "- ") + line)

    def print_remark(self, text: str) -> None:
        """Print one line that is not part of the result."""
        print_prose(self.err, Text(text, "dim"))

    def print_document(self, document: Mapping[str, Any]) -> None:
        """Print a result for programs: one JSON document, in ASCII."""
        print_json(self.out, document)


def print_prose(console: Console, text: Text) -> None:
    """Print words: on a terminal they are wrapped between words, elsewhere a line stays a line."""
    console.print(text, soft_wrap=not console.is_terminal)


def print_verbatim(console: Console, text: Text) -> None:
    """Print lines that lose their meaning when they are wrapped."""
    console.print(text, soft_wrap=True)


def print_json(console: Console, document: Mapping[str, Any]) -> None:
    """Print a JSON document that any terminal can show: every control character is escaped."""
    text = json.dumps(document, indent=2).replace("\x7f", "\\u007f")
    print_verbatim(console, Text(text))
