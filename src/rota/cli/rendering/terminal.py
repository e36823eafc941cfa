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
        """Print one line of a result as it is: nothing in it is markup, and it is not wrapped.

        Text from outside must have gone through ``rota.escaping.escape``.
        """
        self.out.print(Text(text, style) if isinstance(text, str) else text, soft_wrap=True)

    def print_remark(self, text: str) -> None:
        """Print one line that is not part of the result."""
        self.err.print(Text(text, "dim"), soft_wrap=True)

    def print_document(self, document: Mapping[str, Any]) -> None:
        """Print a result for programs: one JSON document, in ASCII."""
        print_json(self.out, document)


def print_json(console: Console, document: Mapping[str, Any]) -> None:
    """Print a JSON document that any terminal can show: every control character is escaped."""
    text = json.dumps(document, indent=2).replace("\x7f", "\\u007f")
    console.print(Text(text), soft_wrap=True)
