"""How a house is heard: lines for people on a terminal, or lines of JSON for programs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from rota.cli.rendering.live.events import describe_event
from rota.cli.rendering.terminal import Terminal, print_verbatim
from rota.escape import escape
from rota.events import INFO, WARNING, Event
from rota.runtime.startup import Voice
from rota.telemetry.logs import JsonFormatter

LOGGER = "rota"
_PLAIN = logging.Formatter()
TOLD_AS_EVENTS = ("rota.worker", "rota.scheduler")


@contextmanager
def speaking(terminal: Terminal, *, as_json: bool) -> Iterator[Voice]:
    """A voice for as long as the house stands; the program's logging is as before afterwards."""
    handler: logging.Handler = _JsonLines(terminal) if as_json else _Remarks(terminal)
    with _logging_to(handler):
        if as_json:
            log = logging.getLogger(f"{LOGGER}.house")
            yield Voice(lambda text: log.info("%s", text))
        else:
            yield make_plain_voice(terminal)


def make_plain_voice(terminal: Terminal) -> Voice:
    """One line for everything that happens, with the time in UTC."""

    def listen(event: Event) -> None:
        if event.level >= INFO:
            style = "yellow" if event.level >= WARNING else ""
            print_line(terminal, describe_event(event), style)

    return Voice(
        lambda text: print_line(terminal, escape(text)),
        listen,
        lambda token: show_token(terminal, token),
    )


def print_line(terminal: Terminal, text: str, style: str = "") -> None:
    """One line with the time; all of it must be safe to show."""
    now = terminal.clock.now()
    print_verbatim(terminal.out, Text.assemble((f"{now:%H:%M:%S}Z  ", "dim"), (text, style)))


def show_token(terminal: Terminal, token: str) -> None:
    """Print a token where people see it, and only there: it goes to no log."""
    print_verbatim(terminal.out, Text.assemble("First token: ", (token, "bold")))
    terminal.print_text("It is shown once and allows everything: keep it, it opens the pages.")


class _Remarks(logging.Handler):
    """What is logged and is no event: events are told in words of their own.

    Of an error nobody foresaw, where it came from stands below, as it would in any log.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in TOLD_AS_EVENTS and hasattr(record, "event"):
            return
        style = "yellow" if record.levelno >= WARNING else ""
        print_line(self._terminal, escape(record.getMessage()), style)
        if record.exc_info:
            for line in _PLAIN.formatException(record.exc_info).splitlines():
                print_verbatim(self._terminal.out, Text(f"           {escape(line)}"))


class _JsonLines(logging.Handler):
    """Everything that is logged, a line of JSON each."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self._terminal.out.file.write(f"{self.format(record)}\n")
        self._terminal.out.file.flush()


@contextmanager
def _logging_to(handler: logging.Handler) -> Iterator[None]:
    """Hand Rota's records from INFO on to the handler, and of everybody else the warnings."""
    root, own = logging.getLogger(), logging.getLogger(LOGGER)
    level = own.level
    root.addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeHandler(handler)
