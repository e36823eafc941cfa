"""What a command prints: text, tables, JSON documents, errors, instants and durations."""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self
from zoneinfo import ZoneInfo

from cyclopts import Parameter
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import (
    InvalidCronExpressionError,
    InvalidRecurrenceRuleError,
    InvalidTriggerError,
    RotaError,
)
from rota.escape import escape


class PipeConsole(Console):
    """A console that raises BrokenPipeError when its pipe is closed."""

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError that rich is handling."""
        raise  # noqa: PLE0704 - rich calls this inside its handler


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

    def print_lines(self, text: str) -> None:
        """Print a text from outside with its line breaks; none is added."""
        for line in text.splitlines():
            print_verbatim(self.out, Text(escape(line)))

    def print_remark(self, text: str) -> None:
        """Print one line that is not part of the result."""
        print_prose(self.err, Text(text, "dim"))


def make_terminal(
    clock: Clock | None = None, out: Console | None = None, err: Console | None = None
) -> Terminal:
    """The terminal of this process, or one with another clock or other consoles.

    Characters that the encoding of standard output lacks are escaped, as on standard error.
    """
    if out is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Terminal(
        clock or SystemClock(),
        out or PipeConsole(highlight=False, markup=False, emoji=False),
        err or PipeConsole(highlight=False, markup=False, emoji=False, stderr=True),
    )


GivenTerminal = Annotated[Terminal, Parameter(parse=False)]
JsonOption = Annotated[
    bool,
    Parameter(
        name="--json",
        group="Parameters",
        negative="",
        show_default=False,
        help="Print one JSON document for programs, errors too.",
    ),
]


def print_prose(console: Console, text: Text) -> None:
    """Print words: on a terminal they are wrapped between words, elsewhere a line stays a line."""
    console.print(text, soft_wrap=not console.is_terminal)


def print_verbatim(console: Console, text: Text) -> None:
    """Print lines that lose their meaning when they are wrapped."""
    console.print(text, soft_wrap=True)


def print_json(console: Console, document: Mapping[str, Any]) -> None:
    """Print a JSON document, in ASCII, with every control character escaped."""
    import json  # noqa: PLC0415 - people do not read it

    text = json.dumps(document, indent=2).replace("\x7f", "\\u007f")
    print_verbatim(console, Text(text))


UNLIMITED_WIDTH = 10_000
NARROWEST = 18
GUTTER = 2
INDENT = 4

Row = tuple[Mapping[str, str], str]
"""The cells of a row under their headings, and the style of all of them."""
Line = tuple[Sequence[str], str]


def print_table(console: Console, rows: Iterable[Row]) -> None:
    """Print rows, each with its style, under their headings; all cells must be safe to show.

    On a terminal the last column is wrapped to fit, if it can be read so, and no other is ever
    cut. When that does not fit, the last columns stand below the others, indented.
    Elsewhere a row is a line, however long. No line ends in spaces. Without rows, nothing is
    printed.
    """
    given = list(rows)
    if not given:
        return
    header, shown = list(given[0][0]), [(list(cells.values()), style) for cells, style in given]
    if not console.is_terminal:
        _print_lines(console, header, shown, UNLIMITED_WIDTH)
        return
    widths = _measure_columns(header, shown)
    count = _count_beside(widths, console.width)
    if count == len(widths):
        _print_lines(console, header, shown, max(console.width, sum(widths[:-1]) + NARROWEST))
        return
    for cells, style in ((header, "bold"), *shown):
        print_verbatim(console, Text(_pad(cells[:count], widths), style))
        _print_below(console, _pad(cells[count:], widths[count:]), style)


def print_facts(console: Console, title: tuple[str, str], facts: Iterable[tuple[str, str]]) -> None:
    """Print what is known of one thing, a row for each fact that has a value."""
    shown = (fact for fact in facts if fact[1] != NOTHING)
    print_table(console, [(dict(zip(title, fact, strict=True)), "") for fact in shown])


def _print_lines(console: Console, header: Sequence[str], rows: Iterable[Line], width: int) -> None:
    from rich.table import Table  # noqa: PLC0415 - not every command prints a table

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


def _measure_columns(header: Sequence[str], rows: Sequence[Line]) -> list[int]:
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


LONGEST_LINE = 100
"""How much of a line is shown around the bad part; the rest is an ellipsis."""


def underline(text: str, position: tuple[int, int], indent: str = "  ") -> Text:
    """Two lines: ``text``, and carets under the half-open span ``position``, at least one.

    Control characters are escaped, and the carets follow them. Of a long text, only the part around
    the span is shown.
    """
    start, end = position
    window_start = max(0, min(start, len(text)) - LONGEST_LINE // 2)
    window_end = min(len(text), window_start + LONGEST_LINE)
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


def print_failure(console: Console, error: RotaError, message: str, *, as_json: bool) -> None:
    """Print what is wrong: ``message`` to people, and carets under the bad part of a trigger."""
    if as_json:
        print_json(console, {"error": _error_document(error)})
        return
    print_message(console, message)
    if isinstance(error, InvalidTriggerError):
        print_verbatim(console, underline(error.text, error.position))
    for remark in getattr(error, "__notes__", ()):
        print_prose(console, Text(escape(remark)))


def summarise(error: RotaError) -> str:
    """The message; that of a bad trigger without its text, which is shown below it."""
    match error:
        case InvalidCronExpressionError():
            return f"invalid cron expression: {reason_of(error)}"
        case InvalidRecurrenceRuleError():
            return f"invalid recurrence rule: {error.part} {error.reason}"
    return error.message


def reason_of(error: InvalidCronExpressionError) -> str:
    """Why an expression was refused, and because of which field, if it is one alone."""
    return error.reason if error.field == "expression" else f"{error.field} field {error.reason}"


def print_usage_failure(console: Console, message: str, *, as_json: bool) -> None:
    """Print what is wrong with the command line itself."""
    if as_json:
        document = {"type": "UsageError", "group": "usage", "message": message, "details": {}}
        print_json(console, {"error": document})
        return
    print_message(console, message)
    print_prose(console, Text("See --help.", "dim"))


def print_message(console: Console, message: str) -> None:
    print_prose(console, Text.assemble(("error: ", "bold red"), escape(message)))


def _error_document(error: RotaError) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": type(error).__name__,
        "group": error.group,
        "message": error.message,
        "details": {name: _plain(value) for name, value in error.details.items()},
    }
    if isinstance(error, InvalidTriggerError):
        document["position"] = list(error.position)
    return document


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def format_duration(duration: timedelta) -> str:
    """The two largest units that matter, cut and never rounded up: "3h 20m", "5d 2h", "133d"."""
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds}s"
    minutes, second = divmod(seconds, 60)
    if minutes < 60:
        return _pair(minutes, "m", second, "s")
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return _pair(hours, "h", minute, "m")
    days, hour = divmod(hours, 24)
    return _pair(days, "d", hour, "h") if days < 10 else f"{days}d"


def format_milliseconds(milliseconds: float) -> str:
    """A duration as handlers take: "0.4ms", "38ms", "1.2s", and longer ones as above."""
    if milliseconds < 1:
        return f"{milliseconds:.1f}ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f}s"
    return format_duration(timedelta(milliseconds=milliseconds))


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit} {small}{small_unit}" if small else f"{large}{large_unit}"


NOTHING = "-"


class Viewer(NamedTuple):
    """Who looks: when, and with a clock in which zone."""

    now: datetime
    zone: ZoneInfo

    def show(self, instant: str | None) -> str:
        """The instant on the viewer's wall, and which that is: ``Fri 2027-03-26 12:00:30 GMT``."""
        if instant is None:
            return NOTHING
        at = read_utc(instant)
        if at.year >= 9999:
            return "paused"
        return f"{at.astimezone(self.zone):%a %Y-%m-%d %H:%M:%S %Z}"

    def relative(self, instant: str | None) -> str:
        """How far away it is: ``in 5m`` or ``2h ago``."""
        if instant is None:
            return NOTHING
        at = read_utc(instant)
        if at.year >= 9999:
            return "paused"
        if at > self.now:
            return f"in {format_duration(at - self.now)}"
        return f"{format_duration(self.now - at)} ago"


def read_utc(instant: str) -> datetime:
    return datetime.fromisoformat(instant).astimezone(UTC)


def format_seconds(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def count_of(count: int, noun: str) -> str:
    """A number of things: ``1 job``, ``3,000 jobs``, ``2 entries``, ``5 series``."""
    if count == 1 or noun.endswith("s"):
        return f"{count:,} {noun}"
    return f"{count:,} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def show_text(value: Any, longest: int = 200) -> str:
    """A text of a document, safe to show and cut if it is long."""
    if value is None:
        return NOTHING
    text = str(value)
    return escape(text if len(text) <= longest else f"{text[:longest]}…")


@Parameter(name="*")
@dataclass(kw_only=True)
class Output:
    """The option ``--json``, and what a command prints for people or for programs."""

    as_json: JsonOption = False

    @cached_property
    def terminal(self) -> Terminal:
        """By default that of the process."""
        return make_terminal()

    def on(self, terminal: Terminal) -> Self:
        """The same options on this terminal."""
        given = copy(self)
        given.terminal = terminal
        return given

    def is_done(self, document: Mapping[str, Any]) -> bool:
        """Print the document for programs, with ``--json``; False if people want to read it."""
        if self.as_json:
            print_json(self.terminal.out, document)
        return self.as_json

    def print_done(self, document: Mapping[str, Any], *lines: str) -> None:
        """Print what was done: the whole answer for programs, a sentence or a few for people."""
        if not self.is_done(document):
            for line in lines:
                self.terminal.print_text(escape(line))


PLAIN = Output()


def describe_replacements(answer: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about each job that was to be retried: by which other one it is, or was."""
    for old, new in answer["replacements"].items():
        if old in answer["earlier_ids"]:
            yield f"{old} had been retried already, by {new}"
        else:
            yield f"{old} is tried again by {new}"
